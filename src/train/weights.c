#include "train/weights.h"

#include <stdio.h>

tri_status tri_weights_find(const char *given, char path[TRI_PATH_BYTES]) {
  char inside[TRI_PATH_BYTES];
  if (!tri_path_is_directory(given)) return tri_fail(TRI_BAD_FILE, "there is no checkpoint's folder %s", given);
  TRI_TRY(tri_path_join(inside, given, "config.json"));
  if (tri_path_exists(inside)) return tri_path_join(path, given, "");
  TRI_TRY(tri_path_join(inside, given, "checkpoints"));
  const char *root = tri_path_is_directory(inside) ? inside : given;
  TRI_TRY(tri_checkpoint_newest(NULL, root, path));
  if (path[0] == '\0') {
    return tri_fail(TRI_BAD_FILE, "%s holds neither a model (config.json) nor a checkpoint (step-...)", given);
  }
  return TRI_OK;
}

tri_status tri_weights_load(const tri_checkpoint *checkpoint, const tri_parameter_table *table,
                            tri_executor *executor) {
  tri_dtype wide = tri_dtype_wide(executor->type);
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *parameter = &table->entries[i];
    if (parameter->alias) continue;
    TRI_TRY(tri_checkpoint_read(checkpoint, parameter->name, wide, parameter->num_dims, parameter->shape,
                                executor->parameters[i].value));
  }
  return TRI_OK;
}

tri_status tri_weights_tokenizer(const char *folder, const char *given, char path[TRI_PATH_BYTES]) {
  if (given != NULL) {
    snprintf(path, TRI_PATH_BYTES, "%s", given);
    return TRI_OK;
  }
  TRI_TRY(tri_path_join(path, folder, "tokenizer.json"));
  if (tri_path_exists(path)) return TRI_OK;
  return tri_fail(TRI_BAD_FILE, "%s has no tokenizer.json; name one with --tokenizer", folder);
}
