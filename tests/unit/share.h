/* The share of a long list that one run of a test has time for: any `every` consecutive seeds take all of it. */
#ifndef TRI_TESTS_UNIT_SHARE_H
#define TRI_TESTS_UNIT_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whether place `place` of a list belongs to this run: one in `every` does, by the seed (TRIREME_TEST_SEED, 0 if not
 * set); all do where TRIREME_LAYOUTS=all. */
static inline bool in_share(int64_t place, int64_t every) {
  const char *which = getenv("TRIREME_LAYOUTS"), *seed = getenv("TRIREME_TEST_SEED");
  if (which != NULL && strcmp(which, "all") == 0) return true;
  return (place + (seed != NULL ? strtoll(seed, NULL, 10) : 0)) % every == 0;
}

#endif
