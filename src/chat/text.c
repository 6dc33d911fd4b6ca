#include "chat/text.h"

#include "tokenizer/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* ---- characters -------------------------------------------------------------------------------------------------- */

static bool begins(char byte) { return ((uint8_t)byte & 0xC0) != 0x80; }

int64_t tri_chat_text_length(const char *text, size_t bytes) {
  int64_t count = 0;
  for (size_t i = 0; i < bytes; i++) count += begins(text[i]);
  return count;
}

size_t tri_chat_text_offset(const char *text, size_t bytes, int64_t index) {
  size_t at = 0;
  for (; at < bytes; at++) {
    if (begins(text[at]) && index-- == 0) break;
  }
  return at;
}

bool tri_chat_is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

/* ---- stripping --------------------------------------------------------------------------------------------------- */

static bool in_set(const char *letter, size_t length, uint32_t code, const tri_chat_value *set) {
  if (set == NULL) return tri_chat_is_space(code);
  return memmem(set->text, set->bytes, letter, length) !=
         NULL; /* a complete UTF-8 character does not match inside of others */
}

void tri_chat_text_strip(const char *text, const tri_chat_value *set, bool left, bool right, size_t *begin,
                         size_t *end) {
  uint32_t code = 0;
  while (left && *begin < *end) {
    size_t length = tri_utf8_decode(text + *begin, *end - *begin, &code);
    if (length == 0 || !in_set(text + *begin, length, code, set)) break;
    *begin += length;
  }
  while (right && *end > *begin) {
    size_t first = *end - 1;
    while (first > *begin && !begins(text[first])) first--;
    size_t length = tri_utf8_decode(text + first, *end - first, &code);
    if (length == 0 || !in_set(text + first, length, code, set)) break;
    *end = first;
  }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static bool ends_line(uint32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

size_t tri_chat_text_line(const char *text, size_t bytes, size_t from, size_t *next) {
  size_t at = from;
  while (at < bytes) {
    uint32_t code = (uint8_t)text[at];
    size_t length = tri_utf8_decode(text + at, bytes - at, &code);
    if (length == 0) length = 1;
    if (ends_line(code)) {
      *next = at + length;
      if (code == '\r' && *next < bytes && text[*next] == '\n') ++*next;
      return at;
    }
    at += length;
  }
  *next = bytes;
  return bytes;
}

/* ---- case -------------------------------------------------------------------------------------------------------- */

/* Returns whether a character's other case is several characters or depends on its neighbours (Unicode's
 * SpecialCasing). */
static bool is_special(uint32_t code) {
  return code == 0xDF || code == 0x130 || code == 0x149 || code == 0x1F0 || code == 0x390 || code == 0x3A3 ||
         code == 0x3B0 || code == 0x587 || (code >= 0x1E96 && code <= 0x1E9A) || code == 0x1E9E ||
         (code >= 0x1F50 && code <= 0x1F57) || (code >= 0x1F80 && code <= 0x1FAF) ||
         (code >= 0x1FB2 && code <= 0x1FFC) || (code >= 0xFB00 && code <= 0xFB17);
}

static bool is_cased(uint32_t code) {
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT ||
         utf8proc_toupper((utf8proc_int32_t)code) != (utf8proc_int32_t)code ||
         utf8proc_tolower((utf8proc_int32_t)code) != (utf8proc_int32_t)code;
}

static uint32_t turn(uint32_t code, tri_chat_case to, bool first) {
  utf8proc_int32_t letter = (utf8proc_int32_t)code;
  switch (to) {
    case TRI_CHAT_UPPER: return (uint32_t)utf8proc_toupper(letter);
    case TRI_CHAT_LOWER: return (uint32_t)utf8proc_tolower(letter);
    case TRI_CHAT_INITIAL: return (uint32_t)(first ? utf8proc_toupper(letter) : utf8proc_tolower(letter));
    case TRI_CHAT_TITLE:
    case TRI_CHAT_CAPITAL: return (uint32_t)(first ? utf8proc_totitle(letter) : utf8proc_tolower(letter));
  }
  return code;
}

/* Returns whether a character may have a case without being a letter (Other_Lowercase, Other_Uppercase). It is then
 * unknown whether a word continues after it. */
static bool is_maybe_cased(uint32_t code) {
  utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
  return category == UTF8PROC_CATEGORY_LM || (code >= 0x1F130 && code <= 0x1F189) || code == 0xAA || code == 0xBA ||
         code == 0x345 ||
         (category == UTF8PROC_CATEGORY_LO && utf8proc_toupper((utf8proc_int32_t)code) != (utf8proc_int32_t)code);
}

tri_status tri_chat_text_case(tri_chat_arena *arena, tri_chat_value string, tri_chat_case to, tri_chat_value *out) {
  tri_chat_writer writer = {.arena = arena};
  bool first = true; /* whether the next letter is the first of a word, or of the text */
  for (size_t i = 0; i < string.bytes;) {
    uint32_t code = (uint8_t)string.text[i];
    size_t length = tri_utf8_decode(string.text + i, string.bytes - i, &code);
    if (code >= 0x80 && to == TRI_CHAT_TITLE && is_maybe_cased(code)) {
      return tri_fail(
          TRI_UNSUPPORTED,
          "words with the character U+%04X are not supported, because not all Unicode versions classify it as a letter",
          (unsigned)code);
    }
    if (code >= 0x80 && is_special(code)) {
      return tri_fail(TRI_UNSUPPORTED,
                      "changing the case of U+%04X is not supported, because the result has more than one character",
                      (unsigned)code);
    }
    writer.given = tri_chat_is_given(string, i);
    TRI_TRY(tri_chat_write_code(&writer, turn(code, to, first)));
    first = to == TRI_CHAT_TITLE && !is_cased(code);
    i += length == 0 ? 1 : length;
  }
  return tri_chat_written(&writer, string.origin, out);
}

size_t tri_chat_text_find(const char *text, size_t bytes, size_t from, tri_chat_value part) {
  const char *found = memmem(text + from, bytes - from, part.text, part.bytes);
  return found == NULL ? SIZE_MAX : (size_t)(found - text);
}
