/* An order that is computed, not stored: any rank finds its place i alone. */
#ifndef TRI_DATA_PERMUTATION_H
#define TRI_DATA_PERMUTATION_H

#include "base/philox.h"

/* Where `index` goes, in a permutation of [0, count) that the key chooses. The blocks of the key from 2^63 on are left
 * to the caller. */
uint64_t tri_permutation_at(tri_random_key key, uint64_t count, uint64_t index);

#endif
