/* The alphabet of a pattern. Code points beyond ASCII that the pattern does not distinguish form a class. For matching,
 * all code points of a class are replaced by one stand-in, so matches do not depend on the Unicode version of the
 * regular expression library. */
#ifndef TRI_TOKENIZER_ALPHABET_H
#define TRI_TOKENIZER_ALPHABET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_ASCII = 128, TRI_MOST_CLASSES = 128, TRI_MOST_NAMED = 64 };

/* Facts about a code point besides its general category. The first two are bits of tri_unicode_runs. */
enum {
  TRI_IS_NUMERIC = 1 << 5,
  TRI_IS_PUNCTUATION = 1 << 6,
  TRI_IS_WORD = 1 << 8,
  TRI_IS_LATIN_NUMBER = 1 << 9, /* in \w, but not in \w inside a class */
  TRI_IS_SPACE = 1 << 10,       /* White_Space */
  TRI_IS_TAB = 1 << 11,
  TRI_IS_HEX = 1 << 12,
  TRI_IS_ASCII = 1 << 13,
  TRI_IS_LONG_S = 1 << 14, /* equals s if case is ignored */
  TRI_IS_KELVIN = 1 << 15, /* equals k if case is ignored */
  TRI_IS_IOTA = 1 << 16,   /* a mark that equals the letter iota if case is ignored */
};

typedef struct tri_class {
  uint32_t facts; /* general category, and bits of the facts above */
  uint64_t named; /* bit i: set i of the pattern names it */
} tri_class;

/* Code points first .. last, all beyond ASCII, that set number `set` of the pattern names. */
typedef struct tri_named_range {
  uint32_t first, last;
  int set;
} tri_named_range;

typedef struct tri_alphabet {
  tri_class classes[TRI_MOST_CLASSES]; /* sorted by category, so that all letters are adjacent */
  int num_classes;
  uint8_t *class_of; /* [0x110000] */
} tri_alphabet;

/* Returns the general category of a code point, and bits of the facts above. */
uint32_t tri_code_facts(uint32_t code);

/* Creates an alphabet. Fails with TRI_UNSUPPORTED for more than TRI_MOST_CLASSES classes; `where` begins the message.
 * Release with tri_alphabet_destroy. */
tri_status tri_alphabet_create(const char *where, const tri_named_range *ranges, size_t count, tri_alphabet **out);
void tri_alphabet_destroy(tri_alphabet *alphabet);

/* Returns the stand-in of a class for code points of 2, 3 or 4 bytes. It has the same number of bytes, so that offsets
 * in the text do not change, and no upper or lower case. */
uint32_t tri_alphabet_stand_in(int class_index, int bytes);

/* Writes the text (valid UTF-8) with stand-ins for all code points beyond ASCII; out has as many bytes. */
void tri_alphabet_map(const tri_alphabet *alphabet, const char *text, size_t bytes, char *out);

#endif
