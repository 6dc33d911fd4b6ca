/* Counts of words: a table that grows with the number of different words. */
#ifndef TRI_TOKENIZER_WORD_COUNTS_H
#define TRI_TOKENIZER_WORD_COUNTS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_counted_word {
  size_t offset; /* offset of the word's bytes in the pool */
  uint32_t bytes;
  int64_t count;
} tri_counted_word;

/* Starts as {0}. */
typedef struct tri_word_counts {
  tri_counted_word *words; /* in the order of their first occurrence */
  int64_t word_count, word_room;
  char *pool;
  size_t pool_bytes, pool_room;
  int32_t *table; /* hash table with open addressing: index of the word + 1; 0: free */
  size_t table_places;
} tri_word_counts;

/* Adds 1 to the count of a word. Fails with TRI_UNSUPPORTED for 2^31 different words or more, and for a word of 4 GiB
 * or more. */
tri_status tri_word_counts_add(tri_word_counts *counts, const char *word, size_t bytes);
void tri_word_counts_release(tri_word_counts *counts);

#endif
