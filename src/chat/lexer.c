/* Outside of tags everything is text up to the next `{{`, `{%` or `{#`; inside are the usual tokens of an expression.
 *
 * White space around tags: a minus sign at a delimiter removes all white space on its side. trim_blocks removes the
 * newline after a block or a comment; lstrip_blocks removes white space before them on their line, if nothing else is
 * before them and the line begins in this text or after a tag that removed its newline. A plus sign disables both. */
#include "chat/lexer.h"

#include "chat/text.h"
#include "tokenizer/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tri_status tri_chat_fault_at(const char *name, int32_t line, int32_t column, tri_status code, const char *format, ...) {
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return tri_fail(code, "%s line %d column %d: %s", name, line, column, text);
}

/* Computes line and column of offset `at`, which is never lower than in the call before. */
static void locate(tri_chat_lexer *lexer, size_t at) {
  for (; lexer->counted < at; lexer->counted++) {
    char byte = lexer->source[lexer->counted];
    if (byte == '\n') {
      lexer->line++;
      lexer->column = 1;
    } else if (((uint8_t)byte & 0xC0) != 0x80) {
      lexer->column++;
    }
  }
}

#define FAULT(lexer, ...) tri_chat_fault_at((lexer)->name, (lexer)->line, (lexer)->column, TRI_BAD_FILE, __VA_ARGS__)

static bool looking_at(const tri_chat_lexer *lexer, size_t at, const char *sign) {
  size_t length = strlen(sign);
  return lexer->bytes - at >= length && memcmp(lexer->source + at, sign, length) == 0;
}

static size_t skip_space(const tri_chat_lexer *lexer, size_t at) {
  size_t end = lexer->bytes;
  tri_chat_text_strip(lexer->source, NULL, true, false, &at, &end);
  return at;
}

/* Returns the offset after a closed tag and after the white space or newline that the tag removes, and sets
 * lexer->line_starts. `at`: offset after the tag; `sign`: the tag's `-` or `+`, or 0; `trims`: a newline is removed
 * without a sign. */
static size_t close_tag(tri_chat_lexer *lexer, size_t at, char sign, bool trims) {
  size_t before = at;
  if (sign == '-') at = skip_space(lexer, at);
  if (sign == 0 && trims && looking_at(lexer, at, "\n")) at++;
  lexer->line_starts = at > before && lexer->source[at - 1] == '\n';
  return at;
}

/* ---- text between tags ------------------------------------------------------------------------------------------- */

/* Returns the offset of the next tag at or after `at`, and sets *out to its second byte. Without such a tag, returns
 * the length of the source, and sets *out to 0. */
static size_t find_tag(const tri_chat_lexer *lexer, size_t at, char *out) {
  for (; at < lexer->bytes; at++) {
    const char *brace = memchr(lexer->source + at, '{', lexer->bytes - at);
    if (brace == NULL) break;
    at = (size_t)(brace - lexer->source);
    char next = at + 1 < lexer->bytes ? lexer->source[at + 1] : 0;
    if (next != '{' && next != '%' && next != '#') continue;
    *out = next;
    return at;
  }
  *out = 0;
  return lexer->bytes;
}

/* Returns the end of the text before a tag, without the white space that the tag removes. `kind`: second byte of the
 * tag. */
static size_t end_of_text(const tri_chat_lexer *lexer, size_t begin, size_t tag, char kind) {
  size_t end = tag;
  char sign = tag + 2 < lexer->bytes ? lexer->source[tag + 2] : 0;
  if (sign == '-') {
    tri_chat_text_strip(lexer->source, NULL, false, true, &begin, &end);
    return end;
  }
  if (sign == '+' || kind == '{') return end;
  const char *newline = memrchr(lexer->source + begin, '\n', tag - begin);
  if (newline == NULL && !lexer->line_starts) return end;
  size_t line = newline == NULL ? begin : (size_t)(newline - lexer->source) + 1, stripped = tag;
  tri_chat_text_strip(lexer->source, NULL, false, true, &line, &stripped);
  return stripped == line ? line : end;
}

