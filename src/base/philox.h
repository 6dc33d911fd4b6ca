/* Philox 4x32-10 (Salmon et al., SC 2011) and the streams that are drawn from it (random.h), for the host (random.c)
 * and kernels of GPUs. */
#ifndef TRI_BASE_PHILOX_H
#define TRI_BASE_PHILOX_H

#include "base/host_and_gpu.h"

#include <stdint.h>

/* Purpose of a stream of numbers; `stream` distinguishes uses with the same purpose (a parameter, a layer, an epoch).
 */
typedef enum tri_random_purpose {
  TRI_RANDOM_INIT = 1,    /* stream: index in the parameter table; index: global element */
  TRI_RANDOM_DROPOUT = 2, /* stream: step and operation; index: global element */
  TRI_RANDOM_ORDER = 3,   /* stream: epoch; index: sample */
  TRI_RANDOM_SAMPLE = 4,  /* stream: prompt, substream: sample; index: place in the text */
  TRI_RANDOM_TEST = 5,
  TRI_RANDOM_SPLIT = 6,  /* training or validation; stream: 0; index: document */
  TRI_RANDOM_TUNE = 7,   /* stream: purpose within tune/; index: trial, or another number of that purpose */
  TRI_RANDOM_PACK = 8,   /* stream: epoch and length; index: piece of a document */
  TRI_RANDOM_MIX = 9,    /* stream: 0; index: source of a mixture */
  TRI_RANDOM_PLAN = 10,  /* stream: purpose within plan/; index: document or sequence */
  TRI_RANDOM_BATCH = 11, /* stream: iteration over a batch of completions; index: group */
} tri_random_purpose;

typedef struct tri_random_key {
  uint32_t k0, k1; /* Philox key, from the seed */
  uint32_t c2, c3; /* upper half of the counter */
} tri_random_key;

/* Returns the key of a stream, whose number is below 2^56. The seed is the Philox key; purpose and stream are the upper
 * half of the counter, so streams cannot overlap. */
TRI_HOST_AND_GPU tri_random_key tri_philox_key(uint64_t seed, tri_random_purpose purpose, uint64_t stream) {
  tri_random_key key;
  key.k0 = (uint32_t)seed;
  key.k1 = (uint32_t)(seed >> 32);
  key.c2 = (uint32_t)stream;
  key.c3 = (uint32_t)(stream >> 32) ^ ((uint32_t)purpose << 24);
  return key;
}

/* Computes four random words by ten rounds on the counter (block, c2, c3). */
TRI_HOST_AND_GPU void tri_philox_block(tri_random_key key, uint64_t block, uint32_t out[4]) {
  uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = key.c2, c3 = key.c3;
  uint32_t k0 = key.k0, k1 = key.k1;
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

#endif
