#include "checkpoint/copy_quantised.h"

#include "base/dynamic_map.h"
#include "base/memory.h"
#include "checkpoint/four_bits.h"
#include "checkpoint/huggingface.h"
#include "checkpoint/huggingface_parts.h"
#include "checkpoint/ties.h"
#include "device/kernels.h"
#include "device/nf4.h"
#include "device/queue.h"
#include "files/json_reader.h"
#include "model/trainable.h"
#include "model/trainable_match.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Size of the JSON text in bytes, padded with blanks, so that the file's layout does not depend on the numbers in the
 * text. */
enum { STATE_BYTES = 256 };

/* ---- checks ------------------------------------------------------------------------------------------------------ */

static tri_status check_matrix(const tri_merged *from, const tri_parameter *matrix) {
  if (from->base == NULL && tri_checkpoint_four_bits(from->named, matrix->name) != NULL) {
    return tri_fail(TRI_BAD_USAGE,
                    "export: --quantised: `%s` of %s is already in 4 bits, and quantising it again would change it; "
                    "copy the folder, or name the original model",
                    matrix->name, tri_checkpoint_path(from->named));
  }
  if (matrix->in_out) {
    return tri_fail(TRI_UNSUPPORTED,
                    "export: --quantised: `%s` has the shape [in, out], and transformers needs 4-bit blocks of its "
                    "transpose, which adapter.quantise does not support; export it without --quantised, and quantise "
                    "it when it is loaded (load_in_4bit)",
                    matrix->name);
  }
  if (!tri_trainable_is_linear(matrix)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "export: --quantised: `%s` belongs to an expert, and transformers does not load experts in 4 bits; "
                    "export the model without --quantised; adapter.quantise quantises it when it is read",
                    matrix->name);
  }
  return TRI_OK;
}

tri_status tri_copy_quantised_check(const tri_merged *from, const tri_tensor_list *list) {
  for (int64_t t = 0; t < list->count; t++) {
    if (tri_trainable_can_quantise(&list->tensors[t])) TRI_TRY(check_matrix(from, &list->tensors[t]));
  }
  return TRI_OK;
}

/* ---- the tensors of a matrix ------------------------------------------------------------------------------------- */

void tri_copy_quantised_describe(const tri_parameter *matrix, char names[][TRI_QUANTISED_NAME_BYTES],
                                 tri_checkpoint_tensor *out) {
  const int64_t count = tri_parameter_global_count(matrix);
  const tri_nf4_cut whole = tri_nf4_whole(count);
  const struct {
    const char *suffix;
    bool bytes;
    int64_t count;
  } parts[TRI_QUANTISED_TENSORS] = {
      {"", true, (count + 1) / 2},
      {TRI_FOUR_BITS_ABSMAX, true, tri_nf4_blocks_of(count)},
      {TRI_FOUR_BITS_NESTED_ABSMAX, false, tri_nf4_groups(&whole)},
      {TRI_FOUR_BITS_NESTED_MAP, false, TRI_DYNAMIC_CODES},
      {TRI_FOUR_BITS_MAP, false, TRI_NF4_CODES},
      {TRI_FOUR_BITS_STATE "nf4", true, STATE_BYTES},
  };
  for (int i = 0; i < TRI_QUANTISED_TENSORS; i++) {
    snprintf(names[i], TRI_QUANTISED_NAME_BYTES, "%s%s", matrix->name, parts[i].suffix);
    out[i] = (tri_checkpoint_tensor){
        .name = names[i], .type = TRI_FP32, .bytes = parts[i].bytes, .num_dims = 1, .shape = {parts[i].count}};
  }
  out[0].num_dims = 2; /* the codes are one column */
  out[0].shape[1] = 1;
}

static void print_state(const tri_parameter *matrix, tri_dtype type, float offset, char out[STATE_BYTES + 1]) {
  char text[STATE_BYTES + 1];
  snprintf(text, sizeof text,
           "{\"quant_type\": \"nf4\", \"blocksize\": %d, \"dtype\": \"%s\", \"shape\": [%" PRId64 ", %" PRId64
           "], \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": %.17g}",
           TRI_NF4_BLOCK, tri_huggingface_type_name(type), matrix->shape[0], matrix->shape[1], TRI_NF4_GROUP,
           (double)offset);
  snprintf(out, STATE_BYTES + 1, "%-*s", STATE_BYTES, text);
}

