#include "checkpoint/peft_tensors.h"

#include "checkpoint/finite.h"
#include "checkpoint/folder.h"
#include "checkpoint/peft.h"

#include <stdio.h>
#include <string.h>

typedef enum tensor_kind { A, B, EMBEDDING_A, EMBEDDING_B, MAGNITUDE, OTHER } tensor_kind;

/* Returns the end of a tensor's name, after the module's name. */
static const char *ending_of(tensor_kind kind) {
  switch (kind) {
    case A: return ".lora_A.weight";
    case B: return ".lora_B.weight";
    case EMBEDDING_A: return ".lora_embedding_A";
    case EMBEDDING_B: return ".lora_embedding_B";
    case MAGNITUDE: return "." TRI_MAGNITUDE_NAME;
    case OTHER: break;
  }
  return "";
}

static tensor_kind kind_of(const char *name, int *module_length) {
  static const tensor_kind kinds[] = {A, B, EMBEDDING_A, EMBEDDING_B, MAGNITUDE};
  const size_t length = strlen(name);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    const char *ending = ending_of(kinds[k]);
    const size_t tail = strlen(ending);
    *module_length = (int)(length - tail);
    if (length > tail && strcmp(name + length - tail, ending) == 0) return kinds[k];
  }
  return OTHER;
}

/* Finds a tensor of a module; NULL if there is no such tensor. */
static const tri_safetensors_tensor *find_kind(const tri_checkpoint *adapter, const char *module, int length,
                                               tensor_kind kind) {
  char name[TRI_PEFT_NAME_BYTES];
  snprintf(name, sizeof name, "%.*s%s", length, module, ending_of(kind));
  const int64_t at = tri_checkpoint_index_of(adapter, name);
  return at < 0 ? NULL : tri_checkpoint_get_entry(adapter, at).tensor;
}

static bool is_of_experts(const char *module, int length) {
  static const char word[] = "experts";
  for (int i = 0; i + (int)strlen(word) <= length; i++) {
    if (strncmp(module + i, word, strlen(word)) == 0) return true;
  }
  return false;
}

/* Checks the rank of a pair. Factors of experts have the sum of the ranks of all experts; tri_peft_find_expert_pair
 * checks them. */
static tri_status check_rank(const tri_checkpoint_entry *a, const tri_safetensors_tensor *b, const char *module,
                             int length, const tri_adapter *settings) {
  char matrix[TRI_PEFT_NAME_BYTES], shape[TRI_SAFETENSORS_SHAPE_BYTES], other[TRI_SAFETENSORS_SHAPE_BYTES];
  snprintf(matrix, sizeof matrix, "%.*s.weight", length, module);
  const tri_adapter_pair pair = tri_adapter_pair_of(settings, matrix);
  const tri_safetensors_tensor *tensor = a->tensor;
  if (is_of_experts(module, length)) return TRI_OK;
  if (tensor->num_dims != 2 || tensor->shape[0] != pair.rank) {
    return tri_fail(TRI_BAD_FILE,
                    "%s: tensor `%s` has shape %s, but the rank `%s` of " TRI_FILE_ADAPTER_CONFIG " is %ld", a->file,
                    tensor->name, tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape),
                    pair.rank_from < 0 ? "r" : "rank_pattern", (long)pair.rank);
  }
  if (b->num_dims == 2 && b->shape[1] == tensor->shape[0]) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: tensors `%s` and `%s` have shapes %s and %s, which are not those of one rank",
                  a->file, tensor->name, b->name, tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape),
                  tri_safetensors_shape_text(b->num_dims, b->shape, other));
}

static tri_status check_pair(const tri_checkpoint *adapter, const tri_checkpoint_entry *entry, const char *module,
                             int length, tensor_kind kind, const tri_adapter *settings) {
  const bool of_table = kind == EMBEDDING_A || kind == EMBEDDING_B, is_a = kind == A || kind == EMBEDDING_A;
  const tensor_kind opposite = of_table ? (is_a ? EMBEDDING_B : EMBEDDING_A) : (is_a ? B : A);
  const char *folder = tri_checkpoint_path(adapter);
  const tri_safetensors_tensor *other = find_kind(adapter, module, length, opposite);
  const bool has_magnitude = find_kind(adapter, module, length, MAGNITUDE) != NULL;
  if (other == NULL && has_magnitude) {
    return tri_fail(TRI_BAD_FILE, "%s has magnitudes of `%.*s.weight`, but not both factors", folder, length, module);
  }
  if (other == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has only one of the two factors of `%.*s.weight`: `%.*s%s` is missing", folder,
                    length, module, length, module, ending_of(opposite));
  }
  if (!is_a) return TRI_OK;
  TRI_TRY(check_rank(entry, other, module, length, settings));
  if (has_magnitude || !settings->magnitude) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s has no magnitudes of `%.*s.weight`, but `use_dora` of " TRI_FILE_ADAPTER_CONFIG
                  " is true; save the adapter again, or set it to false if the factors were trained without them",
                  folder, length, module);
}

