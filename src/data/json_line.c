/* A complete parser builds a tree and copies every string, which takes longer than encoding the text. This parser only
 * scans the line: it checks every rule of RFC 8259, but keeps only the range of the requested string. Strings are most
 * of a line, so only they are scanned fast: eight bytes at a time as long as none of them is a quote, a backslash or a
 * control character. */
#include "data/json_line.h"

#include "tokenizer/utf8.h"

#include <stdint.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct cursor {
  const char *at, *end;
} cursor;

/* The content of a string, between its quotes. */
typedef struct span {
  const char *begin;
  size_t bytes;
  bool escaped; /* whether the string has a backslash */
} span;

static void skip_space(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static bool accept_json_char(cursor *c, char wanted) {
  if (c->at == c->end || *c->at != wanted) return false;
  c->at++;
  return true;
}

/* ---- strings ----------------------------------------------------------------------------------------------------- */

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* Returns the address of the next quote, backslash or control character; `end` if there is none. */
static const char *skip_plain(const char *at, const char *end) {
  while (end - at >= 8) {
    uint64_t word = 0;
    memcpy(&word, at, sizeof word);
    uint64_t quote = word ^ EACH_BYTE('"'), backslash = word ^ EACH_BYTE('\\');
    /* The top bit of a byte of `special` is set if the byte is a control character (below 32), a quote or a backslash.
     * A borrow may set the bits of further bytes, but never clears one. */
    uint64_t special = ((word - EACH_BYTE(0x20)) & ~word) | ((quote - EACH_BYTE(1)) & ~quote) |
                       ((backslash - EACH_BYTE(1)) & ~backslash);
    if ((special & EACH_BYTE(0x80)) != 0) break;
    at += 8;
  }
  while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) at++;
  return at;
}

static bool read_hex4(cursor *c, uint32_t *out) {
  if (c->end - c->at < 4) return false;
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char digit = c->at[i];
    uint32_t nibble = 0;
    if (digit >= '0' && digit <= '9') {
      nibble = (uint32_t)(digit - '0');
    } else if ((digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F')) {
      nibble = (uint32_t)((digit | 0x20) - 'a') + 10;
    } else {
      return false;
    }
    value = value << 4 | nibble;
  }
  c->at += 4;
  *out = value;
  return true;
}

/* Reads the code point of an escape, after its backslash. Returns false for an invalid escape, such as half of a
 * surrogate pair. */
static bool read_escape(cursor *c, uint32_t *out) {
  static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
  if (c->at == c->end) return false;
  char letter = *c->at++;
  if (letter != 'u') {
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    if (found == NULL) return false;
    *out = (uint32_t)meant[found - letters];
    return true;
  }
  uint32_t high = 0, low = 0;
  if (!read_hex4(c, &high)) return false;
  if (high < 0xD800 || high > 0xDFFF) {
    *out = high;
    return true;
  }
  if (high > 0xDBFF || !accept_json_char(c, '\\') || !accept_json_char(c, 'u') || !read_hex4(c, &low) || low < 0xDC00 ||
      low > 0xDFFF) {
    return false;
  }
  *out = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  return true;
}

static bool read_string(cursor *c, span *out) {
  if (!accept_json_char(c, '"')) return false;
  span found = {.begin = c->at};
  for (;;) {
    uint32_t code = 0;
    c->at = skip_plain(c->at, c->end);
    if (c->at == c->end || (unsigned char)*c->at < 0x20) return false;
    if (*c->at++ == '"') break;
    found.escaped = true;
    if (!read_escape(c, &code)) return false;
  }
  found.bytes = (size_t)(c->at - 1 - found.begin);
  *out = found;
  return tri_utf8_is_ascii(found.begin, found.bytes) || tri_utf8_valid_bytes(found.begin, found.bytes) == found.bytes;
}

/* Decodes escapes in place, since the decoded text is never longer; returns its length. */
static size_t undo_escapes(char *text, size_t bytes) {
  cursor c = {text, text + bytes};
  char *to = text;
  for (;;) {
    const char *backslash = memchr(c.at, '\\', (size_t)(c.end - c.at));
    size_t plain = (size_t)((backslash == NULL ? c.end : backslash) - c.at);
    memmove(to, c.at, plain);
    to += plain;
    if (backslash == NULL) return (size_t)(to - text);
    uint32_t code = 0;
    c.at = backslash + 1;
    (void)read_escape(&c, &code); /* read_string has checked it */
    char letters[4];
    size_t length = tri_utf8_encode(code, letters);
    memcpy(to, letters, length);
    to += length;
  }
}

/* ---- other values ------------------------------------------------------------------------------------------------ */

static bool skip_digits(cursor *c) {
  const char *begin = c->at;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
  return c->at > begin;
}

static bool skip_number(cursor *c) {
  (void)accept_json_char(c, '-');
  if (!accept_json_char(c, '0') && !skip_digits(c)) return false;
  if (accept_json_char(c, '.') && !skip_digits(c)) return false;
  if (!accept_json_char(c, 'e') && !accept_json_char(c, 'E')) return true;
  if (!accept_json_char(c, '+')) (void)accept_json_char(c, '-');
  return skip_digits(c);
}

static bool skip_word(cursor *c, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
  c->at += length;
  return true;
}

static bool skip_value(cursor *c, int depth);

/* Skips the members of an array or, with `keys`, of an object, after its opening bracket. Returns false if they are not
 * valid JSON, or deeper than MAX_DEPTH. */
static bool skip_members(cursor *c, bool keys, int depth) {
  char closing = keys ? '}' : ']';
  span unused;
  if (depth > MAX_DEPTH) return false;
  skip_space(c);
  if (accept_json_char(c, closing)) return true;
  do {
    skip_space(c);
    if (keys) {
      if (!read_string(c, &unused)) return false;
      skip_space(c);
      if (!accept_json_char(c, ':')) return false;
    }
    if (!skip_value(c, depth)) return false;
    skip_space(c);
  } while (accept_json_char(c, ','));
  return accept_json_char(c, closing);
}

static bool skip_value(cursor *c, int depth) {
  span unused;
  skip_space(c);
  if (c->at == c->end) return false;
  switch (*c->at) {
    case '"': return read_string(c, &unused);
    case '{': c->at++; return skip_members(c, true, depth + 1);
    case '[': c->at++; return skip_members(c, false, depth + 1);
    case 't': return skip_word(c, "true");
    case 'f': return skip_word(c, "false");
    case 'n': return skip_word(c, "null");
    default: return skip_number(c);
  }
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

bool tri_json_line_string(char *line, size_t bytes, const char *key, const char **out, size_t *out_bytes) {
  cursor c = {line, line + bytes};
  size_t key_bytes = strlen(key);
  span found = {0}, name = {0};
  bool is_there = false;
  skip_space(&c);
  if (!accept_json_char(&c, '{')) return false;
  do {
    skip_space(&c);
    if (!read_string(&c, &name) || name.escaped) return false;
    skip_space(&c);
    if (!accept_json_char(&c, ':')) return false;
    skip_space(&c);
    if (name.bytes == key_bytes && memcmp(name.begin, key, key_bytes) == 0) {
      is_there = read_string(&c, &found);
      if (!is_there) return false;
    } else if (!skip_value(&c, 0)) {
      return false;
    }
    skip_space(&c);
  } while (accept_json_char(&c, ','));
  if (!accept_json_char(&c, '}')) return false;
  skip_space(&c);
  if (c.at != c.end || !is_there) return false;
  char *text = line + (found.begin - line);
  *out = text;
  *out_bytes = found.escaped ? undo_escapes(text, found.bytes) : found.bytes;
  return true;
}