static tri_status skip_comment(tri_chat_lexer *lexer, size_t tag) {
  const char *end = memmem(lexer->source + tag + 2, lexer->bytes - tag - 2, "#}", 2);
  if (end == NULL) {
    locate(lexer, tag);
    return FAULT(lexer, "the comment is not closed; `#}` is missing");
  }
  size_t at = (size_t)(end - lexer->source);
  char sign =
      at > tag + 2 && (lexer->source[at - 1] == '-' || lexer->source[at - 1] == '+') ? lexer->source[at - 1] : 0;
  lexer->at = close_tag(lexer, at + 2, sign, true);
  return TRI_OK;
}

/* Matches `NAME` and `%}` after a `{%`. Returns the end of the tag, and sets *sign to the sign before its `%}` (0:
 * none); returns 0 if it does not match. */
static size_t match_raw(const tri_chat_lexer *lexer, size_t tag, const char *name, char *sign) {
  size_t at = tag + 2;
  if (at < lexer->bytes && (lexer->source[at] == '-' || lexer->source[at] == '+')) at++;
  at = skip_space(lexer, at);
  if (!looking_at(lexer, at, name)) return 0;
  at = skip_space(lexer, at + strlen(name));
  *sign = 0;
  if (at < lexer->bytes && (lexer->source[at] == '-' || lexer->source[at] == '+')) *sign = lexer->source[at++];
  return looking_at(lexer, at, "%}") ? at + 2 : 0;
}

static tri_status read_raw(tri_chat_lexer *lexer, size_t tag, size_t begin, char sign, tri_chat_value *out) {
  begin = sign == '-' ? skip_space(lexer, begin) : begin + (sign == 0 && looking_at(lexer, begin, "\n"));
  lexer->line_starts = begin > 0 && lexer->source[begin - 1] == '\n';
  for (size_t at = begin; at < lexer->bytes; at += 2) {
    const char *found = memmem(lexer->source + at, lexer->bytes - at, "{%", 2);
    if (found == NULL) break;
    at = (size_t)(found - lexer->source);
    size_t end = match_raw(lexer, at, "endraw", &sign);
    if (end == 0) continue;
    size_t text_end = end_of_text(lexer, begin, at, '%');
    *out = tri_chat_string(lexer->source + begin, text_end - begin);
    lexer->at = close_tag(lexer, end, sign, true);
    return TRI_OK;
  }
  locate(lexer, tag);
  return FAULT(lexer, "the raw text is not closed; `{%% endraw %%}` is missing");
}

static tri_chat_token token_at(tri_chat_lexer *lexer, size_t at, tri_chat_token_kind kind) {
  locate(lexer, at);
  return (tri_chat_token){.kind = (uint8_t)kind, .line = lexer->line, .column = lexer->column};
}

static void open_tag(tri_chat_lexer *lexer, size_t tag, char kind, tri_chat_token *out) {
  *out = token_at(lexer, tag, kind == '{' ? TRI_TOKEN_BEGIN_PRINT : TRI_TOKEN_BEGIN_BLOCK);
  lexer->at = tag + 2;
  char sign = lexer->at < lexer->bytes ? lexer->source[lexer->at] : 0;
  if (sign == '-' || (sign == '+' && kind == '%')) lexer->at++;
  lexer->in_tag = true;
  lexer->in_block = kind == '%';
  lexer->brackets = 0;
}

static void give_text(tri_chat_lexer *lexer, size_t at, tri_chat_value text, tri_chat_token *out) {
  *out = token_at(lexer, at, TRI_TOKEN_TEXT);
  out->value = text;
}

static tri_status next_text(tri_chat_lexer *lexer, tri_chat_token *out) {
  for (;;) {
    char kind = 0, sign = 0;
    size_t begin = lexer->at, tag = find_tag(lexer, begin, &kind);
    size_t end = kind == 0 ? tag : end_of_text(lexer, begin, tag, kind);
    lexer->at = tag;
    if (end > begin) {
      lexer->line_starts = true; /* the next call begins at the tag, with no text before it */
      give_text(lexer, begin, tri_chat_string(lexer->source + begin, end - begin), out);
      return TRI_OK;
    }
    if (kind == 0) {
      *out = token_at(lexer, tag, TRI_TOKEN_END);
      return TRI_OK;
    }
    size_t raw = kind == '%' ? match_raw(lexer, tag, "raw", &sign) : 0;
    if (raw != 0) {
      tri_chat_value text;
      TRI_TRY(read_raw(lexer, tag, raw, sign, &text));
      give_text(lexer, tag, text, out);
      return TRI_OK;
    }
    if (kind != '#') {
      open_tag(lexer, tag, kind, out);
      return TRI_OK;
    }
    TRI_TRY(skip_comment(lexer, tag));
  }
}

