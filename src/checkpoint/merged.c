#include "checkpoint/merged.h"

#include "base/log.h"
#include "base/loop_threads.h"
#include "base/memory.h"
#include "checkpoint/base_matrix.h"
#include "checkpoint/base_signature.h"
#include "checkpoint/config_vs_weights.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/peft.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_targets.h"
#include "checkpoint/peft_tensors.h"
#include "checkpoint/principal.h"
#include "checkpoint/tensor_list.h"
#include "checkpoint/ties.h"
#include "files/hub.h"
#include "model/trainable.h"
#include "model/trainable_match.h"

#include <stdio.h>
#include <string.h>

/* ---- the adapter's tensors --------------------------------------------------------------------------------------- */

/* Writes the name of factor `which` ('A' or 'B') of a matrix to `out`; returns false if the matrix is not a module's
 * weight. */
static bool factor_name(const tri_parameter *matrix, char which, char out[TRI_PEFT_NAME_BYTES]) {
  static const char ending[] = ".weight";
  const size_t length = strlen(matrix->name), tail = strlen(ending);
  if (length < tail || strcmp(matrix->name + length - tail, ending) != 0) return false;
  tri_trainable_factor_name(matrix, which, out, TRI_PEFT_NAME_BYTES);
  return true;
}

/* Writes the name of the magnitudes of a matrix to `out`; returns false if the matrix is not a module's weight. */
static bool magnitude_name(const char *weight, char out[TRI_PEFT_NAME_BYTES]) {
  static const char ending[] = ".weight";
  const size_t length = strlen(weight), tail = strlen(ending);
  if (length < tail || strcmp(weight + length - tail, ending) != 0) return false;
  snprintf(out, TRI_PEFT_NAME_BYTES, "%.*s." TRI_MAGNITUDE_NAME, (int)(length - tail), weight);
  return true;
}

static void mark(const tri_checkpoint *adapter, const char *name, bool *used) {
  const int64_t index = tri_checkpoint_index_of(adapter, name);
  if (index >= 0) used[index] = true;
}

/* If the adapter has the tensor, marks it as used, and checks its shape. */
static tri_status mark_shaped(const tri_checkpoint *adapter, const char *name, int num_dims, const int64_t *shape,
                              bool *used) {
  if (tri_checkpoint_index_of(adapter, name) < 0) return TRI_OK;
  mark(adapter, name, used);
  return tri_checkpoint_check_shape(adapter, name, num_dims, shape);
}

/* Marks the factors of an expert's matrix as used. Sets *single to whether the matrix has a pair of its own. */
static tri_status mark_experts(const tri_checkpoint *adapter, const tri_adapter *settings, const tri_parameter *tensor,
                               bool *used, bool *single) {
  tri_peft_expert_pair pair;
  TRI_TRY(tri_peft_find_expert_pair(adapter, settings, tensor, &pair));
  *single = pair.single;
  if (pair.a[0] == '\0') return TRI_OK;
  mark(adapter, pair.a, used);
  mark(adapter, pair.b, used);
  return TRI_OK;
}

/* Marks the tensors of the adapter that belong to one tensor of the model (itself, its factors and magnitudes), and
 * checks their shapes. mark_all_experts marks the factors of experts. */
static tri_status mark_tensor(const tri_checkpoint *adapter, const tri_adapter *settings, const tri_parameter *tensor,
                              bool *used) {
  char name[TRI_PEFT_NAME_BYTES];
  TRI_TRY(mark_shaped(adapter, tensor->name, tensor->num_dims, tensor->shape, used));
  if (tensor->placement.has_holders || tensor->num_dims != 2) return TRI_OK;
  const int64_t rank = tri_adapter_pair_of(settings, tensor->name).rank;
  const int out = tri_trainable_is_in_out(tensor) ? 1 : 0;
  const int64_t shapes[2][2] = {{rank, tensor->shape[1 - out]}, {tensor->shape[out], rank}};
  for (int k = 0; k < 2; k++) {
    if (factor_name(tensor, "AB"[k], name)) TRI_TRY(mark_shaped(adapter, name, 2, shapes[k], used));
  }
  return magnitude_name(tensor->name, name) ? mark_shaped(adapter, name, 1, &tensor->shape[out], used) : TRI_OK;
}

