#include "base/random.h"

#include <math.h>

tri_random_key tri_random_stream(uint64_t seed, tri_random_purpose purpose, uint64_t stream) {
  /* The seed is the key; purpose and stream are the upper half of the counter, so streams can never overlap. */
  return (tri_random_key){
      .k0 = (uint32_t)seed,
      .k1 = (uint32_t)(seed >> 32),
      .c2 = (uint32_t)stream,
      .c3 = (uint32_t)(stream >> 32) ^ ((uint32_t)purpose << 24),
  };
}

void tri_random_block(tri_random_key key, uint64_t block, uint32_t out[4]) {
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

uint32_t tri_random_u32(tri_random_key key, uint64_t index) {
  uint32_t words[4];
  tri_random_block(key, index / 4, words);
  return words[index % 4];
}

static double uniform_of(uint32_t high, uint32_t low) {
  return (double)(((uint64_t)high << 21) ^ (low >> 11)) * 0x1p-53;
}

double tri_random_uniform(tri_random_key key, uint64_t index) {
  uint32_t words[4];
  tri_random_block(key, index / 2, words);
  unsigned pair = 2u * (unsigned)(index % 2);
  return uniform_of(words[pair], words[pair + 1]);
}

double tri_random_normal(tri_random_key key, uint64_t index) {
  uint32_t words[4];
  tri_random_block(key, index / 2, words);
  double u = 1.0 - uniform_of(words[0], words[1]); /* (0, 1] */
  double v = uniform_of(words[2], words[3]);
  double radius = sqrt(-2.0 * log(u));
  double angle = 2.0 * 3.14159265358979323846 * v;
  return index % 2 == 0 ? radius * cos(angle) : radius * sin(angle);
}
