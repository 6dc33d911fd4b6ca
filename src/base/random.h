/* Randomness as a function of (seed, purpose, index): nobody holds generator state, so a value does not depend on
 * which rank or thread asks for it, or in which order. Philox 4x32-10 (Salmon et al., SC 2011). */
#ifndef TRI_BASE_RANDOM_H
#define TRI_BASE_RANDOM_H

#include <stdint.h>

/* What a stream of numbers is for; `stream` tells apart uses of the same purpose (a parameter, a layer, an epoch). */
typedef enum tri_random_purpose {
  TRI_RANDOM_INIT = 1,    /* stream: index in the parameter table;  index: global element     */
  TRI_RANDOM_DROPOUT = 2, /* stream: step and operation;            index: global element     */
  TRI_RANDOM_ORDER = 3,   /* stream: epoch;                         index: sample             */
  TRI_RANDOM_SAMPLE = 4,  /* stream: position in the generated text                           */
  TRI_RANDOM_TEST = 5,
  TRI_RANDOM_SPLIT = 6, /* training or validation;              index: document               */
  TRI_RANDOM_TUNE = 7,  /* stream: of what is drawn;            index: trial                  */
} tri_random_purpose;

typedef struct tri_random_key {
  uint32_t k0, k1; /* Philox key, from the seed       */
  uint32_t c2, c3; /* upper half of the counter       */
} tri_random_key;

/* The key of a stream. */
tri_random_key tri_random_stream(uint64_t seed, tri_random_purpose purpose, uint64_t stream);

/* Four 32-bit words at a block index. */
void tri_random_block(tri_random_key key, uint64_t block, uint32_t out[4]);

/* The index-th value of the stream: 32 bits; uniform in [0, 1) with 53 bits; standard normal (Box-Muller). */
uint32_t tri_random_u32(tri_random_key key, uint64_t index);
double tri_random_uniform(tri_random_key key, uint64_t index);
double tri_random_normal(tri_random_key key, uint64_t index);

#endif