/* ---- inside of tags ---------------------------------------------------------------------------------------------- */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (uint8_t)c >= 0x80;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char byte_at(const tri_chat_lexer *lexer, size_t at) { return at < lexer->bytes ? lexer->source[at] : 0; }

static tri_status read_hex(tri_chat_lexer *lexer, size_t at, int digits, uint32_t *out) {
  *out = 0;
  for (int i = 0; i < digits; i++) {
    char c = byte_at(lexer, at + (size_t)i);
    int digit = is_digit(c) ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
    if (digit < 0) return FAULT(lexer, "an escape sequence of the string needs %d hexadecimal digits", digits);
    *out = *out << 4 | (uint32_t)digit;
  }
  if (*out > 0x10FFFF || (*out >= 0xD800 && *out <= 0xDFFF))
    return FAULT(lexer, "an escape sequence of the string is not a valid character");
  return TRI_OK;
}

/* Reads one of Python's escapes, and writes the characters that it stands for. *at is the offset after the backslash,
 * and is moved to the end of the escape. Fails with TRI_BAD_FILE for an invalid escape. */
static tri_status read_escape(tri_chat_lexer *lexer, size_t *at, tri_chat_writer *writer) {
  static const char letters[] = "\\'\"abfnrtv", meant[] = "\\'\"\a\b\f\n\r\t\v";
  char letter = lexer->source[(*at)++];
  const char *found = letter == 0 ? NULL : strchr(letters, letter);
  if (found != NULL) return tri_chat_write(writer, &meant[found - letters], 1);
  if (letter == '\n') return TRI_OK;
  if (letter >= '0' && letter <= '7') {
    uint32_t code = (uint32_t)(letter - '0');
    for (int i = 0; i < 2 && byte_at(lexer, *at) >= '0' && byte_at(lexer, *at) <= '7'; i++) {
      code = code * 8 + (uint32_t)(lexer->source[(*at)++] - '0');
    }
    return tri_chat_write_code(writer, code);
  }
  int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (letter == 'N') return FAULT(lexer, "the escape \\N{...} is not supported; write the character itself");
  if (digits == 0) { /* not an escape in Python, so both characters are kept */
    TRI_TRY(tri_chat_write(writer, "\\", 1));
    return tri_chat_write(writer, &letter, 1);
  }
  uint32_t code = 0;
  TRI_TRY(read_hex(lexer, *at, digits, &code));
  *at += (size_t)digits;
  return tri_chat_write_code(writer, code);
}

static tri_status read_string(tri_chat_lexer *lexer, tri_chat_value *out) {
  char quote = lexer->source[lexer->at];
  size_t begin = lexer->at + 1, at = begin;
  bool escaped = false;
  while (at < lexer->bytes && lexer->source[at] != quote) {
    if (lexer->source[at] == '\\') escaped = true, at++;
    at++;
  }
  if (at >= lexer->bytes) return FAULT(lexer, "the string is not closed; its %c is missing", quote);
  lexer->at = at + 1;
  if (!escaped) {
    *out = tri_chat_string(lexer->source + begin, at - begin);
    return TRI_OK;
  }
  tri_chat_writer writer = {.arena = lexer->arena};
  for (size_t i = begin; i < at;) {
    if (lexer->source[i] != '\\') {
      TRI_TRY(tri_chat_write(&writer, lexer->source + i++, 1));
      continue;
    }
    i++;
    TRI_TRY(read_escape(lexer, &i, &writer));
  }
  *out = tri_chat_string(writer.text, writer.bytes);
  return TRI_OK;
}

