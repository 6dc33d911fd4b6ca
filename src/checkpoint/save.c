#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/output.h"
#include "checkpoint/state.h"

#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Notes in `files` what state.json will say of a file; facts is NULL where there was no memory for it. */
static tri_status describe(json_t *files, const char *name, json_t *facts) {
  if (json_object_set_new(files, name, facts) == 0) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the checksums of a checkpoint");
}

static json_t *describe_plain(uint64_t bytes, uint64_t checksum) {
  return json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "xxh3", tri_state_checksum(checksum));
}

/* NULL if there was no memory. */
static json_t *describe_tensors(const tri_safetensors_tensor *tensors, int64_t count, uint64_t file_bytes,
                                const uint64_t *checksums) {
  json_t *sums = json_object();
  for (int64_t i = 0; i < count; i++) {
    if (json_object_set_new(sums, tensors[i].name, tri_state_checksum(checksums[i + 1])) == 0) continue;
    json_decref(sums);
    return NULL;
  }
  return json_pack("{s:I, s:o, s:o}", "bytes", (json_int_t)file_bytes, "header", tri_state_checksum(checksums[0]),
                   "tensors", sums);
}

static tri_status save_tensors(const char *folder, const char *name, const tri_checkpoint_tensor *list, int64_t count,
                               json_t *files) {
  char path[TRI_PATH_BYTES], *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0, *checksums = NULL;
  tri_safetensors_tensor *tensors = NULL;
  const void **data = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_path_join(path, folder, name));
  TRI_TRY_GOTO(tri_alloc("the table of a checkpoint", (size_t)count, sizeof *tensors, &tensors), free_all);
  TRI_TRY_GOTO(tri_alloc("the table of a checkpoint", (size_t)count, sizeof *data, &data), free_all);
  TRI_TRY_GOTO(tri_alloc("the table of a checkpoint", (size_t)count + 1, sizeof *checksums, &checksums), free_all);
  for (int64_t i = 0; i < count; i++) {
    tensors[i].name = list[i].name;
    tensors[i].type = tri_safetensors_type_of(list[i].type);
    tensors[i].num_dims = list[i].num_dims;
    memcpy(tensors[i].shape, list[i].shape, sizeof tensors[i].shape);
    data[i] = list[i].data;
  }
  TRI_TRY_GOTO(tri_safetensors_layout(tensors, count, "pt", &header, &header_bytes, &file_bytes), free_all);
  TRI_TRY_GOTO(tri_safetensors_write(path, tensors, data, count, header, header_bytes, file_bytes, checksums),
               free_all);
  status = describe(files, name, describe_tensors(tensors, count, file_bytes, checksums));
free_all:
  tri_free(header);
  tri_free(checksums);
  tri_free(data);
  tri_free(tensors);
  return status;
}

/* Everything that belongs into the folder, COMPLETE last. */
static tri_status fill_folder(const tri_checkpoint_request *request, const char *folder, json_t *files) {
  char path[TRI_PATH_BYTES];
  size_t config_bytes = strlen(request->model_config);
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_CONFIG));
  TRI_TRY(tri_output_file(path, request->model_config, config_bytes));
  uint64_t config_checksum = tri_checksum(request->model_config, config_bytes);
  TRI_TRY(describe(files, TRI_FILE_CONFIG, describe_plain(config_bytes, config_checksum)));
  if (request->tokenizer != NULL) {
    uint64_t bytes = 0, checksum = 0;
    TRI_TRY(tri_path_join(path, folder, TRI_FILE_TOKENIZER));
    TRI_TRY(tri_output_copy(request->tokenizer, path, &bytes, &checksum));
    TRI_TRY(describe(files, TRI_FILE_TOKENIZER, describe_plain(bytes, checksum)));
  }
  TRI_TRY(save_tensors(folder, TRI_FILE_MODEL, request->weights, request->num_weights, files));
  if (request->num_optimizer > 0) {
    TRI_TRY(save_tensors(folder, TRI_FILE_OPTIMIZER, request->optimizer, request->num_optimizer, files));
  }
  return tri_state_save(folder, &request->state, files);
}

/* Gives the finished folder its name, in place of one of the same step. */
static tri_status publish(const char *root, int64_t step, const char *temporary, const char *final) {
  bool replaces = tri_path_exists(final);
  if (replaces) TRI_TRY(tri_folder_retire(root, step));
  if (rename(temporary, final) == 0) return tri_directory_sync(root);
  tri_status status = tri_fail(TRI_IO_FAILED, "cannot rename %s to %s: %s", temporary, final, strerror(errno));
  char old[TRI_PATH_BYTES];
  if (replaces && tri_folder_path(root, TRI_FOLDER_OLD, step, old) == TRI_OK) (void)rename(old, final);
  return status;
}

static tri_status create_root(const char *root) {
  if (tri_path_is_directory(root)) return TRI_OK;
  char parent[TRI_PATH_BYTES];
  TRI_TRY(tri_directory_create(root));
  TRI_TRY(tri_path_join(parent, root, ".."));
  return tri_directory_sync(parent);
}

/* Removes the temporary folder without losing the message of what went wrong before. */
static tri_status drop_folder(const char *folder, tri_status status) {
  char message[2048];
  snprintf(message, sizeof message, "%s", tri_status_message());
  if (tri_directory_remove(folder) != TRI_OK) tri_warn("%s", tri_status_message());
  return tri_fail(status, "%s", message);
}

tri_status tri_checkpoint_save(const tri_checkpoint_request *request, char path[TRI_PATH_BYTES]) {
  const char *root = request->root;
  int64_t step = request->state.step;
  char temporary[TRI_PATH_BYTES], final[TRI_PATH_BYTES];
  if (step < 0 || request->keep < 0) {
    return tri_fail(TRI_INTERNAL, "a checkpoint of step %" PRId64 " with keep %" PRId64, step, request->keep);
  }
  TRI_TRY(create_root(root));
  if (tri_folder_clear(root, TRI_FOLDER_TEMPORARY) != TRI_OK) {
    tri_warn("an unfinished checkpoint stays: %s", tri_status_message());
  }
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_TEMPORARY, step, temporary));
  TRI_TRY(tri_folder_path(root, TRI_FOLDER_FINAL, step, final));
  if (mkdir(temporary, 0777) != 0) {
    return tri_fail(TRI_IO_FAILED, "cannot create the directory %s: %s", temporary, strerror(errno));
  }
  json_t *files = json_object();
  tri_status status = fill_folder(request, temporary, files);
  json_decref(files);
  if (status == TRI_OK) status = publish(root, step, temporary, final);
  if (status != TRI_OK) return drop_folder(temporary, status);
  if (tri_folder_keep(root, step, request->keep) != TRI_OK) {
    tri_warn("old checkpoints stay: %s", tri_status_message());
  }
  if (path != NULL) snprintf(path, TRI_PATH_BYTES, "%s", final);
  return TRI_OK;
}
