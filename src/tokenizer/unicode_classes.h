/* What each code point is, by one version of Unicode, whatever the libraries of the machine know: the general
 * categories as Hugging Face `tokenizers` has them, and where its Digits and its Punctuation go by other versions
 * (make_unicode_classes.py says which). */
#ifndef TRI_TOKENIZER_UNICODE_CLASSES_H
#define TRI_TOKENIZER_UNICODE_CLASSES_H

#include <stdbool.h>
#include <stdint.h>

/* The general categories, each L, M, N, P, S, Z, C beside its like. Named are those that code asks about. */
enum {
  TRI_UNICODE_LL = 2,  /* Lu Lt Ll: what has a case */
  TRI_UNICODE_NL = 9,  /* L, M, Nd, Nl */
  TRI_UNICODE_PC = 11, /* behind No */
  TRI_UNICODE_CATEGORIES = 30
};

/* A row is a run of code points that are alike, in order: the first of them, and in the low byte what they are. */
enum {
  TRI_UNICODE_CATEGORY = 31,        /* its general category */
  TRI_UNICODE_NUMERIC = 1 << 5,     /* Digits takes it for a digit */
  TRI_UNICODE_PUNCTUATION = 1 << 6, /* Punctuation takes it for punctuation; of ASCII it has more than is told here */
};
extern const uint32_t tri_unicode_runs[];
extern const int tri_unicode_num_runs;

/* Of the categories: "16.0.0". */
extern const char tri_unicode_version[];

/* The row that holds a code point. */
int tri_unicode_run_of(uint32_t code);

/* A set of general categories by its name, as patterns spell it ("L", "Lu", "Uppercase_Letter", in any case): bit c for
 * category c; 0 if it is no such name. */
uint32_t tri_unicode_categories(const char *name);

/* What \\w of patterns has: letters, marks, decimal digits, letter numbers, connectors, and the letters in circles and
 * boxes, which are alphabetic. */
bool tri_unicode_is_word(uint32_t code);

#endif
