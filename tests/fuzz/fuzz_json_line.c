/* Compares our own reader of JSON lines with jansson. If it finds a string, jansson finds the same one; if it finds
 * none, it has not changed the line. The first byte of the input chooses the key. */
#include "data/json_line.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* jansson refuses numbers that are too large for a double; our reader does not convert numbers, so it accepts them. */
static void compare(const char *line, size_t bytes, const char *key, const char *found, size_t found_bytes) {
  json_error_t fault = {0};
  json_t *document = json_loadb(line, bytes, JSON_ALLOW_NUL, &fault);
  if (document == NULL && json_error_code(&fault) == json_error_numeric_overflow) return;
  const json_t *value = json_object_get(document, key);
  if (!json_is_string(value) || json_string_length(value) != found_bytes) abort();
  if (memcmp(json_string_value(value), found, found_bytes) != 0) abort();
  json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const char *const keys[] = {"text", "a", "", "messages"};
  if (bytes == 0) return 0;
  const char *key = keys[data[0] % (sizeof keys / sizeof *keys)], *found = NULL;
  const size_t length = bytes - 1;
  size_t found_bytes = 0;
  char *line = malloc(length + 1);
  if (line == NULL) return 0;
  memcpy(line, data + 1, length);
  line = realloc(line, length == 0 ? 1 : length); /* exactly this size, so that a read past the end is detected */
  if (tri_json_line_string(line, length, key, &found, &found_bytes)) {
    if (found < line || found + found_bytes > line + length) abort();
    compare((const char *)data + 1, length, key, found, found_bytes);
  } else if (memcmp(line, data + 1, length) != 0) {
    abort();
  }
  free(line);
  return 0;
}
