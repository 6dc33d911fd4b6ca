/* The words of the best-known pre-tokenizer patterns, found without a regular expression.
 *
 * A scanner only handles ASCII. If the end of a word depends on a byte >= 0x80 (which may be part of a letter, a digit,
 * a space, or something else) it returns 0, and the caller uses PCRE2 for this word. Alternatives of a pattern are
 * tried in order, and each is greedy, so the first one that matches decides:
 *
 *   GPT-2:    's 't 're 've 'm 'll 'd |  ?letters |  ?digits |  ?others | spaces not before a non-space | spaces
 *   Llama 3:  the same endings in either case | letters, after at most one character that is not a letter, a digit or a
 *             line break | 1 to 3 digits |  ?others, then line breaks | spaces up to the last line break | spaces not
 *             before a non-space | spaces
 *   Qwen 2:   as Llama 3 with single digits
 *
 * "Spaces not before a non-space" leaves the last space of a run to the next word, if there is one. */
#include "tokenizer/pretokenizer.h"

#include <stdint.h>
#include <string.h>

#define ENDINGS "'s|'t|'re|'ve|'m|'ll|'d"
#define LLAMA3(digits)                                                                                                 \
  "(?i:" ENDINGS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                                             \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char tri_pattern_gpt2[] = ENDINGS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

static const struct {
  const char *pattern;
  tri_scanner scanner;
} known[] = {
    {tri_pattern_gpt2, TRI_SCAN_GPT2},
    {"'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", TRI_SCAN_GPT2},
    {LLAMA3("\\p{N}{1,3}"), TRI_SCAN_LLAMA3},
    {LLAMA3("\\p{N}"), TRI_SCAN_QWEN2},
};

tri_scanner tri_scanner_of(const char *pattern) {
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i].pattern, pattern) == 0) return known[i].scanner;
  }
  return TRI_SCAN_NONE;
}

typedef enum { OTHER, LETTER, DIGIT, BLANK, SPACE, BREAK, HIGH } byte_class;

/* Classes of bytes; all others are OTHER. */
static const uint8_t classes[256] = {
    ['\t'] = BLANK,        ['\n'] = BREAK,         ['\v' ... '\f'] = BLANK, ['\r'] = BREAK,         [' '] = SPACE,
    ['0' ... '9'] = DIGIT, ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER,  [0x80 ... 0xFF] = HIGH,
};

static byte_class class_at(const char *text, size_t i) { return (byte_class)classes[(uint8_t)text[i]]; }

static bool is_white(byte_class c) { return c == BLANK || c == SPACE || c == BREAK; }

/* Returns the end of the run of bytes of class `wanted` that begins at i; 0 if a byte >= 0x80 follows the run. */
static inline size_t run_end(const char *text, size_t bytes, size_t i, byte_class wanted) {
  while (i < bytes && class_at(text, i) == wanted) i++;
  return i < bytes && class_at(text, i) == HIGH ? 0 : i;
}

/* Returns the length of an English ending ('s, 'll, ...) at the beginning of the text, an apostrophe included; 0 if the
 * text does not begin with an ending. */
static size_t ending(const char *text, size_t bytes, bool any_case) {
  if (bytes < 2) return 0;
  char fold = any_case ? 0x20 : 0;
  char first = (char)(text[1] | fold);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (bytes < 3) return 0;
  char second = (char)(text[2] | fold);
  bool is_long = (first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e');
  return is_long ? 3 : 0;
}

/* Returns the length of a word of white space at the beginning of the text; 0 if a byte >= 0x80 follows the white
 * space. break_ends: whether a word ends after the last line break. */
static size_t white_word(const char *text, size_t bytes, bool break_ends) {
  size_t i = 0, after_break = 0;
  for (; i < bytes && is_white(class_at(text, i)); i++) {
    if (class_at(text, i) == BREAK) after_break = i + 1;
  }
  if (i < bytes && class_at(text, i) == HIGH) return 0;
  if (break_ends && after_break > 0) return after_break;
  return i == bytes || i == 1 ? i : i - 1;
}

static size_t gpt2_word(const char *text, size_t bytes) {
  if (text[0] == '\'') {
    size_t length = ending(text, bytes, false);
    if (length > 0) return length;
  }
  size_t begin = text[0] == ' ' && bytes > 1 ? 1 : 0;
  byte_class c = class_at(text, begin);
  if (c == LETTER || c == DIGIT || c == OTHER) return run_end(text, bytes, begin, c);
  return c == HIGH ? 0 : white_word(text, bytes, false);
}

static size_t llama3_word(const char *text, size_t bytes, size_t most_digits) {
  if (text[0] == '\'') {
    size_t length = ending(text, bytes, true);
    if (length > 0) return length;
  }
  byte_class c = class_at(text, 0);
  byte_class next = bytes > 1 ? class_at(text, 1) : BREAK;
  if (c == HIGH) return 0;
  if (c == LETTER) return run_end(text, bytes, 0, LETTER);
  if (c == DIGIT) {
    size_t i = 1;
    while (i < most_digits && i < bytes && class_at(text, i) == DIGIT) i++;
    return i < most_digits && i < bytes && class_at(text, i) == HIGH ? 0 : i;
  }
  if (c != BREAK && next == LETTER) return run_end(text, bytes, 1, LETTER);
  if (c != BREAK && next == HIGH) return 0;
  if (c == OTHER || (c == SPACE && next == OTHER)) {
    size_t i = run_end(text, bytes, 1, OTHER);
    while (i > 0 && i < bytes && class_at(text, i) == BREAK) i++;
    return i;
  }
  return white_word(text, bytes, true);
}

size_t tri_scanner_word(tri_scanner scanner, const char *text, size_t bytes) {
  switch (scanner) {
    case TRI_SCAN_NONE: return 0;
    case TRI_SCAN_GPT2: return gpt2_word(text, bytes);
    case TRI_SCAN_LLAMA3: return llama3_word(text, bytes, 3);
    case TRI_SCAN_QWEN2: return llama3_word(text, bytes, 1);
  }
  return 0;
}
