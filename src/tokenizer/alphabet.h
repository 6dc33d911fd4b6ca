/* The alphabet of a pattern: code points beyond ASCII that the pattern cannot tell apart are one class of it, and a
 * text is matched with one stand-in for all of a class. So no regular expression library decides what a letter is. */
#ifndef TRI_TOKENIZER_ALPHABET_H
#define TRI_TOKENIZER_ALPHABET_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_ASCII = 128, TRI_MOST_CLASSES = 128, TRI_MOST_NAMED = 64 };

/* What can be said of a code point beside its general category. The first two are the table's bits. */
enum {
  TRI_IS_NUMERIC = 1 << 5,
  TRI_IS_PUNCTUATION = 1 << 6,
  TRI_IS_WORD = 1 << 8,
  TRI_IS_LATIN_NUMBER = 1 << 9, /* \w has them, but not inside of a class */
  TRI_IS_SPACE = 1 << 10,       /* White_Space */
  TRI_IS_TAB = 1 << 11,
  TRI_IS_HEX = 1 << 12,
  TRI_IS_ASCII = 1 << 13,
  TRI_IS_LONG_S = 1 << 14, /* an s where case does not count */
  TRI_IS_KELVIN = 1 << 15, /* a k */
  TRI_IS_IOTA = 1 << 16,   /* a mark that is an iota there, so a letter */
};

typedef struct tri_class {
  uint32_t facts; /* the general category, and bits of the above */
  uint64_t named; /* bit i: set i of the pattern's own names it */
} tri_class;

/* Code points first .. last, none of them in ASCII, that the pattern's set i names. */
typedef struct tri_named_range {
  uint32_t first, last;
  int set;
} tri_named_range;

typedef struct tri_alphabet {
  tri_class classes[TRI_MOST_CLASSES]; /* sorted by category, so that a letter is a run of them */
  int num_classes;
  uint8_t *class_of; /* [0x110000] */
} tri_alphabet;

uint32_t tri_code_facts(uint32_t code);

/* `where` begins the message where there are too many classes. Release it with tri_alphabet_destroy. */
tri_status tri_alphabet_create(const char *where, const tri_named_range *ranges, size_t count, tri_alphabet **out);
void tri_alphabet_destroy(tri_alphabet *alphabet);

/* The stand-in of a class for code points of 2, 3 or 4 bytes: it has as many, so that places in the text stay. None has
 * an upper or lower case. */
uint32_t tri_alphabet_stand_in(int class_index, int bytes);

/* Writes the text (valid UTF-8) with stand-ins for all beyond ASCII; out has as many bytes. */
void tri_alphabet_map(const tri_alphabet *alphabet, const char *text, size_t bytes, char *out);

#endif
