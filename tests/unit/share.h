/* The part of a long list that one run of a test has time for. Any `every` consecutive seeds cover the whole list. */
#ifndef TRI_TESTS_UNIT_SHARE_H
#define TRI_TESTS_UNIT_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Returns whether index `place` of a list belongs to this run: one in `every` does, depending on the seed
 * (TRIREME_TEST_SEED, 0 if not set); with TRIREME_LAYOUTS=all, all do. */
static inline bool in_share(int64_t place, int64_t every) {
  const char *which = getenv("TRIREME_LAYOUTS"), *seed = getenv("TRIREME_TEST_SEED");
  if (which != NULL && strcmp(which, "all") == 0) return true;
  return (place + (seed != NULL ? strtoll(seed, NULL, 10) : 0)) % every == 0;
}

#endif
