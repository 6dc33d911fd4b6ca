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

tri_status tri_weights_load(const tri_checkpoint *checkpoint, const tri_parameter_table *table,
                            tri_executor *executor) {
  tri_dtype wide = tri_dtype_wide(executor->type);
  TRI_TRY(tri_queue_finish(executor->device->queue)); /* the host writes to its arrays */
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *parameter = &table->entries[i];
    if (parameter->alias) continue;
    tri_checkpoint_slice slice = {.count = tri_parameter_global_count(parameter),
                                  .data = executor->parameters[i].value,
                                  .memory = tri_executor_memory(executor)};
    TRI_TRY(tri_checkpoint_read(checkpoint, parameter->name, wide, parameter->num_dims, parameter->shape, slice.memory,
                                slice.data));
    TRI_TRY(tri_checkpoint_check_finite(checkpoint, parameter, wide, &slice));
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
