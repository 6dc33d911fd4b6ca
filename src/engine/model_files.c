#include "engine/model_files.h"

#include "base/memory.h"
#include "comm/agreement.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { PIECE_ELEMENTS = 1 << 18, MOST_SETTINGS_BYTES = 64 << 20 };

/* Converts values from fp64 to the parameter's type, and writes them to its memory. */
static tri_status write_piece(const tri_executor *executor, tri_dtype type, const double *from, int64_t count,
                              float *narrow, char *to) {
  const tri_checkpoint_memory *memory = tri_executor_memory(executor);
  const size_t bytes = (size_t)count * tri_dtype_bytes(type);
  const void *values = narrow;
  switch (type) {
    case TRI_FP64: values = from; break;
    case TRI_FP32:
      for (int64_t i = 0; i < count; i++) narrow[i] = (float)from[i];
      break;
    case TRI_BF16:
      for (int64_t i = 0; i < count; i++) ((uint16_t *)(void *)narrow)[i] = tri_bf16_of((float)from[i]);
      break;
    case TRI_INT32: return tri_fail_internal("weights of %s", tri_dtype_name(type));
  }
  if (memory != NULL) return memory->write(memory->context, to, values, bytes);
  memcpy(to, values, bytes);
  return TRI_OK;
}

/* Loads elements [first, first + count) of a tensor on disk. */
static tri_status load_pieces(const tri_merged *weights, const tri_parameter *on_disk, const tri_low_rank *factors,
                              const tri_executor *executor, tri_dtype type, int64_t first, int64_t count, double *wide,
                              float *narrow, char *to, uint64_t *sum) {
  const size_t element = tri_dtype_bytes(type);
  for (int64_t done = 0; done < count; done += PIECE_ELEMENTS) {
    const int64_t piece = count - done < PIECE_ELEMENTS ? count - done : PIECE_ELEMENTS;
    const tri_checkpoint_slice slice = {.first = first + done, .count = piece, .data = wide};
    TRI_TRY(tri_merged_read_part(weights, on_disk, factors, TRI_FP64, &slice, sum));
    TRI_TRY(write_piece(executor, type, wide, piece, narrow, to + (size_t)done * element));
  }
  return TRI_OK;
}

static tri_status load_runs(const tri_merged *weights, const tri_parameter *tensor, const tri_low_rank *factors,
                            const tri_executor *executor, tri_dtype type, double *wide, float *narrow, char *to,
                            uint64_t *sum) {
  const tri_parameter on_disk = tri_parameter_on_disk(tensor);
  const int64_t count = tri_parameter_global_count(tensor), length = tri_parameter_run_length(tensor);
  const size_t element = tri_dtype_bytes(type);
  for (int64_t i = 0; i * length < count; i++) {
    TRI_TRY(load_pieces(weights, &on_disk, factors, executor, type, tri_parameter_run(tensor, i), length, wide, narrow,
                        to + (size_t)(i * length) * element, sum));
  }
  return TRI_OK;
}

static tri_status load_merged(const tri_merged *weights, const tri_parameter *tensor, const tri_low_rank *factors,
                              const tri_executor *executor, tri_dtype type, char *to, uint64_t *sum) {
  double *wide = NULL;
  float *narrow = NULL;
  TRI_TRY(tri_alloc("a piece of a tensor", PIECE_ELEMENTS, sizeof *wide, &wide));
  tri_status status = tri_alloc("a piece of a tensor", PIECE_ELEMENTS, sizeof *narrow, &narrow);
  if (status == TRI_OK) status = load_runs(weights, tensor, factors, executor, type, wide, narrow, to, sum);
  tri_free(narrow);
  tri_free(wide);
  return status;
}

/* Loads tensor `number` of a parameter. `values`: memory of the whole parameter. */
static tri_status load_tensor(const tri_merged *weights, const tri_parameter *parameter, int64_t number,
                              const tri_executor *executor, char *values, uint64_t *sum) {
  const tri_dtype type = tri_stored_type(parameter->stored, executor->type);
  int64_t first = 0;
  tri_low_rank factors;
  const tri_parameter tensor = tri_parameter_tensor(parameter, number, &first);
  const tri_parameter on_disk = tri_parameter_on_disk(&tensor);
  const tri_checkpoint *from = tri_merged_source(weights, tensor.name);
  tri_checkpoint_slice slice = {.part = &tensor,
                                .count = tri_parameter_global_count(&tensor),
                                .data = values + (size_t)first * tri_dtype_bytes(type),
                                .memory = tri_executor_memory(executor)};
  TRI_TRY(tri_merged_factors(weights, &on_disk, &factors));
  tri_status status = TRI_OK;
  if (!tri_low_rank_is_plain(&factors)) {
    status = load_merged(weights, &tensor, &factors, executor, type, slice.data, sum);
  } else {
    status = tri_checkpoint_read_part(from, tensor.name, type, on_disk.num_dims, on_disk.shape, &slice, sum);
  }
  tri_low_rank_release(&factors);
  TRI_TRY(status);
  return tri_checkpoint_check_finite(from, &tensor, type, &slice);
}

