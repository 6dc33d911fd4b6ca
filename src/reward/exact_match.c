#include "reward/exact_match.h"

#include "base/memory.h"

#include <ctype.h>
#include <string.h>
#include <utf8proc.h>

static bool is_space(char c) { return c != '\0' && strchr(" \t\n\v\f\r", c) != NULL; }

/* Removes the characters for which `what` is true, and returns the number of bytes that are left. Only ASCII is
 * removed, as in lm-evaluation-harness. */
static size_t drop(char *text, size_t bytes, int (*what)(int)) {
  size_t kept = 0;
  for (size_t i = 0; i < bytes; i++) {
    const unsigned char letter = (unsigned char)text[i];
    if (letter >= 0x80 || what(letter) == 0) text[kept++] = text[i];
  }
  return kept;
}

static size_t strip(char *text, size_t bytes) {
  size_t begin = 0;
  while (begin < bytes && is_space(text[begin])) begin++;
  while (bytes > begin && is_space(text[bytes - 1])) bytes--;
  memmove(text, text + begin, bytes - begin);
  return bytes - begin;
}

/* Copies a text in lowercase, and returns the number of bytes of the copy. A lowercase letter may have more bytes than
 * its uppercase letter. */
static size_t copy_lowercase(const char *text, size_t bytes, char *to) {
  const utf8proc_uint8_t *at = (const utf8proc_uint8_t *)text, *end = at + bytes;
  char *begin = to;
  while (at < end) {
    utf8proc_int32_t code = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(at, end - at, &code);
    if (length > 0) {
      to += utf8proc_encode_char(utf8proc_tolower(code), (utf8proc_uint8_t *)to);
    } else { /* a byte that is not valid UTF-8 is copied */
      *to++ = (char)*at;
    }
    at += length > 0 ? length : 1;
  }
  return (size_t)(to - begin);
}

tri_status tri_match_normalise(const tri_match_rule *rule, const char *text, size_t bytes, char **out,
                               size_t *out_bytes) {
  char *copy = NULL;
  size_t held = bytes;
  TRI_TRY(tri_alloc("an answer", rule->ignore_case ? 4 * bytes : bytes, 1, &copy));
  if (rule->ignore_case) {
    held = copy_lowercase(text, bytes, copy);
  } else if (bytes > 0) {
    memcpy(copy, text, bytes);
  }
  if (rule->ignore_punctuation) held = drop(copy, held, ispunct);
  if (rule->ignore_numbers) held = drop(copy, held, isdigit);
  if (rule->strip) held = strip(copy, held);
  *out = copy;
  *out_bytes = held;
  return TRI_OK;
}
