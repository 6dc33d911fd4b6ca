#include "checkpoint/base_signature.h"

#include "checkpoint/output.h"
#include "checkpoint/tensor_list.h"
#include "model/model_config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The texts that are hashed. */
typedef struct words {
  FILE *frame, *values;
  const uint64_t *sums; /* checksums of all tensors of the folder, NULL if unknown (tri_base_signature_of) */
  bool all_known;       /* whether every tensor so far has a checksum */
} words;

static void add_key(void *context, const tri_config_difference *difference) {
  words *w = context;
  if ((difference->change & TRI_CHANGE_FUNCTION) == 0) return;
  fprintf(w->frame, "%s=%s\n", difference->key, difference->left);
}

static void add_sum(const tri_checkpoint *base, const char *name, int64_t index, words *w) {
  const tri_checkpoint_entry entry = tri_checkpoint_get_entry(base, index);
  const uint64_t sum = !entry.has_checksum && w->sums != NULL ? w->sums[index] : entry.checksum;
  fprintf(w->values, "%s %016" PRIx64 "\n", name, sum);
  w->all_known = w->all_known && (entry.has_checksum || w->sums != NULL);
}

/* Adds the scales and code books of a matrix in 4 bits: tensors whose names begin with the matrix's name. */
static void add_scales(const tri_checkpoint *base, const char *name, words *w) {
  const size_t length = strlen(name);
  for (int64_t i = 0; i < tri_checkpoint_num_tensors(base); i++) {
    const char *other = tri_checkpoint_get_entry(base, i).tensor->name;
    if (strncmp(other, name, length) == 0 && other[length] == '.') add_sum(base, other, i, w);
  }
}

static tri_status add_tensor(const tri_checkpoint *base, const tri_parameter *tensor, words *w) {
  char shape[TRI_SAFETENSORS_SHAPE_BYTES];
  const int64_t index = tri_checkpoint_index_of(base, tensor->name);
  if (index < 0) {
    return tri_fail(TRI_BAD_FILE, "%s has no tensor `%s`, which the model of its config.json needs",
                    tri_checkpoint_path(base), tensor->name);
  }
  const tri_checkpoint_entry entry = tri_checkpoint_get_entry(base, index);
  fprintf(w->frame, "%s %s %s\n", tensor->name, tri_safetensors_type_name(entry.tensor->type),
          tri_safetensors_shape_text(entry.tensor->num_dims, entry.tensor->shape, shape));
  add_sum(base, tensor->name, index, w);
  if (tri_checkpoint_four_bits(base, tensor->name) != NULL) add_scales(base, entry.tensor->name, w);
  return TRI_OK;
}

static tri_status add_all(const tri_checkpoint *base, const tri_model *model, words *w) {
  tri_parameter_table *table = NULL;
  tri_tensor_list list = {0};
  tri_model whole = *model; /* a copy of the model without its adapter, which a base does not have */
  const tri_model none = {0};
  whole.tuning = none.tuning;
  tri_config_differences(&tri_model_table, &whole, &none, add_key, w);
  TRI_TRY(tri_parameter_table_create(&whole, NULL, &table));
  tri_status status = tri_tensor_list_create(table, &list);
  for (int64_t t = 0; t < list.count && status == TRI_OK; t++) status = add_tensor(base, &list.tensors[t], w);
  tri_tensor_list_release(&list);
  tri_parameter_table_destroy(table);
  return status;
}

static void hash(const char *text, size_t bytes, char out[TRI_BASE_SIGNATURE_BYTES]) {
  snprintf(out, TRI_BASE_SIGNATURE_BYTES, "%016" PRIx64, tri_checksum(text, bytes));
}

tri_status tri_base_signature_of(const tri_checkpoint *base, const tri_model *model, const uint64_t *sums,
                                 tri_base_signature *out) {
  char *frame = NULL, *values = NULL;
  size_t frame_bytes = 0, values_bytes = 0;
  words w = {.frame = open_memstream(&frame, &frame_bytes), .sums = sums, .all_known = true};
  w.values = open_memstream(&values, &values_bytes);
  tri_status status = TRI_OK;
  if (w.frame == NULL || w.values == NULL) status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a base's signature");
  if (status == TRI_OK) status = add_all(base, model, &w);
  if (w.frame != NULL) (void)fclose(w.frame);
  if (w.values != NULL) (void)fclose(w.values);
  if (status == TRI_OK) {
    *out = (tri_base_signature){.frame = ""};
    hash(frame, frame_bytes, out->frame);
    if (w.all_known) hash(values, values_bytes, out->values);
  }
  free(values);
  free(frame);
  return status;
}

static bool differ(const char *a, const char *b) { return a[0] != '\0' && b[0] != '\0' && strcmp(a, b) != 0; }

bool tri_base_signature_same(const tri_base_signature *a, const tri_base_signature *b) {
  return !differ(a->frame, b->frame) && !differ(a->values, b->values);
}

const char *tri_base_signature_text(const tri_base_signature *signature, char text[TRI_BASE_SIGNATURE_TEXT_BYTES]) {
  const bool known = signature->values[0] != '\0';
  snprintf(text, TRI_BASE_SIGNATURE_TEXT_BYTES, "%s%s%s%s", signature->frame, known ? " (values " : "",
           signature->values, known ? ")" : "");
  return text;
}