/* Returns whether the entry is the last part of a tensor on disk. */
static bool is_last_part(const tri_parameter_table *table, int64_t entry) {
  return entry + 1 == table->num_entries || !tri_parameter_continues(&table->entries[entry + 1]);
}

static tri_status load_entry(const tri_merged *weights, const tri_parameter_table *table, int64_t entry,
                             const tri_executor *executor, uint64_t *sum) {
  const tri_parameter *parameter = &table->entries[entry];
  for (int64_t t = 0, first = 0; t < tri_parameter_num_tensors(parameter); t++) {
    const tri_parameter tensor = tri_parameter_tensor(parameter, t, &first);
    if (!tri_parameter_continues(parameter)) *sum = 0;
    TRI_TRY(load_tensor(weights, parameter, t, executor, executor->weights->parameters[entry].value, sum));
    if (is_last_part(table, entry)) TRI_TRY(tri_merged_compare(weights, &tensor, *sum));
  }
  return TRI_OK;
}

tri_status tri_model_files_load(const tri_merged *weights, const tri_parameter_table *table, tri_executor *executor,
                                uint64_t *sum) {
  uint64_t of_tensor = 0, of_all = 0;
  TRI_TRY(tri_queue_finish(executor->device->queue)); /* the host writes to the arrays */
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (table->entries[i].alias) continue;
    TRI_TRY(load_entry(weights, table, i, executor, &of_tensor));
    of_all = XXH3_64bits_withSeed(&of_tensor, sizeof of_tensor, of_all);
  }
  tri_weights_changed(executor->weights);
  if (sum != NULL) *sum = of_all;
  return TRI_OK;
}

/* Adds the settings of a model's or an adapter's folder, if it has this file. */
static tri_status add_settings(const tri_checkpoint *from, const char *name, uint64_t *sum) {
  char path[TRI_PATH_BYTES];
  char *text = NULL;
  size_t bytes = 0;
  if (from == NULL) return TRI_OK;
  if (snprintf(path, sizeof path, "%s/%s", tri_checkpoint_path(from), name) >= (int)sizeof path) return TRI_OK;
  if (!tri_path_exists(path)) return TRI_OK;
  TRI_TRY(tri_file_read(path, MOST_SETTINGS_BYTES, &text, &bytes));
  *sum = XXH3_64bits_withSeed(text, bytes, *sum);
  tri_free(text);
  return TRI_OK;
}

tri_status tri_model_files_agree(const tri_group *group, const tri_merged *weights, uint64_t sum) {
  char what[TRI_PATH_BYTES + 16];
  if (group->size == 1) return TRI_OK;
  tri_status status = add_settings(weights->named, "config.json", &sum);
  if (status == TRI_OK) status = add_settings(weights->named, "adapter_config.json", &sum);
  if (status == TRI_OK) status = add_settings(weights->base, "config.json", &sum);
  TRI_TRY(tri_common_status(group, status));
  snprintf(what, sizeof what, "model (%s)", tri_checkpoint_path(weights->named));
  return tri_must_agree(group, what, (const char *)&sum, sizeof sum);
}

/* An adapter without a tokenizer uses its base's. */
const char *tri_model_files_tokenizer_folder(const tri_merged *weights) {
  char path[TRI_PATH_BYTES];
  bool found = false;
  const char *folder = tri_checkpoint_path(weights->named);
  if (weights->base == NULL || tri_tokenizer_of_folder(folder, path, &found) != TRI_OK) return folder;
  return found ? folder : tri_checkpoint_path(weights->base);
}

tri_status tri_model_files_tokenizer(const tri_merged *weights, const char *given, bool verify,
                                     char path[TRI_PATH_BYTES]) {
  if (given != NULL) {
    TRI_TRY(tri_tokenizer_path(given, path));
    return verify ? tri_checkpoint_verify_file(path) : TRI_OK;
  }
  bool found = false;
  TRI_TRY(tri_tokenizer_of_folder(tri_model_files_tokenizer_folder(weights), path, &found));
  if (!found) path[0] = '\0';
  return TRI_OK;
}