/* Marks the factors of experts. In PEFT gate and up are one parameter, so factors of only one of them are refused. */
static tri_status mark_all_experts(const tri_checkpoint *adapter, const tri_adapter *settings,
                                   const tri_tensor_list *list, bool *used) {
  bool single = false;
  for (int64_t t = 0; t < list->count; t++) {
    const tri_parameter *tensor = &list->tensors[t];
    const bool had = single, behind = tensor->stacked.number % (tensor->stacked.kinds < 1 ? 1 : tensor->stacked.kinds);
    if (!tensor->placement.has_holders) continue;
    TRI_TRY(mark_experts(adapter, settings, tensor, used, &single));
    if (!behind || had == single) continue;
    return tri_fail(TRI_BAD_FILE,
                    "%s has factors of one of `%s` and `%s`, which are one parameter in transformers 5, so that PEFT "
                    "refuses it; train both, or neither",
                    tri_checkpoint_path(adapter), list->tensors[t - 1].name, tensor->name);
  }
  return TRI_OK;
}

static tri_status check_used(const tri_checkpoint *adapter, const bool *used) {
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(adapter); i++) {
    if (used[i]) continue;
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(adapter, i);
    return tri_fail(TRI_BAD_FILE, "%s: the base's model has no place for the tensor `%.200s`", entry.file,
                    entry.tensor->name);
  }
  return TRI_OK;
}

/* Returns whether the module of a weight has factors: names that begin with "MODULE.lora_". */
static bool has_factors(const tri_checkpoint *adapter, const char *weight) {
  const int length = tri_trainable_module_length(weight);
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(adapter); i++) {
    const char *name = tri_peft_own_name(tri_checkpoint_get_entry(adapter, i).tensor->name);
    if (strncmp(name, weight, (size_t)length) == 0 && strncmp(name + length, ".lora_", 6) == 0) return true;
  }
  return false;
}

/* Returns whether a tensor belongs to the module of a weight: the weight itself, a bias, a factor or magnitudes. */
static bool is_of(const char *name, const char *weight) {
  const size_t length = (size_t)tri_trainable_module_length(weight);
  return strncmp(name, weight, length) == 0 && name[length] == '.';
}

/* Marks the embedding and the tensors of a tied output projection as used: the model's list has only the embedding, to
 * which the projection's tensors belong. Does nothing if the model is not tied. */
static void mark_tied(const tri_checkpoint *adapter, const tri_model *model, bool *used) {
  char head[TRI_PARAMETER_NAME_BYTES], embedding[TRI_PARAMETER_NAME_BYTES];
  if (!tri_ties_names(model, head, embedding)) return;
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(adapter); i++) {
    const char *name = tri_peft_own_name(tri_checkpoint_get_entry(adapter, i).tensor->name);
    used[i] = used[i] || is_of(name, head) || strcmp(name, embedding) == 0;
  }
}

/* Checks that every tensor of the adapter belongs to a tensor of the model, and has the shape that this tensor
 * requires. */
