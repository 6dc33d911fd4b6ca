/* Writes a Hugging Face folder from one process. The files are written to a temporary folder next to it, which is
 * renamed at the end. */
#include "api/api.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/named_folder.h"
#include "checkpoint/safetensors.h"
#include "files/file.h"

#include "trireme/checkpoint.h"

#include <stdio.h>
#include <string.h>

struct trireme_checkpoint_writer {
  char folder[TRI_PATH_BYTES];
  /* Text of config.json. */
  char *config;
  tri_safetensors_tensor *tensors; /* [count], tensors to write; their names are copies */
  const void **data;               /* [count], values of the tensors, borrowed from the caller until the commit */
  /* Number of tensors, and number for which the lists have room. */
  int64_t count, room;
};

trireme_status trireme_checkpoint_writer_create(const char *folder, const char *config,
                                                trireme_checkpoint_writer **out) {
  TRI_API_PLAIN_NUMBERS;
  TRI_API_WANTS(folder);
  TRI_API_WANTS(config);
  TRI_API_WANTS(out);
  trireme_checkpoint_writer *made = NULL;
  if (tri_path_exists(folder)) {
    return tri_api_status(tri_fail(TRI_BAD_USAGE, "%s already exists; name a new folder", folder));
  }
  TRI_API_TRY(tri_alloc("a writer", 1, sizeof *made, &made));
  tri_status status = tri_path_with(made->folder, folder, "");
  if (status == TRI_OK) status = tri_strdup(config, &made->config);
  if (status == TRI_OK) {
    *out = made;
  } else {
    trireme_checkpoint_writer_destroy(made);
  }
  return tri_api_status(status);
}

void trireme_checkpoint_writer_destroy(trireme_checkpoint_writer *writer) {
  if (writer == NULL) return;
  for (int64_t i = 0; i < writer->count; i++) tri_free((char *)writer->tensors[i].name);
  tri_free(writer->tensors);
  tri_free(writer->data);
  tri_free(writer->config);
  tri_free(writer);
}

static tri_status make_room(trireme_checkpoint_writer *writer) {
  int64_t room = writer->room;
  TRI_TRY(tri_grow("tensors", sizeof *writer->tensors, writer->count, &room, &writer->tensors));
  return tri_grow("tensors", sizeof *writer->data, writer->count, &writer->room, &writer->data);
}

static tri_status check_shape(const char *name, int num_dims, const int64_t *lengths) {
  if (num_dims < 0 || num_dims > TRI_SAFETENSORS_DIMS) {
    return tri_fail(TRI_BAD_USAGE, "tensor `%s` has %d dimensions; it can have up to %d", name, num_dims,
                    TRI_SAFETENSORS_DIMS);
  }
  int64_t most = INT64_MAX / 8, elements = 1;
  for (int d = 0; d < num_dims; d++) {
    if (lengths[d] < 1 || elements > most / lengths[d]) {
      return tri_fail(TRI_BAD_USAGE, "tensor `%s`: %lld is not a length of dimension %d", name, (long long)lengths[d],
                      d);
    }
    elements *= lengths[d];
  }
  return TRI_OK;
}

trireme_status trireme_checkpoint_writer_add(trireme_checkpoint_writer *writer, const char *name, trireme_type type,
                                             int num_dims, const int64_t *lengths, const void *data) {
  TRI_API_WANTS(writer);
  TRI_API_WANTS(name);
  TRI_API_WANTS(lengths);
  TRI_API_WANTS(data);
  char *copy = NULL;
  tri_dtype kept;
  if (!tri_api_type(type, &kept)) return tri_api_status(tri_fail(TRI_BAD_USAGE, "there is no type %d", (int)type));
  TRI_API_TRY(check_shape(name, num_dims, lengths));
  for (int64_t i = 0; i < writer->count; i++) {
    if (strcmp(writer->tensors[i].name, name) != 0) continue;
    return tri_api_status(tri_fail(TRI_BAD_USAGE, "there are two tensors `%s`", name));
  }
  TRI_API_TRY(make_room(writer));
  TRI_API_TRY(tri_strdup(name, &copy));
  tri_safetensors_tensor *tensor = &writer->tensors[writer->count];
  *tensor = (tri_safetensors_tensor){.name = copy, .type = tri_safetensors_type_of(kept), .num_dims = num_dims};
  memcpy(tensor->shape, lengths, (size_t)num_dims * sizeof *lengths);
  writer->data[writer->count++] = data;
  return TRIREME_OK;
}

static tri_status write_files(const trireme_checkpoint_writer *writer, const char *temporary) {
  char path[TRI_PATH_BYTES];
  char *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;
  TRI_TRY(tri_path_join(path, temporary, TRI_FILE_CONFIG));
  TRI_TRY(tri_file_replace(path, writer->config, strlen(writer->config)));
  TRI_TRY(tri_path_join(path, temporary, TRI_FILE_MODEL));
  TRI_TRY(tri_safetensors_layout(writer->tensors, writer->count, "pt", &header, &header_bytes, &file_bytes));
  tri_status status =
      tri_safetensors_write(path, writer->tensors, writer->data, writer->count, header, header_bytes, file_bytes, NULL);
  tri_free(header);
  return status;
}

trireme_status trireme_checkpoint_writer_commit(trireme_checkpoint_writer *writer) {
  TRI_API_PLAIN_NUMBERS;
  TRI_API_WANTS(writer);
  tri_named_folder folder = {.lock = NULL};
  tri_status status = tri_named_folder_begin(writer->folder, &folder);
  if (status == TRI_OK) status = write_files(writer, folder.temporary);
  if (status == TRI_OK) status = tri_named_folder_finish(&folder);
  if (status == TRI_OK) return TRIREME_OK;
  tri_saved_error *failure = NULL; /* keeps the error message during the clean-up */
  if (tri_alloc("a message", 1, sizeof *failure, &failure) != TRI_OK) return TRIREME_OUT_OF_MEMORY;
  tri_error_save(failure, status);
  (void)tri_named_folder_drop(&folder);
  status = tri_saved_error_restore(failure);
  tri_free(failure);
  return tri_api_status(status);
}
