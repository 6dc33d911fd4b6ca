#include "engine/weights.h"

#include "checkpoint/huggingface.h"

#include <stdio.h>

tri_status tri_weights_open(const char *given, bool verify, tri_model *model, tri_checkpoint **out) {
  char path[TRI_PATH_BYTES];
  tri_checkpoint_use use = {.unverified = !verify};
  tri_checkpoint *checkpoint = NULL;
  TRI_TRY(tri_checkpoint_find(given, &use, path));
  TRI_TRY(tri_checkpoint_open_verified(path, &use, &checkpoint));
  tri_status status = verify ? tri_huggingface_load(path, model) : tri_huggingface_load_unverified(path, model);
  if (status == TRI_OK) {
    *out = checkpoint;
  } else {
    tri_checkpoint_close(checkpoint);
  }
  return status;
}

/* `values` are those of the whole parameter. */
static tri_status load_tensor(const tri_checkpoint *checkpoint, const tri_parameter *parameter, int64_t number,
                              const tri_executor *executor, char *values) {
  tri_dtype wide = tri_dtype_wide(executor->type);
  int64_t first = 0;
  const tri_parameter tensor = tri_parameter_tensor(parameter, number, &first);
  tri_checkpoint_slice slice = {.count = tri_parameter_global_count(&tensor),
                                .data = values + (size_t)first * tri_dtype_bytes(wide),
                                .memory = tri_executor_memory(executor)};
  TRI_TRY(tri_checkpoint_read(checkpoint, tensor.name, wide, tensor.num_dims, tensor.shape, slice.memory, slice.data));
  return tri_checkpoint_check_finite(checkpoint, &tensor, wide, &slice);
}

tri_status tri_weights_load(const tri_checkpoint *checkpoint, const tri_parameter_table *table,
                            tri_executor *executor) {
  TRI_TRY(tri_queue_finish(executor->device->queue)); /* the host writes to its arrays */
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *parameter = &table->entries[i];
    if (parameter->alias) continue;
    for (int64_t t = 0; t < tri_parameter_num_tensors(parameter); t++) {
      TRI_TRY(load_tensor(checkpoint, parameter, t, executor, executor->parameters[i].value));
    }
  }
  return TRI_OK;
}

tri_status tri_weights_tokenizer(const tri_checkpoint *checkpoint, const char *given, bool verify,
                                 char path[TRI_PATH_BYTES]) {
  if (given != NULL) {
    if (snprintf(path, TRI_PATH_BYTES, "%s", given) >= TRI_PATH_BYTES) {
      return tri_fail(TRI_BAD_USAGE, "the path %s is too long", given);
    }
    return verify ? tri_checkpoint_verify_file(path) : TRI_OK;
  }
  TRI_TRY(tri_path_join(path, tri_checkpoint_path(checkpoint), "tokenizer.json"));
  if (!tri_path_exists(path)) path[0] = '\0';
  return TRI_OK;
}
