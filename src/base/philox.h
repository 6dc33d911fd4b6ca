/* Philox 4x32-10 (Salmon et al., SC 2011), for the host (random.c) and kernels of GPUs. */
#ifndef TRI_BASE_PHILOX_H
#define TRI_BASE_PHILOX_H

#include "base/host_and_gpu.h"
#include "base/random.h"

/* The seed is the key; purpose and stream are the upper half of the counter, so streams can never overlap. */
TRI_HOST_AND_GPU tri_random_key tri_philox_key(uint64_t seed, tri_random_purpose purpose, uint64_t stream) {
  tri_random_key key;
  key.k0 = (uint32_t)seed;
  key.k1 = (uint32_t)(seed >> 32);
  key.c2 = (uint32_t)stream;
  key.c3 = (uint32_t)(stream >> 32) ^ ((uint32_t)purpose << 24);
  return key;
}

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
