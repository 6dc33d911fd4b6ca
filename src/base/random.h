/* Randomness as a function of (seed, purpose, index): no code holds generator state, so a value does not depend on
 * which rank or thread asks for it, or in which order. Philox 4x32-10 (Salmon et al., SC 2011). */
#ifndef TRI_BASE_RANDOM_H
#define TRI_BASE_RANDOM_H

#include "base/philox.h"

/* The key of a stream. */
tri_random_key tri_random_stream(uint64_t seed, tri_random_purpose purpose, uint64_t stream);

/* The key of stream number `index` among those of a key: for what is told apart by more than one number. It is
 * drawn, of 128 bits: two that are equal are as good as impossible. */
tri_random_key tri_random_substream(tri_random_key key, tri_random_purpose purpose, uint64_t index);

/* Four 32-bit words at a block index. */
void tri_random_block(tri_random_key key, uint64_t block, uint32_t out[4]);

/* The index-th value of the stream: 32 bits; uniform in [0, 1) with 53 bits; standard normal (Box-Muller). */
uint32_t tri_random_u32(tri_random_key key, uint64_t index);
double tri_random_uniform(tri_random_key key, uint64_t index);
double tri_random_normal(tri_random_key key, uint64_t index);

#endif
