#include "data/json_array.h"

#include <inttypes.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool tri_json_array_begins(const char *text, size_t bytes) {
  size_t at = 0;
  while (at < bytes && is_space(text[at])) at++;
  return at < bytes && text[at] == '[';
}

static void skip_space(tri_json_array *array, const char *text, size_t bytes, size_t *at) {
  for (; *at < bytes && is_space(text[*at]); (*at)++) array->lines += text[*at] == '\n';
}

static int64_t count_lines(const char *text, size_t bytes) {
  int64_t lines = 0;
  for (const char *at = text, *end = text + bytes; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) lines++;
  return lines;
}

/* Returns the offset after the closing quote of the string at `at`; 0 if the string does not end. */
static size_t end_of_string(const char *text, size_t bytes, size_t at) {
  for (at++; at < bytes; at++) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') at++;
  }
  return 0;
}

/* Returns the offset after the value at `at`, found by quotes and brackets; `at` if no value begins there; 0 if the
 * value does not end in the text. `ended`: whether a number or word may end with the text. */
static size_t end_of_value(const char *text, size_t bytes, size_t at, bool ended) {
  int64_t depth = 0;
  while (at < bytes) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, bytes, at);
      if (at == 0 || depth == 0) return at;
      continue;
    }
    const bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
    if (depth == 0 && !opens && (closes || c == ',' || is_space(c))) return at;
    depth += opens - closes;
    at++;
    if (closes && depth == 0) return at;
  }
  return ended && depth == 0 ? at : 0;
}

static tri_status cut_off(const tri_json_array *array, bool inside) {
  if (inside) {
    return tri_fail(TRI_BAD_FILE,
                    "%s line %" PRId64 ": the file ends in the middle of element %" PRId64
                    " of its array, which begins there: it is cut off; use a complete copy",
                    array->path, array->lines + 1, array->elements + 1);
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s line %" PRId64 ": the file ends after element %" PRId64
                  " of its array, without the closing `]`: it is cut off; use a complete copy",
                  array->path, array->lines + 1, array->elements);
}

static tri_status unexpected(const tri_json_array *array, char c) {
  const char *wanted = array->closed        ? "nothing after the array"
                       : array->has_element ? "a comma or `]` after an element of the array"
                                            : "an element of the array";
  return tri_fail(TRI_BAD_FILE, "%s line %" PRId64 ": found `%c` instead of %s; correct the file", array->path,
                  array->lines + 1, c >= ' ' && c < 0x7F ? c : '?', wanted);
}

/* Reads a bracket or comma of the array itself. Returns false if `c` is not allowed here. */
static bool read_mark(tri_json_array *array, char c) {
  if (array->closed) return false;
  if (!array->opened && c == '[') {
    array->opened = true;
  } else if (array->has_element && c == ',') {
    array->has_element = false;
    array->has_comma = true;
  } else if (array->opened && !array->has_comma && c == ']') {
    array->closed = true;
  } else {
    return false;
  }
  return true;
}

tri_status tri_json_array_next(tri_json_array *array, const char *text, size_t bytes, bool ended, size_t *at,
                               tri_json_element *element, bool *found) {
  *found = false;
  for (;;) {
    skip_space(array, text, bytes, at);
    if (*at == bytes) {
      return ended && !array->closed ? cut_off(array, false) : TRI_OK;
    }
    if (read_mark(array, text[*at])) {
      ++*at;
      continue;
    }
    if (array->closed || array->has_element) return unexpected(array, text[*at]);
    const size_t end = end_of_value(text, bytes, *at, ended);
    if (end == 0) return ended ? cut_off(array, true) : TRI_OK;
    if (end == *at) return unexpected(array, text[*at]);
    *element = (tri_json_element){*at, end, array->lines + 1};
    array->lines += count_lines(text + *at, end - *at);
    array->elements++;
    array->has_element = true;
    array->has_comma = false;
    *at = end;
    *found = true;
    return TRI_OK;
  }
}
