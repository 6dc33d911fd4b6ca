/* Random lists of slices, with a matrix of the keys that each query sees. */
#ifndef TRI_TESTS_SLICE_LISTS_H
#define TRI_TESTS_SLICE_LISTS_H

#include "base/random.h"
#include "device/description.h"

#include <stdbool.h>

enum { MOST_SLICES = 24, MOST_ROWS = 200 };

typedef struct dice {
  uint64_t seed, stream, drawn;
} dice;

static inline int64_t roll(dice *d, int64_t sides) {
  return tri_random_u32(tri_random_stream(d->seed, TRI_RANDOM_TEST, d->stream), d->drawn++) % (uint32_t)sides;
}

typedef struct list {
  tri_attention_slice slices[MOST_SLICES];
  int count;
  bool sees[MOST_ROWS][MOST_ROWS]; /* [query, key] */
} list;

static inline bool pair_in(const tri_attention_slice *s, int64_t query, int64_t key) {
  int64_t i = query - s->first_query, j = key - s->first_key;
  if (i < 0 || i >= s->queries || j < 0 || j >= s->keys) return false;
  return j >= i + s->from && j <= i + s->to;
}

/* Adds a slice, unless a query would see a key twice. */
static inline void append(list *l, tri_attention_slice s) {
  if (l->count == MOST_SLICES) return;
  for (int q = 0; q < MOST_ROWS; q++)
    for (int k = 0; k < MOST_ROWS; k++)
      if (l->sees[q][k] && pair_in(&s, q, k)) return;
  for (int q = 0; q < MOST_ROWS; q++)
    for (int k = 0; k < MOST_ROWS; k++) l->sees[q][k] = l->sees[q][k] || pair_in(&s, q, k);
  l->slices[l->count++] = s;
}

/* Draws a slice: causal, full, a window that may be longer than the slice, or any band. */
static inline tri_attention_slice draw_slice(dice *d, int64_t query, int64_t queries, int64_t key, int64_t keys) {
  tri_attention_slice s = tri_slice_causal(query, queries, key, keys);
  switch (roll(d, 6)) {
    case 0: return tri_slice_full(query, queries, key, keys);
    case 1: return tri_slice_window(query, queries, key, keys, 1 + roll(d, 5));
    case 2: return tri_slice_window(query, queries, key, keys, 1 + roll(d, keys + 20));
    case 3:
      s.from = (int32_t)(roll(d, queries + keys + 20) - queries - 10);
      s.to = (int32_t)(s.from + roll(d, queries + keys + 1));
      return s;
    default: return s;
  }
}

#endif
