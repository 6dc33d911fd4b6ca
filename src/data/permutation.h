/* A pseudo-random permutation that is computed, not stored. */
#ifndef TRI_DATA_PERMUTATION_H
#define TRI_DATA_PERMUTATION_H

#include "base/philox.h"

/* Returns element `index` of the permutation of [0, count) that the key selects. Blocks of the key from 2^63 on are not
 * used, and are free for the caller. */
uint64_t tri_permutation_at(tri_random_key key, uint64_t count, uint64_t index);

#endif
