/* gguf_tool encode TYPE, gguf_tool decode TYPE: converts numbers in fp32 on standard input to blocks of a type on
 * standard output, or the reverse.
 *
 * gguf_tool show FILE: prints a GGUF file as JSON: {"version", "alignment", "keys": {NAME: [TYPE, VALUE]}, "tensors":
 * {NAME: {"type", "dims", "offset", "bytes"}}}, in the order of the file.
 *
 * gguf_tool copy FILE NEW: writes the content of a file to a new one. */
#include "base/memory.h"
#include "gguf/writer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 22, PIECE_BYTES = 1000 };

static tri_status convert(const char *direction, const char *name) {
  static char in[MOST_BYTES], out[8 * MOST_BYTES];
  const tri_gguf_type *type = tri_gguf_type_named(name);
  if (type == NULL) return tri_fail(TRI_BAD_USAGE, "gguf_tool: no type %s", name);
  const size_t elements = (size_t)type->elements * sizeof(float), bytes = (size_t)type->bytes,
               held = fread(in, 1, sizeof in, stdin);
  if (strcmp(direction, "encode") == 0) {
    const int64_t blocks = (int64_t)(held / elements);
    TRI_TRY(tri_gguf_encode(type, blocks, (const float *)in, out));
    fwrite(out, bytes, (size_t)blocks, stdout);
    return TRI_OK;
  }
  const int64_t blocks = (int64_t)(held / bytes);
  TRI_TRY(tri_gguf_decode(type, "standard input", blocks, in, (float *)out));
  fwrite(out, elements, (size_t)blocks, stdout);
  return TRI_OK;
}

/* ---- show -------------------------------------------------------------------------------------------------------- */

static json_t *json_array_of(const tri_gguf_file *file, const tri_gguf_key *key, tri_status *status) {
  json_t *out = json_array();
  int64_t count = 0, *integers = NULL;
  double *numbers = NULL;
  tri_gguf_text *texts = NULL;
  if (key->type == TRI_GGUF_STRING) {
    *status = tri_gguf_get_strings(file, key->name, &texts, &count);
    for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_stringn(texts[i].text, texts[i].bytes));
  } else if (key->type == TRI_GGUF_FLOAT32 || key->type == TRI_GGUF_FLOAT64) {
    *status = tri_gguf_get_numbers(file, key->name, &numbers, &count);
    for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_real(numbers[i]));
  } else if (key->type == TRI_GGUF_BOOL) {
    for (uint64_t i = 0; i < key->count; i++) json_array_append_new(out, json_boolean(key->data[i] != 0));
  } else {
    *status = tri_gguf_get_integers(file, key->name, &integers, &count);
    for (int64_t i = 0; i < count; i++) json_array_append_new(out, json_integer(integers[i]));
  }
  tri_free(integers);
  tri_free(numbers);
  tri_free(texts);
  return out;
}

static json_t *json_value_of(const tri_gguf_file *file, const tri_gguf_key *key, tri_status *status) {
  const char *text = NULL;
  int64_t integer = 0;
  double number = 0;
  bool truth = false;
  if (key->is_array) return json_array_of(file, key, status);
  if (key->type == TRI_GGUF_STRING) {
    *status = tri_gguf_get_string(file, key->name, &text);
    return json_string(text);
  }
  if (key->type == TRI_GGUF_FLOAT32 || key->type == TRI_GGUF_FLOAT64) {
    *status = tri_gguf_get_number(file, key->name, &number);
    return json_real(number);
  }
  if (key->type == TRI_GGUF_BOOL) {
    *status = tri_gguf_get_bool(file, key->name, &truth);
    return json_boolean(truth);
  }
  *status = tri_gguf_get_integer(file, key->name, &integer);
  return json_integer(integer);
}