/* Refuses magnitudes of embeddings, magnitudes that use_dora does not announce (PEFT would ignore them), and magnitudes
 * without both factors or with a wrong shape. */
static tri_status check_magnitude(const tri_checkpoint *adapter, const tri_checkpoint_entry *entry, const char *module,
                                  int length, const tri_adapter *settings) {
  const char *folder = tri_checkpoint_path(adapter);
  char shape[TRI_SAFETENSORS_SHAPE_BYTES];
  if (find_kind(adapter, module, length, EMBEDDING_A) != NULL) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s has magnitudes (DoRA) of the embedding `%.*s.weight`, which are not supported; merge this "
                    "adapter with PEFT's merge_and_unload and use the resulting model",
                    folder, length, module);
  }
  if (!settings->magnitude) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has magnitudes of `%.*s.weight`, but `use_dora` of " TRI_FILE_ADAPTER_CONFIG
                    " is false, so PEFT would ignore them; set it to true if the factors were trained with them",
                    folder, length, module);
  }
  const tri_safetensors_tensor *tensor = entry->tensor, *b = find_kind(adapter, module, length, B);
  if (b == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has magnitudes of `%.*s.weight`, but not both factors", folder, length, module);
  }
  if (tensor->num_dims == 1 && tensor->shape[0] == b->shape[0]) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s: tensor `%s` has shape %s, but the matrix of its factors has %ld outputs",
                  entry->file, tensor->name, tri_safetensors_shape_text(tensor->num_dims, tensor->shape, shape),
                  (long)b->shape[0]);
}

static tri_status check_tensor(const tri_checkpoint *adapter, const tri_checkpoint_entry *entry,
                               const tri_adapter *settings) {
  int length = 0;
  const char *module = tri_peft_own_name(entry->tensor->name);
  const tensor_kind kind = kind_of(module, &length);
  switch (kind) {
    case A:
    case B:
    case EMBEDDING_A:
    case EMBEDDING_B: return check_pair(adapter, entry, module, length, kind, settings);
    case MAGNITUDE: return check_magnitude(adapter, entry, module, length, settings);
    case OTHER: break;
  }
  /* Other tensors are trained as a whole, or are optimizer states in a checkpoint of a run. */
  if (strstr(module, ".lora_") == NULL || tri_checkpoint_get_state(adapter) != NULL) return TRI_OK;
  return tri_fail(
      TRI_UNSUPPORTED,
      "%s: the tensor `%.200s` is neither a factor (lora_A, lora_B, lora_embedding_A, lora_embedding_B) nor "
      "magnitudes (" TRI_MAGNITUDE_NAME ")",
      entry->file, entry->tensor->name);
}

tri_status tri_peft_check_tensors(const tri_checkpoint *adapter, const tri_adapter *settings) {
  const int64_t count = tri_checkpoint_num_tensors(adapter);
  if (count == 0) {
    return tri_fail(TRI_BAD_FILE, "%s is an adapter without tensors; save it again", tri_checkpoint_path(adapter));
  }
  for (int64_t i = 0; i < count; i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(adapter, i);
    TRI_TRY(check_tensor(adapter, &entry, settings));
  }
  return TRI_OK;
}

tri_status tri_peft_check_numbers(const tri_checkpoint *adapter, const char *name, bool whole, int64_t count,
                                  const double *values) {
  const int64_t strange = tri_first_not_finite(TRI_SAFETENSORS_F64, count, values);
  char element[48] = "an element";
  if (strange < 0) return TRI_OK;
  if (whole) snprintf(element, sizeof element, "element %ld", (long)strange);
  return tri_fail(TRI_BAD_FILE, "%s: %s of the tensor `%s` is NaN or infinite, so the adapter cannot be used",
                  tri_checkpoint_path(adapter), element, name);
}
