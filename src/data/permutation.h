/* A pseudo-random permutation that is computed, not stored. */
#ifndef TRI_DATA_PERMUTATION_H
#define TRI_DATA_PERMUTATION_H

#include "base/philox.h"

/* Element `index` of the permutation of [0, count) that the key selects. It does not use blocks of the key from 2^63
 * on, which are free for the caller. */
uint64_t tri_permutation_at(tri_random_key key, uint64_t count, uint64_t index);

#endif
