/* Safetensors files through our reader and writer, for Python to compare with its own:
 *
 *   list FILE           one JSON object: name -> [type, shape, begin, end], and "__metadata__" -> the format
 *   copy FROM TO        every tensor byte for byte, through a new header
 *   convert FROM TO T   every tensor read as fp32 or fp64 and written as that
 *
 * Fails with 1 and the library's message. */
#include "base/memory.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_status list(const tri_safetensors_file *file) {
  json_t *out = json_object();
  for (int64_t i = 0; i < file->header.num_tensors; i++) {
    const tri_safetensors_tensor *tensor = &file->header.tensors[i];
    json_t *shape = json_array();
    for (int d = 0; d < tensor->num_dims; d++) json_array_append_new(shape, json_integer(tensor->shape[d]));
    json_object_set_new(out, tensor->name,
                        json_pack("[s, o, I, I]", tri_safetensors_type_name(tensor->type), shape,
                                  (json_int_t)tensor->offset, (json_int_t)tensor->offset + (json_int_t)tensor->bytes));
  }
  json_object_set_new(out, "__metadata__", json_pack("s?", tri_safetensors_metadata(&file->header, "format")));
  json_dumpf(out, stdout, 0);
  json_decref(out);
  return TRI_OK;
}

/* convert_to is NULL for a plain copy. */
static tri_status rewrite(const tri_safetensors_file *file, const char *to, const tri_dtype *convert_to) {
  int64_t count = file->header.num_tensors;
  tri_safetensors_tensor *tensors = NULL;
  void **data = NULL;
  char *header = NULL;
  size_t header_bytes = 0;
  uint64_t file_bytes = 0;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("tensors", (size_t)count, sizeof *tensors, &tensors), free_all);
  TRI_TRY_GOTO(tri_alloc("tensors", (size_t)count, sizeof *data, &data), free_all);
  for (int64_t i = 0; i < count; i++) {
    tensors[i] = file->header.tensors[i];
    /* Room for any conversion: from 2 bytes to 8. */
    TRI_TRY_GOTO(tri_alloc("a tensor", tensors[i].bytes, 4, &data[i]), free_all);
    if (convert_to != NULL) {
      TRI_TRY_GOTO(tri_safetensors_read(file, &tensors[i], *convert_to, data[i]), free_all);
      tensors[i].type = tri_safetensors_type_of(*convert_to);
    } else {
      TRI_TRY_GOTO(tri_safetensors_read_bytes(file, &tensors[i], 0, tensors[i].bytes, data[i]), free_all);
    }
  }
  const char *format = tri_safetensors_metadata(&file->header, "format");
  TRI_TRY_GOTO(tri_safetensors_layout(tensors, count, format, &header, &header_bytes, &file_bytes), free_all);
  status = tri_safetensors_write(to, tensors, (const void *const *)data, count, header, header_bytes, file_bytes, NULL);
free_all:
  tri_free(header);
  for (int64_t i = 0; data != NULL && i < count; i++) tri_free(data[i]);
  tri_free(data);
  tri_free(tensors);
  return status;
}

static tri_status run(int count, char **arguments) {
  const char *verb = count > 1 ? arguments[1] : "";
  tri_safetensors_file file;
  tri_dtype type = count == 5 && strcmp(arguments[4], "fp64") == 0 ? TRI_FP64 : TRI_FP32;
  if (count < 3) return tri_fail(TRI_BAD_USAGE, "usage: safetensors_tool list|copy|convert FROM [TO [fp32|fp64]]");
  TRI_TRY(tri_safetensors_open(arguments[2], &file));
  tri_status status = tri_fail(TRI_BAD_USAGE, "no such verb: %s", verb);
  if (strcmp(verb, "list") == 0) status = list(&file);
  if (strcmp(verb, "copy") == 0 && count == 4) status = rewrite(&file, arguments[3], NULL);
  if (strcmp(verb, "convert") == 0 && count == 5) status = rewrite(&file, arguments[3], &type);
  tri_safetensors_close(&file);
  return status;
}

int main(int count, char **arguments) {
  if (run(count, arguments) == TRI_OK) return 0;
  fprintf(stderr, "%s\n", tri_status_message());
  return 1;
}
