#include "tokenizer/word_counts.h"

#include "base/memory.h"
#include "tokenizer/vocabulary.h"

#include <string.h>

static const char what[] = "the words of a vocabulary's text";

void tri_word_counts_release(tri_word_counts *counts) {
  tri_free(counts->words);
  tri_free(counts->pool);
  tri_free(counts->table);
  *counts = (tri_word_counts){0};
}

/* Returns the place of a word in the table, or the free place for it. */
static size_t word_table_place(const tri_word_counts *counts, const char *word, size_t bytes) {
  size_t place = (size_t)tri_hash_bytes(word, bytes) & (counts->table_places - 1);
  for (;; place = (place + 1) & (counts->table_places - 1)) {
    int32_t index = counts->table[place] - 1;
    if (index < 0) return place;
    const tri_counted_word *known = &counts->words[index];
    if (known->bytes == bytes && memcmp(counts->pool + known->offset, word, bytes) == 0) return place;
  }
}

static tri_status grow_table(tri_word_counts *counts) {
  size_t places = counts->table_places == 0 ? 1 << 16 : counts->table_places * 2;
  int32_t *table = NULL;
  TRI_TRY(tri_alloc(what, places, sizeof *table, &table));
  tri_free(counts->table);
  counts->table = table;
  counts->table_places = places;
  for (int64_t i = 0; i < counts->word_count; i++) {
    const tri_counted_word *word = &counts->words[i];
    table[word_table_place(counts, counts->pool + word->offset, word->bytes)] = (int32_t)i + 1;
  }
  return TRI_OK;
}

static tri_status add_new(tri_word_counts *counts, const char *word, size_t bytes) {
  if (counts->word_count == INT32_MAX || bytes > UINT32_MAX) {
    return tri_fail(TRI_UNSUPPORTED,
                    "the text has too many different words (or one too long) to learn a vocabulary; "
                    "use less text");
  }
  TRI_TRY(tri_grow(what, sizeof *counts->words, counts->word_count, &counts->word_room, &counts->words));
  TRI_TRY(tri_reserve(what, 1, counts->pool_bytes + bytes, &counts->pool_room, &counts->pool));
  memcpy(counts->pool + counts->pool_bytes, word, bytes);
  counts->words[counts->word_count++] =
      (tri_counted_word){.offset = counts->pool_bytes, .bytes = (uint32_t)bytes, .count = 1};
  counts->pool_bytes += bytes;
  return TRI_OK;
}

tri_status tri_word_counts_add(tri_word_counts *counts, const char *word, size_t bytes) {
  if ((size_t)counts->word_count * 2 >= counts->table_places) TRI_TRY(grow_table(counts));
  size_t place = word_table_place(counts, word, bytes);
  if (counts->table[place] != 0) {
    counts->words[counts->table[place] - 1].count++;
    return TRI_OK;
  }
  TRI_TRY(add_new(counts, word, bytes));
  counts->table[place] = (int32_t)counts->word_count;
  return TRI_OK;
}