static tri_status check_adapter(const tri_checkpoint *adapter, const tri_adapter *settings, const tri_model *model) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  bool *used = NULL;
  TRI_TRY(tri_parameter_table_create(model, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  if (status == TRI_OK) {
    status =
        tri_alloc("the tensors of an adapter", (size_t)tri_checkpoint_num_tensors(adapter) + 1, sizeof *used, &used);
  }
  for (int64_t t = 0; t < list.count && status == TRI_OK; t++) {
    status = mark_tensor(adapter, settings, &list.tensors[t], used);
  }
  if (status == TRI_OK) status = mark_all_experts(adapter, settings, &list, used);
  if (status == TRI_OK) mark_tied(adapter, model, used);
  if (status == TRI_OK) status = check_used(adapter, used);
  tri_free(used);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tri_status find_base(const tri_checkpoint *adapter, const tri_peft *peft, const char *given,
                            const tri_checkpoint_use *use, char path[TRI_PATH_BYTES]) {
  const char *folder = tri_checkpoint_path(adapter);
  if (given != NULL) return tri_checkpoint_find(given, use, path);
  if (peft->base[0] == '\0') {
    return tri_fail(TRI_BAD_USAGE, "%s is an adapter that does not name its base; give the base's folder with --base",
                    folder);
  }
  char found[TRI_PATH_BYTES], advice[TRI_HUB_ADVICE_BYTES];
  TRI_TRY(tri_hub_resolve(peft->base, found));
  if (!tri_path_is_directory(found)) {
    return tri_fail(TRI_BAD_USAGE,
                    "%s is an adapter of %.200s, which is not an existing folder; name its base's folder with --base%s",
                    folder, peft->base, tri_hub_advice(peft->base, advice));
  }
  return tri_checkpoint_find(peft->base, use, path);
}

/* Refuses a base with another signature than that of the adapter's base; only warns if `verify` is false. */
static tri_status check_signature(const tri_merged *merged, const tri_peft *peft, const tri_model *model, bool verify) {
  char there[TRI_BASE_SIGNATURE_TEXT_BYTES], here[TRI_BASE_SIGNATURE_TEXT_BYTES];
  tri_base_signature found;
  TRI_TRY(tri_base_signature_of(merged->base, model, NULL, &found));
  if (tri_base_signature_same(&peft->signature, &found)) return TRI_OK;
  tri_status status =
      tri_fail(TRI_BAD_CONFIG,
               "%s is an adapter of a base with signature %s%s%s, and that of %s is %s; name its own base with --base",
               tri_checkpoint_path(merged->named), tri_base_signature_text(&peft->signature, there),
               peft->base[0] == '\0' ? "" : ", then at ", peft->base, tri_checkpoint_path(merged->base),
               tri_base_signature_text(&found, here));
  if (verify) return status;
  tri_warn("%s", tri_status_message());
  return TRI_OK;
}

/* Loads the models of the base and of the adapter. The adapter's model is the base's, unless its folder has a
 * config.json: that of a run also has the settings that the run changed. */
static tri_status load_models(const tri_merged *merged, bool verify, tri_model *base, tri_model *out) {
  char path[TRI_PATH_BYTES];
  const char *folder = tri_checkpoint_path(merged->named);
  TRI_TRY(tri_ties_load_model(merged->base, verify, true, base));
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  if (!tri_path_exists(path)) {
    *out = *base;
    return TRI_OK;
  }
  TRI_TRY(verify ? tri_huggingface_load(folder, out) : tri_huggingface_load_unverified(folder, out));
  out->tied = base->tied;
  return TRI_OK;
}

/* Returns whether factors break the tie: one of two tied matrices has factors, or each has its own. With
 * ensure_weight_tying PEFT uses the same factors for both, and writes them twice; we write the embedding's. (If the
 * embedding is not called "embed_tokens", PEFT does not tie the factors even with the key, and writes them once.) A
 * broken tie is logged, and removed from `model`. */
static bool break_by_factors(tri_merged *merged, const tri_peft *peft, const char *head, const char *embedding,
                             tri_model *model) {
  const bool of_head = has_factors(merged->named, head), of_embedding = has_factors(merged->named, embedding);
  if (!of_head && !of_embedding) return false;
  if (peft->adapter.ensure_weight_tying && (peft->own || (of_head && of_embedding))) return false;
  model->tied = false;
  if (!tri_checkpoint_has(merged->base, head)) tri_checkpoint_read_as(merged->base, head, embedding);
  tri_log("%s has factors of `%s`%s%s%s and no `ensure_weight_tying`: `%s` and `%s` are not tied in its model",
          tri_checkpoint_path(merged->named), of_head ? head : embedding, of_head && of_embedding ? " and of `" : "",
          of_head && of_embedding ? embedding : "", of_head && of_embedding ? "`" : "", head, embedding);
  return true;
}

/* Handles an adapter that trains one of two tensors that the base ties: sets model->tied to false and logs this if the
 * two then differ, or lets readers of one tensor get the other one. In PEFT the other tensor keeps the base's values,
 * except in two cases (tests/oracle/test_peft_ties.py):
 * - adapter_config.json has ensure_weight_tying. PEFT ignores this key, and writes one tensor, if no module to save is
 *   called embed_tokens or lm_head;
 * - modules_to_save does not name the trained tensor. Both tensors are then the base's tensor, which PEFT overwrites
 *   with each of the two that the adapter has: first with the embedding, then with the output projection. */
static tri_status open_ties(tri_merged *merged, const tri_peft *peft, const tri_model *base, tri_model *model) {
  char head[TRI_PARAMETER_NAME_BYTES], embedding[TRI_PARAMETER_NAME_BYTES];
  const char *folder = tri_checkpoint_path(merged->named);
  bool saves_head = false, saves_embedding = false;
  if (!tri_ties_names(base, head, embedding)) return TRI_OK;
  const bool has_head = tri_checkpoint_has(merged->named, head);
  const bool has_embedding = tri_checkpoint_has(merged->named, embedding);
  const bool ties = peft->keeps_ties && (peft->own || (has_head && has_embedding));
  if (break_by_factors(merged, peft, head, embedding, model) || (!has_head && !has_embedding)) return TRI_OK;
  if (!ties) {
    TRI_TRY(tri_peft_saves(folder, head, &saves_head));
    TRI_TRY(tri_peft_saves(folder, embedding, &saves_embedding));
  }
  if (!saves_head && !saves_embedding) {
    if (has_head && (!has_embedding || !ties)) tri_checkpoint_read_as(merged->named, embedding, head);
    return TRI_OK;
  }
  model->tied = false;
  if (!tri_checkpoint_has(merged->base, head)) tri_checkpoint_read_as(merged->base, head, embedding);
  tri_log("%s has %s%s%s of its own and no `ensure_weight_tying`: `%s` and `%s` are not tied in its model", folder,
          has_head ? head : embedding, has_head && has_embedding ? " and " : "",
          has_head && has_embedding ? embedding : "", head, embedding);
  return TRI_OK;
}

static tri_status open_base(tri_merged *merged, const tri_peft *peft, const char *given, const tri_checkpoint_use *use,
                            tri_model *model) {
  char path[TRI_PATH_BYTES];
  const bool verify = !use->unverified;
  const tri_checkpoint_use itself = {.unverified = use->unverified}; /* use->average is for the adapter alone */
  tri_model own;
  TRI_TRY(find_base(merged->named, peft, given, &itself, path));
  TRI_TRY(tri_checkpoint_open_verified(path, &itself, &merged->base));
  if (tri_checkpoint_is_adapter(merged->base)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "%s is itself an adapter, not a base; make a model of it with `trireme export "
                    "--merge`",
                    path);
  }
  TRI_TRY(load_models(merged, verify, &own, model));
  TRI_TRY(check_signature(merged, peft, &own, verify));
  TRI_TRY(open_ties(merged, peft, &own, model));
  TRI_TRY(tri_peft_check_targets(merged->named, model));
  return check_adapter(merged->named, merged->adapter, model);
}

static tri_status open_adapter(tri_merged *merged, const char *base, const tri_checkpoint_use *use, tri_model *model) {
  tri_peft *peft = NULL;
  TRI_TRY(tri_alloc("an adapter's description", 1, sizeof *peft, &peft));
  tri_status status = tri_peft_load(tri_checkpoint_path(merged->named), !use->unverified, peft);
  if (status == TRI_OK) {
    status = tri_alloc("an adapter's description", 1, sizeof *merged->adapter, &merged->adapter);
  }
  if (status == TRI_OK) status = tri_peft_check_parameters(merged->named, &peft->adapter);
  if (status == TRI_OK) status = tri_peft_check_tensors(merged->named, &peft->adapter);
  if (status == TRI_OK) {
    *merged->adapter = peft->adapter;
    status = tri_base_matrix_quantiser(peft->adapter.quantise, &merged->quantiser);
  }
  if (status == TRI_OK) {
    status = open_base(merged, peft, base, use, model);
  }
  tri_free(peft);
  return status;
}

tri_status tri_merged_open(const char *given, const char *base, const tri_checkpoint_use *use, tri_model *model,
                           tri_merged *out) {
  char path[TRI_PATH_BYTES];
  tri_merged merged = {.named = NULL};
  TRI_TRY(tri_checkpoint_find(given, use, path));
  TRI_TRY(tri_checkpoint_open_verified(path, use, &merged.named));
  tri_status status = TRI_OK;
  if (tri_checkpoint_is_adapter(merged.named)) {
    status = open_adapter(&merged, base, use, model);
  } else if (base != NULL) {
    status = tri_fail(TRI_BAD_USAGE, "%s is not an adapter: --base goes with one", path);
  } else {
    status = tri_ties_load_model(merged.named, !use->unverified, true, model);
  }
  if (status == TRI_OK && !use->settings_only) {
    status = tri_checkpoint_check_model(merged.base == NULL ? merged.named : merged.base, model);
  }
  if (status == TRI_OK) *out = merged;
  if (status != TRI_OK) tri_merged_close(&merged);
  return status;
}

void tri_merged_close(tri_merged *merged) {
  tri_device_destroy(merged->quantiser);
  tri_free(merged->adapter);
  tri_checkpoint_close(merged->base);
  tri_checkpoint_close(merged->named);
  *merged = (tri_merged){.named = NULL};
}

/* ---- factors ----------------------------------------------------------------------------------------------------- */

const tri_checkpoint *tri_merged_source(const tri_merged *merged, const char *name) {
  return merged->base == NULL || tri_checkpoint_has(merged->named, name) ? merged->named : merged->base;
}

/* Reads a whole factor as fp64, transposed if `transposed`. Refuses NaN and infinity. */
static tri_status read_factor(const tri_merged *merged, const char *name, const int64_t shape[2], bool transposed,
                              double **out) {
  double *values = NULL, *turned = NULL;
  const size_t count = (size_t)shape[0] * (size_t)shape[1];
  TRI_TRY(tri_alloc("a factor", count, sizeof *values, &values));
  tri_status status = tri_checkpoint_read(merged->named, name, TRI_FP64, 2, shape, NULL, values);
  if (status == TRI_OK) status = tri_peft_check_numbers(merged->named, name, true, (int64_t)count, values);
  if (status == TRI_OK && transposed) status = tri_alloc("a factor", count, sizeof *turned, &turned);
  if (turned != NULL) {
    for (int64_t i = 0; i < shape[0]; i++) {
      for (int64_t j = 0; j < shape[1]; j++) turned[j * shape[0] + i] = values[i * shape[1] + j];
    }
    tri_free(values);
    values = turned;
  }
  if (status == TRI_OK) *out = values;
  if (status != TRI_OK) tri_free(values);
  return status;
}

/* Appends the factors' initial values with the opposite sign, which doubles the rank. */
static tri_status subtract_first(const tri_merged *merged, const tri_parameter *tensor, const tri_adapter_pair *pair,
                                 tri_low_rank *out) {
  const int64_t rank = pair->rank, rows = tensor->shape[0], columns = tensor->shape[1];
  tri_principal first = {0};
  double *left = NULL, *right = NULL;
  TRI_TRY(tri_principal_create(merged->base, tensor, pair, &first));
  tri_status status = tri_alloc("a factor", (size_t)(rows * 2 * rank), sizeof *left, &left);
  if (status == TRI_OK) status = tri_alloc("a factor", (size_t)(2 * rank * columns), sizeof *right, &right);
  for (int64_t i = 0; i < rows && status == TRI_OK; i++) {
    for (int64_t k = 0; k < rank; k++) {
      left[i * 2 * rank + k] = out->left[i * rank + k];
      left[i * 2 * rank + rank + k] =
          -(double)(tri_trainable_is_in_out(tensor) ? first.a[k * rows + i] : first.b[i * rank + k]);
    }
  }
  for (int64_t k = 0; k < rank && status == TRI_OK; k++) {
    for (int64_t j = 0; j < columns; j++) {
      right[k * columns + j] = out->right[k * columns + j];
      right[(rank + k) * columns + j] =
          (double)(tri_trainable_is_in_out(tensor) ? first.b[j * rank + k] : first.a[k * columns + j]);
    }
  }
  tri_principal_release(&first);
  if (status != TRI_OK) {
    tri_free(left);
    return status;
  }
  tri_free(out->left);
  tri_free(out->right);
  out->left = left;
  out->right = right;
  out->rank = 2 * rank;
  return TRI_OK;
}

static tri_status read_expert_factors(const tri_merged *merged, const tri_parameter *tensor, tri_low_rank *out) {
  tri_peft_expert_pair found;
  TRI_TRY(tri_peft_find_expert_pair(merged->named, merged->adapter, tensor, &found));
  if (found.a[0] == '\0') return TRI_OK;
  out->rank = found.pair.rank;
  out->scale = found.pair.scale;
  return tri_peft_read_expert_pair(merged->named, tensor, &found, &out->right, &out->left);
}

static tri_status merged_read_factors(const tri_merged *merged, const tri_parameter *tensor, tri_low_rank *out) {
  if (tensor->placement.has_holders) return read_expert_factors(merged, tensor, out);
  char a[TRI_PEFT_NAME_BYTES], b[TRI_PEFT_NAME_BYTES];
  if (!factor_name(tensor, 'A', a) || !factor_name(tensor, 'B', b)) return TRI_OK;
  if (!tri_checkpoint_has(merged->named, a)) return TRI_OK;
  const int in = tri_trainable_is_in_out(tensor) ? 0 : 1;
  const tri_adapter_pair pair = tri_adapter_pair_of(merged->adapter, tensor->name);
  const int64_t rank = pair.rank;
  const int64_t shape_a[2] = {rank, tensor->shape[in]}, shape_b[2] = {tensor->shape[1 - in], rank};
  double **of_a = tri_trainable_is_in_out(tensor) ? &out->left : &out->right,
         **of_b = tri_trainable_is_in_out(tensor) ? &out->right : &out->left;
  out->rank = rank;
  out->scale = pair.scale;
  TRI_TRY(read_factor(merged, a, shape_a, tri_trainable_is_in_out(tensor), of_a));
  TRI_TRY(read_factor(merged, b, shape_b, tri_trainable_is_in_out(tensor), of_b));
  const bool principal = tri_adapter_is_principal(merged->adapter) && !tri_trainable_is_table(tensor);
  return principal ? subtract_first(merged, tensor, &pair, out)
                   : TRI_OK; /* PEFT's PiSSA does not apply to embeddings */
}

/* Reads the magnitudes of a matrix, (*out)[outputs]; sets *out to NULL if the adapter does not have them. Refuses NaN
 * and infinity. */
static tri_status read_magnitudes(const tri_merged *merged, const tri_parameter *tensor, double **out) {
  char name[TRI_PEFT_NAME_BYTES];
  double *values = NULL;
  const int64_t outputs = tensor->shape[tensor->in_out ? 1 : 0];
  *out = NULL;
  if (!magnitude_name(tensor->name, name) || !tri_checkpoint_has(merged->named, name)) return TRI_OK;
  TRI_TRY(tri_alloc("magnitudes", (size_t)outputs, sizeof *values, &values));
  tri_status status = tri_checkpoint_read(merged->named, name, TRI_FP64, 1, &outputs, NULL, values);
  if (status == TRI_OK) status = tri_peft_check_numbers(merged->named, name, true, outputs, values);
  if (status == TRI_OK) *out = values;
  if (status != TRI_OK) tri_free(values);
  return status;
}

/* Scales the outputs of a matrix to the norms in `magnitudes`; an output of zeros is not changed. */
static tri_status apply_magnitudes(const tri_parameter *tensor, const double *magnitudes, double *matrix) {
  const int64_t rows = tensor->shape[0], columns = tensor->shape[1], outputs = tensor->in_out ? columns : rows;
  double *factors = NULL;
  TRI_TRY(tri_alloc("magnitudes", (size_t)outputs, sizeof *factors, &factors));
  tri_base_matrix_norms(tensor, matrix, factors);
  for (int64_t c = 0; c < outputs; c++) factors[c] = factors[c] > 0 ? magnitudes[c] / factors[c] : factors[c];
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t j = 0; j < columns; j++) matrix[i * columns + j] *= factors[tensor->in_out ? j : i];
  }
  tri_free(factors);
  return TRI_OK;
}

