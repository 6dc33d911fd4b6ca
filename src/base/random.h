/* Randomness as a function of (seed, purpose, index): no code holds generator state, so a value depends
 * neither on the rank or thread that computes it, nor on the order. Philox 4x32-10 (Salmon et al., SC 2011). */
#ifndef TRI_BASE_RANDOM_H
#define TRI_BASE_RANDOM_H

#include "base/philox.h"

/* Returns the key of a stream. */
tri_random_key tri_random_stream(uint64_t seed, tri_random_purpose purpose, uint64_t stream);

/* Returns the key of substream `index` of a key, for uses that more than one number distinguishes. The new key has 128
 * random bits, so equal keys are practically impossible. */
tri_random_key tri_random_substream(tri_random_key key, tri_random_purpose purpose, uint64_t index);

/* Computes four 32-bit words at a block index. */
void tri_random_block(tri_random_key key, uint64_t block, uint32_t out[4]);

/* Return value number `index` of the stream: 32 bits; uniform in [0, 1) with 53 bits; standard normal (Box-Muller). */
uint32_t tri_random_u32(tri_random_key key, uint64_t index);
double tri_random_uniform(tri_random_key key, uint64_t index);
double tri_random_normal(tri_random_key key, uint64_t index);

#endif