/* Saves all parts of a matrix, from memory laid out as in device/nf4.h. */
static tri_status save_parts(const tri_parameter *matrix, tri_dtype type, char *kept, int64_t number,
                             tri_checkpoint_saving *saving) {
  const int64_t count = tri_parameter_global_count(matrix);
  const tri_nf4_cut whole = tri_nf4_whole(count);
  const tri_nf4_layout at = tri_nf4_layout_of(count);
  float numbers[TRI_NF4_CODES], nested[TRI_DYNAMIC_CODES], offset;
  char state[STATE_BYTES + 1];
  for (int32_t c = 0; c < TRI_NF4_CODES; c++) numbers[c] = tri_nf4_number(c);
  for (int32_t c = 0; c < TRI_DYNAMIC_CODES; c++) nested[c] = tri_dynamic_number(1, c);
  memcpy(&offset, kept + at.offset, sizeof offset);
  print_state(matrix, type, offset, state);
  const tri_checkpoint_slice slices[TRI_QUANTISED_TENSORS] = {
      {.tensor = number, .count = (count + 1) / 2, .data = kept},
      {.tensor = number + 1, .count = at.blocks, .data = kept + at.largest},
      {.tensor = number + 2, .count = tri_nf4_groups(&whole), .data = kept + at.scales},
      {.tensor = number + 3, .count = TRI_DYNAMIC_CODES, .data = nested},
      {.tensor = number + 4, .count = TRI_NF4_CODES, .data = numbers},
      {.tensor = number + 5, .count = STATE_BYTES, .data = state},
  };
  for (int i = 0; i < TRI_QUANTISED_TENSORS; i++) TRI_TRY(tri_checkpoint_save_slice(saving, &slices[i]));
  return TRI_OK;
}

static tri_status quantise(tri_device *device, int64_t count, const float *values, char *kept) {
  TRI_KERNEL_CALL(device->queue, quantise_nf4, TRI_FP32, count, values, kept);
  return tri_queue_finish(device->queue);
}

tri_status tri_copy_quantised_save(tri_device *device, const tri_parameter *matrix, tri_dtype type, float *values,
                                   int64_t number, tri_checkpoint_saving *saving) {
  const int64_t count = tri_parameter_global_count(matrix);
  char *kept = NULL;
  TRI_TRY(tri_alloc("a matrix in 4 bits", tri_nf4_bytes(count), 1, &kept));
  tri_status status = quantise(device, count, values, kept);
  if (status == TRI_OK) status = save_parts(matrix, type, kept, number, saving);
  tri_free(kept);
  return status;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static void add_module(const char *name, json_t *out) {
  json_array_append_new(out, json_stringn(name, (size_t)tri_trainable_module_length(name)));
}

/* Lists the linear modules that transformers must not quantise: the output projection, tied or not. */
static json_t *skipped(const tri_model *model, const tri_tensor_list *list) {
  char head[TRI_PARAMETER_NAME_BYTES], embedding[TRI_PARAMETER_NAME_BYTES];
  json_t *out = json_array();
  for (int64_t t = 0; t < list->count; t++) {
    if (list->tensors[t].part == TRI_PART_HEAD && list->tensors[t].num_dims == 2)
      add_module(list->tensors[t].name, out);
  }
  if (tri_ties_names(model, head, embedding)) add_module(head, out);
  return out;
}

tri_status tri_copy_quantised_add_config(const tri_model *model, const tri_tensor_list *list, tri_dtype type,
                                         char **text) {
  json_t *document = NULL;
  char *copy = NULL;
  TRI_TRY(tri_json_parse("a model's description", *text, strlen(*text), 0, &document));
  json_object_set_new(
      document, "quantization_config",
      json_pack("{s:s, s:b, s:b, s:s, s:b, s:s, s:s, s:o}", "quant_method", "bitsandbytes", "load_in_4bit", 1,
                "load_in_8bit", 0, "bnb_4bit_quant_type", "nf4", "bnb_4bit_use_double_quant", 1,
                "bnb_4bit_compute_dtype", tri_huggingface_type_name(type), "bnb_4bit_quant_storage", "uint8",
                "llm_int8_skip_modules", skipped(model, list)));
  char *printed = tri_huggingface_text(document);
  json_decref(document);
  if (printed == NULL) return tri_fail_internal("a model's description cannot be written as JSON");
  const tri_status status = tri_strdup(printed, &copy);
  free(printed);
  TRI_TRY(status);
  tri_free(*text);
  *text = copy;
  return TRI_OK;
}