static tri_status read_number(tri_chat_lexer *lexer, tri_chat_token *out) {
  char digits[64];
  size_t at = lexer->at, length = 0;
  bool real = false;
  if (byte_at(lexer, at) == '0' && strchr("xXoObB", byte_at(lexer, at + 1)) != NULL && byte_at(lexer, at + 1) != 0) {
    return FAULT(lexer, "this number is not decimal; only decimal numbers are supported");
  }
  for (; at < lexer->bytes && length + 1 < sizeof digits; at++) {
    char c = lexer->source[at];
    bool fraction = c == '.' && !real && is_digit(byte_at(lexer, at + 1));
    bool exponent =
        (c | 0x20) == 'e' &&
        (is_digit(byte_at(lexer, at + 1)) ||
         ((byte_at(lexer, at + 1) == '-' || byte_at(lexer, at + 1) == '+') && is_digit(byte_at(lexer, at + 2))));
    if (!is_digit(c) && c != '_' && !fraction && !exponent) break;
    real = real || fraction || exponent;
    if (c != '_') digits[length++] = c;
    if (exponent && !is_digit(byte_at(lexer, at + 1))) digits[length++] = lexer->source[++at];
  }
  digits[length] = 0;
  errno = 0;
  out->kind = (uint8_t)TRI_TOKEN_INTEGER;
  out->value = tri_chat_integer(real ? 0 : strtoll(digits, NULL, 10));
  if (real) {
    out->kind = (uint8_t)TRI_TOKEN_REAL;
    out->value = tri_chat_real(strtod(digits, NULL));
  }
  lexer->at = at;
  if (errno != 0 || length + 2 >= sizeof digits) return FAULT(lexer, "the number %s is too large", digits);
  return TRI_OK;
}

static tri_status read_sign(tri_chat_lexer *lexer, tri_chat_token *out) {
  static const char *const signs[] = {"==", "!=", "<=", ">=", "//", "**", "<", ">", "=", "+", "-", "*", "/",
                                      "%",  "~",  "|",  ".",  ",",  ":",  "(", ")", "[", "]", "{", "}"};
  for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
    if (!looking_at(lexer, lexer->at, signs[i])) continue;
    out->value = tri_chat_text(signs[i]);
    lexer->at += out->value.bytes;
    if (strchr("([{", signs[i][0]) != NULL) lexer->brackets++;
    if (strchr(")]}", signs[i][0]) != NULL) lexer->brackets--;
    return TRI_OK;
  }
  uint32_t code = (uint8_t)lexer->source[lexer->at];
  (void)tri_utf8_decode(lexer->source + lexer->at, lexer->bytes - lexer->at, &code);
  return FAULT(lexer, "the character U+%04X is not allowed in a tag", (unsigned)code);
}

/* Reads `%}` or `}}`, with its sign; returns false if neither follows. */
static bool end_tag(tri_chat_lexer *lexer) {
  char sign = byte_at(lexer, lexer->at);
  bool block = lexer->in_block;
  size_t at = lexer->at;
  if (lexer->brackets > 0) return false;
  if (sign == '-' || (sign == '+' && block)) {
    at++;
  } else {
    sign = 0;
  }
  if (!looking_at(lexer, at, block ? "%}" : "}}")) return false;
  lexer->at = close_tag(lexer, at + 2, sign, block);
  lexer->in_tag = false;
  return true;
}

static tri_status next_in_tag(tri_chat_lexer *lexer, tri_chat_token *out) {
  lexer->at = skip_space(lexer, lexer->at);
  size_t at = lexer->at;
  *out = token_at(lexer, at, TRI_TOKEN_SIGN);
  if (at == lexer->bytes) return FAULT(lexer, "the tag is not closed; `%s` is missing", lexer->in_block ? "%}" : "}}");
  char c = lexer->source[at];
  if (end_tag(lexer)) {
    out->kind = (uint8_t)(lexer->in_block ? TRI_TOKEN_END_BLOCK : TRI_TOKEN_END_PRINT);
    return TRI_OK;
  }
  if (is_digit(c)) return read_number(lexer, out);
  if (c == '"' || c == '\'') {
    out->kind = (uint8_t)TRI_TOKEN_STRING;
    return read_string(lexer, &out->value);
  }
  if (!is_letter(c)) return read_sign(lexer, out);
  while (lexer->at < lexer->bytes && (is_letter(lexer->source[lexer->at]) || is_digit(lexer->source[lexer->at]))) {
    lexer->at++;
  }
  out->kind = (uint8_t)TRI_TOKEN_NAME;
  out->value = tri_chat_string(lexer->source + at, lexer->at - at);
  return TRI_OK;
}

tri_status tri_chat_lexer_next(tri_chat_lexer *lexer, tri_chat_token *out) {
  return lexer->in_tag ? next_in_tag(lexer, out) : next_text(lexer, out);
}