static void add_product(const tri_low_rank *factors, int64_t first, int64_t count, double *values);

/* Computes out->whole: the matrix with its factors and magnitudes. Releases the factors. */
static tri_status make_whole(const tri_merged *merged, const tri_parameter *tensor, const double *magnitudes,
                             tri_low_rank *out) {
  if (out->whole == NULL) TRI_TRY(tri_base_matrix_read(merged->base, tensor, merged->quantiser, &out->whole));
  if (out->left != NULL) add_product(out, 0, tri_parameter_global_count(tensor), out->whole);
  tri_free(out->left);
  tri_free(out->right);
  out->left = out->right = NULL;
  return apply_magnitudes(tensor, magnitudes, out->whole);
}

tri_status tri_merged_factors(const tri_merged *merged, const tri_parameter *tensor, tri_low_rank *out) {
  double *magnitudes = NULL;
  *out = (tri_low_rank){.columns = tensor->shape[1]};
  if (merged->base == NULL || tensor->num_dims != 2) return TRI_OK;
  const bool quantised = merged->quantiser != NULL && tri_trainable_can_quantise(tensor);
  const bool is_trained = tri_checkpoint_has(merged->named, tensor->name);
  tri_status status = TRI_OK;
  if (quantised && !is_trained) {
    status = tri_base_matrix_read(merged->base, tensor, merged->quantiser, &out->whole);
  }
  if (status == TRI_OK) status = merged_read_factors(merged, tensor, out);
  if (status == TRI_OK) status = read_magnitudes(merged, tensor, &magnitudes);
  if (status == TRI_OK && magnitudes != NULL) status = make_whole(merged, tensor, magnitudes, out);
  tri_free(magnitudes);
  if (status != TRI_OK) tri_low_rank_release(out);
  return status;
}

