/* Values of keys, by name and type. */
#include "gguf/gguf.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int compare_key(const void *name, const void *entry) {
  const tri_gguf_key *const *key = entry;
  return strcmp(name, (*key)->name);
}

const tri_gguf_key *tri_gguf_find_key(const tri_gguf_file *file, const char *name) {
  if (file->num_keys == 0) return NULL;
  const tri_gguf_key *const *found =
      bsearch(name, file->keys_by_name, (size_t)file->num_keys, sizeof *file->keys_by_name, compare_key);
  return found == NULL ? NULL : *found;
}

/* Finds a key; fails if it is missing, or if it is an array and should not be one, or the reverse. */
static tri_status find(const tri_gguf_file *file, const char *name, bool is_array, const tri_gguf_key **out) {
  const tri_gguf_key *key = tri_gguf_find_key(file, name);
  if (key == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has no key `%s`, which is needed; convert the model again, with a newer program",
                    file->path, name);
  }
  if (key->is_array != is_array) {
    return tri_fail(TRI_BAD_FILE, "%s: the value of key `%s` is %s, and must be %s; convert the model again",
                    file->path, name, is_array ? "not an array" : "an array", is_array ? "an array" : "a single value");
  }
  *out = key;
  return TRI_OK;
}

static tri_status wrong_type(const tri_gguf_file *file, const tri_gguf_key *key, const char *wanted) {
  return tri_fail(TRI_BAD_FILE, "%s: the value of key `%s` has the type %s%s, and must be %s; convert the model again",
                  file->path, key->name, tri_gguf_value_name(key->type), key->is_array ? " of array elements" : "",
                  wanted);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Sets *out to element i of integers of any width. */
static tri_status get_integer(const tri_gguf_file *file, const tri_gguf_key *key, uint64_t i, int64_t *out) {
  const char *at = key->data + i * tri_gguf_value_bytes(key->type);
  int16_t narrow = 0;
  int32_t single = 0;
  uint16_t narrow_unsigned = 0;
  uint32_t single_unsigned = 0;
  switch (key->type) {
    case TRI_GGUF_UINT8: *out = (uint8_t)*at; return TRI_OK;
    case TRI_GGUF_INT8: *out = (int8_t)*at; return TRI_OK;
    case TRI_GGUF_UINT16:
      memcpy(&narrow_unsigned, at, 2);
      *out = narrow_unsigned;
      return TRI_OK;
    case TRI_GGUF_INT16:
      memcpy(&narrow, at, 2);
      *out = narrow;
      return TRI_OK;
    case TRI_GGUF_UINT32:
      memcpy(&single_unsigned, at, 4);
      *out = single_unsigned;
      return TRI_OK;
    case TRI_GGUF_INT32:
      memcpy(&single, at, 4);
      *out = single;
      return TRI_OK;
    case TRI_GGUF_INT64: memcpy(out, at, 8); return TRI_OK;
    case TRI_GGUF_UINT64:
      memcpy(out, at, 8);
      if (*out >= 0) return TRI_OK;
      return tri_fail(TRI_BAD_FILE, "%s: the value of key `%s` is %" PRIu64 "; at most %" PRId64 " is supported",
                      file->path, key->name, (uint64_t)*out, INT64_MAX);
    case TRI_GGUF_FLOAT32:
    case TRI_GGUF_FLOAT64:
    case TRI_GGUF_BOOL:
    case TRI_GGUF_STRING:
    case TRI_GGUF_ARRAY:
    case TRI_GGUF_VALUES: break;
  }
  return wrong_type(file, key, "an integer");
}

/* Sets *out to element i of float32 or float64 numbers. */
static tri_status get_number(const tri_gguf_file *file, const tri_gguf_key *key, uint64_t i, double *out) {
  const char *at = key->data + i * tri_gguf_value_bytes(key->type);
  float single = 0;
  switch (key->type) {
    case TRI_GGUF_FLOAT32:
      memcpy(&single, at, 4);
      *out = (double)single;
      return TRI_OK;
    case TRI_GGUF_FLOAT64: memcpy(out, at, 8); return TRI_OK;
    case TRI_GGUF_UINT8:
    case TRI_GGUF_INT8:
    case TRI_GGUF_UINT16:
    case TRI_GGUF_INT16:
    case TRI_GGUF_UINT32:
    case TRI_GGUF_INT32:
    case TRI_GGUF_UINT64:
    case TRI_GGUF_INT64:
    case TRI_GGUF_BOOL:
    case TRI_GGUF_STRING:
    case TRI_GGUF_ARRAY:
    case TRI_GGUF_VALUES: break;
  }
  return wrong_type(file, key, "float32 or float64");
}

/* ---- single values ----------------------------------------------------------------------------------------------- */

tri_status tri_gguf_get_string(const tri_gguf_file *file, const char *name, const char **out) {
  const tri_gguf_key *key = NULL;
  TRI_TRY(find(file, name, false, &key));
  if (key->type != TRI_GGUF_STRING) return wrong_type(file, key, "a string");
  if (strlen(key->data) != key->data_bytes) {
    return tri_fail(TRI_BAD_FILE, "%s: the string of key `%s` contains a NUL; the file is damaged", file->path, name);
  }
  *out = key->data;
  return TRI_OK;
}

tri_status tri_gguf_get_integer(const tri_gguf_file *file, const char *name, int64_t *out) {
  const tri_gguf_key *key = NULL;
  TRI_TRY(find(file, name, false, &key));
  return get_integer(file, key, 0, out);
}

tri_status tri_gguf_get_number(const tri_gguf_file *file, const char *name, double *out) {
  const tri_gguf_key *key = NULL;
  TRI_TRY(find(file, name, false, &key));
  return get_number(file, key, 0, out);
}

tri_status tri_gguf_get_bool(const tri_gguf_file *file, const char *name, bool *out) {
  const tri_gguf_key *key = NULL;
  TRI_TRY(find(file, name, false, &key));
  if (key->type != TRI_GGUF_BOOL) return wrong_type(file, key, "a bool");
  *out = *key->data != 0;
  return TRI_OK;
}

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

tri_status tri_gguf_get_strings(const tri_gguf_file *file, const char *name, tri_gguf_text **out, int64_t *count) {
  const tri_gguf_key *key = NULL;
  tri_gguf_text *texts = NULL;
  TRI_TRY(find(file, name, true, &key));
  if (key->type != TRI_GGUF_STRING) return wrong_type(file, key, "strings");
  TRI_TRY(tri_alloc(name, (size_t)key->count, sizeof *texts, &texts));
  const char *at = key->data;
  for (uint64_t i = 0; i < key->count; i++) {
    uint64_t bytes = 0;
    memcpy(&bytes, at, sizeof bytes);
    texts[i] = (tri_gguf_text){.text = at + sizeof bytes, .bytes = (size_t)bytes};
    at += sizeof bytes + bytes;
  }
  *out = texts;
  *count = (int64_t)key->count;
  return TRI_OK;
}

tri_status tri_gguf_get_integers(const tri_gguf_file *file, const char *name, int64_t **out, int64_t *count) {
  const tri_gguf_key *key = NULL;
  int64_t *values = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(find(file, name, true, &key));
  TRI_TRY(tri_alloc(name, (size_t)key->count, sizeof *values, &values));
  for (uint64_t i = 0; i < key->count; i++) TRI_TRY_GOTO(get_integer(file, key, i, &values[i]), free_values);
  *out = values;
  *count = (int64_t)key->count;
  return TRI_OK;
free_values:
  tri_free(values);
  return status;
}

tri_status tri_gguf_get_numbers(const tri_gguf_file *file, const char *name, double **out, int64_t *count) {
  const tri_gguf_key *key = NULL;
  double *values = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(find(file, name, true, &key));
  TRI_TRY(tri_alloc(name, (size_t)key->count, sizeof *values, &values));
  for (uint64_t i = 0; i < key->count; i++) TRI_TRY_GOTO(get_number(file, key, i, &values[i]), free_values);
  *out = values;
  *count = (int64_t)key->count;
  return TRI_OK;
free_values:
  tri_free(values);
  return status;
}
