#include "base/random.h"

#include <math.h>

tri_random_key tri_random_stream(uint64_t seed, tri_random_purpose purpose, uint64_t stream) {
  return tri_philox_key(seed, purpose, stream);
}

tri_random_key tri_random_substream(tri_random_key key, tri_random_purpose purpose, uint64_t index) {
  uint32_t words[4];
  tri_random_block(key, index, words);
  return tri_philox_key((uint64_t)words[1] << 32 | words[0], purpose, (uint64_t)words[3] << 32 | words[2]);
}

void tri_random_block(tri_random_key key, uint64_t block, uint32_t out[4]) { tri_philox_block(key, block, out); }

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