static tri_status show(const char *path) {
  tri_gguf_file file;
  TRI_TRY(tri_gguf_open(path, &file));
  tri_status status = TRI_OK;
  json_t *keys = json_object(), *tensors = json_object();
  for (int64_t k = 0; k < file.num_keys && status == TRI_OK; k++) {
    json_t *value = json_value_of(&file, &file.keys[k], &status);
    json_object_set_new(keys, file.keys[k].name, json_pack("[s, o]", tri_gguf_value_name(file.keys[k].type), value));
  }
  for (int64_t t = 0; t < file.num_tensors; t++) {
    const tri_gguf_tensor *tensor = &file.tensors[t];
    json_t *dims = json_array();
    for (int d = 0; d < tensor->num_dims; d++) json_array_append_new(dims, json_integer(tensor->dims[d]));
    json_object_set_new(tensors, tensor->name,
                        json_pack("{s:s, s:o, s:I, s:I}", "type", tensor->type->name, "dims", dims, "offset",
                                  (json_int_t)tensor->offset, "bytes", (json_int_t)tensor->bytes));
  }
  json_t *out = json_pack("{s:i, s:i, s:o, s:o}", "version", (int)file.version, "alignment", (int)file.alignment,
                          "keys", keys, "tensors", tensors);
  if (status == TRI_OK) json_dumpf(out, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
  json_decref(out);
  tri_gguf_close(&file);
  return status;
}

/* ---- copy -------------------------------------------------------------------------------------------------------- */

static tri_status copy_key(const tri_gguf_file *file, const tri_gguf_key *key, tri_gguf_header *header) {
  if (!key->is_array && key->type == TRI_GGUF_STRING) return tri_gguf_add_string(header, key->name, key->data);
  if (!key->is_array) return tri_gguf_add_value(header, key->name, key->type, key->data);
  if (key->type != TRI_GGUF_STRING)
    return tri_gguf_add_values(header, key->name, key->type, (int64_t)key->count, key->data);
  tri_gguf_text *texts = NULL;
  int64_t count = 0;
  TRI_TRY(tri_gguf_get_strings(file, key->name, &texts, &count));
  tri_status status = tri_gguf_add_strings(header, key->name, count, texts);
  tri_free(texts);
  return status;
}

static tri_status describe(const tri_gguf_file *file, tri_gguf_header *header) {
  for (int64_t k = 0; k < file->num_keys; k++) TRI_TRY(copy_key(file, &file->keys[k], header));
  for (int64_t t = 0; t < file->num_tensors; t++) {
    const tri_gguf_tensor *tensor = &file->tensors[t];
    TRI_TRY(tri_gguf_add_tensor(header, tensor->name, tensor->type, tensor->num_dims, tensor->dims));
  }
  return tri_gguf_header_layout(header);
}

/* Copies the tensors' bytes in pieces, the last tensor first. */
static tri_status copy_tensors(const tri_gguf_file *file, const tri_gguf_header *header, tri_gguf_output *output) {
  char piece[PIECE_BYTES];
  int64_t count = 0;
  const tri_gguf_tensor *tensors = tri_gguf_header_tensors(header, &count);
  for (int64_t t = count - 1; t >= 0; t--) {
    const tri_gguf_tensor *from = tri_gguf_find_tensor(file, tensors[t].name);
    for (uint64_t done = 0; done < from->bytes; done += PIECE_BYTES) {
      const uint64_t rest = from->bytes - done, bytes = rest < PIECE_BYTES ? rest : PIECE_BYTES;
      TRI_TRY(tri_gguf_read(file, from, done, bytes, piece));
      TRI_TRY(tri_gguf_put(output, &tensors[t], done, bytes, piece));
    }
  }
  return TRI_OK;
}

static tri_status copy(const char *path, const char *new_path) {
  tri_gguf_file file;
  tri_gguf_header *header = NULL;
  tri_gguf_output *output = NULL;
  TRI_TRY(tri_gguf_open(path, &file));
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_gguf_header_create(&header), close_file);
  TRI_TRY_GOTO(describe(&file, header), close_file);
  TRI_TRY_GOTO(tri_gguf_output_create(header, new_path, &output), close_file);
  status = tri_gguf_output_finish(output, copy_tensors(&file, header, output));
close_file:
  tri_gguf_header_destroy(header);
  tri_gguf_close(&file);
  return status;
}

static tri_status run(int count, char **words) {
  if (count == 3 && (strcmp(words[1], "encode") == 0 || strcmp(words[1], "decode") == 0))
    return convert(words[1], words[2]);
  if (count == 3 && strcmp(words[1], "show") == 0) return show(words[2]);
  if (count == 4 && strcmp(words[1], "copy") == 0) return copy(words[2], words[3]);
  return tri_fail(TRI_BAD_USAGE, "gguf_tool: encode TYPE, decode TYPE, show FILE, or copy FILE NEW");
}

int main(int count, char **words) {
  const tri_status status = run(count, words);
  if (status != TRI_OK) fprintf(stderr, "gguf_tool: %s\n", tri_status_message());
  return tri_status_exit(status);
}
