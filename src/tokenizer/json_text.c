#include "tokenizer/json_text.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

json_t *tri_json_text(const char *text, size_t bytes) {
  static const char unknown[] = "\xEF\xBF\xBD"; /* U+FFFD */
  char *clean = NULL;
  size_t length = 0;
  if (tri_alloc("a text", 3 * bytes + 1, 1, &clean) != TRI_OK) return NULL;
  for (size_t at = 0; at < bytes;) {
    const size_t valid = tri_utf8_valid_bytes(text + at, bytes - at);
    memcpy(clean + length, text + at, valid);
    length += valid;
    at += valid;
    if (at == bytes) break;
    at += tri_utf8_invalid_bytes(text + at, bytes - at);
    memcpy(clean + length, unknown, 3);
    length += 3;
  }
  json_t *json = json_stringn(clean, length);
  tri_free(clean);
  return json;
}