void tri_low_rank_release(tri_low_rank *factors) {
  tri_free(factors->left);
  tri_free(factors->right);
  tri_free(factors->whole);
  factors->left = factors->right = NULL;
  factors->whole = NULL;
}

/* Adds the product of the factors to the elements [first, first + count) of a row. */
static void add_to_row(const tri_low_rank *factors, int64_t row, int64_t first, int64_t count, double *values) {
  enum { BLOCK = 256 };
  double sum[BLOCK];
  for (int64_t at = 0; at < count; at += BLOCK) {
    const int64_t some = count - at < BLOCK ? count - at : BLOCK;
    for (int64_t j = 0; j < some; j++) sum[j] = 0;
    for (int64_t k = 0; k < factors->rank; k++) {
      const double left = factors->left[row * factors->rank + k];
      const double *right = factors->right + k * factors->columns + first + at;
      for (int64_t j = 0; j < some; j++) sum[j] += left * right[j];
    }
    for (int64_t j = 0; j < some; j++) values[at + j] += factors->scale * sum[j];
  }
}

/* Adds the product of the factors to the elements [first, first + count) of the matrix. */
static void add_product(const tri_low_rank *factors, int64_t first, int64_t count, double *values) {
  const int64_t columns = factors->columns, end = first + count;
#pragma omp parallel for num_threads(tri_loop_threads())
  for (int64_t row = first / columns; row <= (end - 1) / columns; row++) {
    const int64_t begin = row * columns < first ? first : row * columns;
    const int64_t stop = (row + 1) * columns < end ? (row + 1) * columns : end;
    add_to_row(factors, row, begin - row * columns, stop - begin, values + (begin - first));
  }
}

tri_status tri_merged_read_part(const tri_merged *merged, const tri_parameter *tensor, const tri_low_rank *factors,
                                tri_dtype type, const tri_checkpoint_slice *slice, uint64_t *sum) {
  const tri_checkpoint *from = tri_merged_source(merged, tensor->name);
  if (!tri_low_rank_is_plain(factors) && type != TRI_FP64) {
    return tri_fail_internal("a product is added to %s", tri_dtype_name(type));
  }
  TRI_TRY(tri_checkpoint_read_part(from, tensor->name, type, tensor->num_dims, tensor->shape, slice, sum));
  if (factors->whole != NULL) {
    double *values = slice->data;
    for (int64_t i = 0; i < slice->count; i++) values[i] = factors->whole[slice->first + i];
  }
  if (factors->left != NULL && slice->count > 0) add_product(factors, slice->first, slice->count, slice->data);
  return TRI_OK;
}

tri_status tri_merged_compare(const tri_merged *merged, const tri_parameter *tensor, uint64_t sum) {
  return tri_checkpoint_compare(tri_merged_source(merged, tensor->name), tensor->name, sum);
}
