/* Categories of code points in a fixed version of Unicode, independent of the machine's libraries: the general
 * categories of Hugging Face `tokenizers`, and those of its Digits and Punctuation, which use other versions (see
 * make_unicode_classes.py). */
#ifndef TRI_TOKENIZER_UNICODE_CLASSES_H
#define TRI_TOKENIZER_UNICODE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

/* Numbers of general categories, which are in the order L, M, N, P, S, Z, C. Only the numbers that code compares with
 * have names. */
enum {
  TRI_UNICODE_LL = 2,  /* categories 0 to 2, Lu, Lt and Ll, are the letters with case */
  TRI_UNICODE_NL = 9,  /* categories 0 to 9 are L, M, Nd and Nl */
  TRI_UNICODE_PC = 11, /* connectors, such as `_`; category 10, No, is not part of words */
  TRI_UNICODE_CATEGORIES = 30
};

/* A row of tri_unicode_runs is a run of code points with equal facts: the first code point, shifted left by 8 bits, and
 * the facts in the low byte. Rows are in the order of code points. */
enum {
  TRI_UNICODE_CATEGORY = 31,        /* mask of the general category */
  TRI_UNICODE_NUMERIC = 1 << 5,     /* set if the pre-tokenizer Digits takes the code point for a digit */
  TRI_UNICODE_PUNCTUATION = 1 << 6, /* set if the pre-tokenizer Punctuation takes the code point for punctuation; not
                                       set for some ASCII that Punctuation also takes */
};
extern const uint32_t tri_unicode_runs[];
extern const int tri_unicode_num_runs;

/* Version of the categories: "16.0.0". */
extern const char tri_unicode_version[];

/* Returns the row of a code point. */
int tri_unicode_run_of(uint32_t code);

/* Returns the set of general categories that have a name, as in patterns ("L", "Lu", "Uppercase_Letter", in any case).
 * Bit c is category c. Returns 0 if the name is unknown. */
uint32_t tri_unicode_categories(const char *name);

/* Returns whether \w of patterns matches a code point: letters, marks, decimal digits, letter numbers, connectors, and
 * the letters in circles and boxes, which are alphabetic. */
bool tri_unicode_is_word(uint32_t code);

/* Returns whether a code point has Unicode's White_Space. */
static inline bool tri_unicode_is_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

#endif
