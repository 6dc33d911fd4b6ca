#include "files/json_reader.h"

#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/file_kind.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

tri_status tri_json_parse(const char *path, const char *text, size_t bytes, size_t flags, json_t **out) {
  json_error_t fault;
  char reason[sizeof fault.text];
  TRI_TRY(tri_text_begin(path, "JSON", &text, &bytes));
  json_t *root = json_loadb(text, bytes, flags, &fault);
  if (root != NULL) {
    *out = root;
    return TRI_OK;
  }
  const tri_file_kind *kind = tri_file_kind_of(text, bytes);
  if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, path, kind, "JSON");
  snprintf(reason, sizeof reason, "%s", fault.text);
  for (char *c = reason; *c != '\0'; c++) *c = (char)(iscntrl((unsigned char)*c) ? '?' : *c);
  return tri_fail(TRI_BAD_FILE, "%s is not valid JSON at line %d, column %d: %s", path, fault.line, fault.column,
                  reason);
}

tri_status tri_json_parse_last(const char *path, const char *text, size_t bytes, json_t **out) {
  const tri_status strict = tri_json_parse(path, text, bytes, JSON_REJECT_DUPLICATES, out);
  if (strict == TRI_OK) return TRI_OK;
  char why[1024];
  snprintf(why, sizeof why, "%s", tri_status_message());
  TRI_TRY(tri_json_parse(path, text, bytes, 0, out));
  tri_warn("%s; the last one counts, as in Python", why);
  return TRI_OK;
}

tri_status tri_json_parse_line(const char *path, int64_t line, const char *text, size_t bytes, size_t flags,
                               json_t **out) {
  json_error_t fault;
  json_t *root = json_loadb(text, bytes, flags, &fault);
  if (root != NULL) {
    *out = root;
    return TRI_OK;
  }
  const tri_file_kind *kind = line == 1 ? tri_file_kind_of(text, bytes) : NULL;
  if (kind != NULL) return tri_file_kind_refuse(TRI_BAD_FILE, path, kind, "JSON lines");
  const int code = (int)json_error_code(&fault);
  const char *advice = "";
  if (code == json_error_invalid_utf8) advice = "; " TRI_LATIN_1_ADVICE;
  if (code == json_error_premature_end_of_input) {
    advice = "; a record must be one line: this one is truncated, or continues in the next line";
  }
  return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 " is not valid JSON: %s (column %d)%s", path, line, fault.text,
                  fault.column, advice);
}

tri_status tri_json_read_in(const char *folder, const char *name, size_t limit_bytes, json_t **out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, name));
  TRI_TRY(tri_file_read_plain(path, limit_bytes, &text, &bytes));
  const tri_status status = tri_json_parse(path, text, bytes, 0, out);
  tri_free(text);
  return status;
}

const json_t *tri_reader_get(const tri_json_reader *from, const char *key) {
  const json_t *value = json_object_get(from->object, key);
  return json_is_null(value) ? NULL : value;
}

tri_status tri_reader_wrong(const tri_json_reader *from, const char *key, const char *wanted) {
  char *text = json_dumps(json_object_get(from->object, key), JSON_ENCODE_ANY | JSON_COMPACT);
  tri_status status = tri_fail(TRI_BAD_FILE, "%s: `%s` is %.100s, but should be %s", from->path, key,
                               text == NULL ? "?" : text, wanted);
  free(text);
  return status;
}

tri_status tri_reader_size(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out) {
  const json_t *value = tri_reader_get(from, key);
  if (value != NULL && (!json_is_integer(value) || json_integer_value(value) < 1)) {
    return tri_reader_wrong(from, key, "an integer of at least 1");
  }
  *out = value == NULL ? fallback : (int64_t)json_integer_value(value);
  return TRI_OK;
}

tri_status tri_reader_size_or_null(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out) {
  return tri_reader_size(from, key, json_is_null(json_object_get(from->object, key)) ? 0 : fallback, out);
}

tri_status tri_reader_count(const tri_json_reader *from, const char *key, int64_t fallback, int64_t *out) {
  const json_t *value = tri_reader_get(from, key);
  if (value != NULL && (!json_is_integer(value) || json_integer_value(value) < 0)) {
    return tri_reader_wrong(from, key, "an integer of at least 0");
  }
  *out = value == NULL ? fallback : (int64_t)json_integer_value(value);
  return TRI_OK;
}

tri_status tri_reader_number(const tri_json_reader *from, const char *key, double fallback, double *out) {
  const json_t *value = tri_reader_get(from, key);
  if (value != NULL && !json_is_number(value)) return tri_reader_wrong(from, key, "a number");
  *out = value == NULL ? fallback : json_number_value(value);
  return TRI_OK;
}

tri_status tri_reader_positive(const tri_json_reader *from, const char *key, double fallback, double *out) {
  TRI_TRY(tri_reader_number(from, key, fallback, out));
  return *out > 0 ? TRI_OK : tri_reader_wrong(from, key, "a number above 0");
}

tri_status tri_reader_bool(const tri_json_reader *from, const char *key, bool fallback, bool *out) {
  const json_t *value = tri_reader_get(from, key);
  if (value != NULL && !json_is_boolean(value)) return tri_reader_wrong(from, key, "true or false");
  *out = value == NULL ? fallback : json_is_true(value);
  return TRI_OK;
}

tri_status tri_reader_word(const tri_json_reader *from, const char *key, const char *fallback, const char **out) {
  const json_t *value = tri_reader_get(from, key);
  if (value != NULL && !json_is_string(value)) return tri_reader_wrong(from, key, "a string");
  *out = value == NULL ? fallback : json_string_value(value);
  return TRI_OK;
}
