/* Pairs of adjacent characters that a merge can join into one token. */
#ifndef TRI_TOKENIZER_JOINS_H
#define TRI_TOKENIZER_JOINS_H

#include "tokenizer/vocabulary.h"

enum { TRI_FEW_CODES = 129 }; /* ASCII and the mark of a space */

typedef struct tri_joins {
  bool all;        /* whether every pair may be joined */
  bool few_only;   /* whether a pair may always be joined if it has a character other than the TRI_FEW_CODES */
  uint64_t *pairs; /* hash table with open addressing: left << 32 | right; 0: free */
  size_t mask;
  uint8_t few[(TRI_FEW_CODES * TRI_FEW_CODES + 7) /
              8]; /* a bit for each pair of the TRI_FEW_CODES characters: whether the pair may be joined */
} tri_joins;

/* Computes the pairs from the merges of a vocabulary of characters. `unknown`: whether some characters become an
 * unknown token. Release with tri_joins_release, also after a failure. */
tri_status tri_joins_create(tri_joins *joins, const tri_vocabulary *vocabulary, bool unknown);
void tri_joins_release(tri_joins *joins);

/* Returns the length of the shortest start of the text that can be encoded alone: no merge crosses its end. The text is
 * valid UTF-8 and not empty. */
size_t tri_joins_run(const tri_joins *joins, const char *text, size_t bytes);

#endif
