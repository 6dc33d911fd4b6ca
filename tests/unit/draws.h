/* Random cases: numbers drawn one after the other from a stream of their own. */
#ifndef TRI_TESTS_DRAWS_H
#define TRI_TESTS_DRAWS_H

#include "base/random.h"

#include <math.h>
#include <stdbool.h>

typedef struct draws {
  tri_random_key key;
  uint64_t next;
} draws;

static inline int64_t pick(draws *d, int64_t low, int64_t high) {
  return low + (int64_t)(tri_random_u32(d->key, d->next++) % (uint32_t)(high - low + 1));
}

static inline bool toss(draws *d) { return pick(d, 0, 1) == 0; }

/* 10 to the power of anything between. */
static inline double pick_scale(draws *d, double low, double high) {
  return pow(10, low + (high - low) * tri_random_uniform(d->key, d->next++));
}

#endif
