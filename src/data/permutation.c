/* A Feistel network over 2h bits is a bijection of [0, 4^h) for any round function (Luby and Rackoff, 1988). The
 * smallest such domain with at least `count` values is used, and values outside of [0, count) are mapped again until
 * one is inside, which gives a bijection of [0, count) ("cycle walking", Black and Rogaway, 2002). The domain is at
 * most four times `count`, so the search takes at most four passes on average. */
#include "data/permutation.h"
#include "base/random.h"

/* Number of rounds. Four are pseudo-random for an observer without the key; small domains need more. */
enum { ROUNDS = 8 };

uint64_t tri_permutation_at(tri_random_key key, uint64_t count, uint64_t index) {
  unsigned half_bits = 1;
  while ((count - 1) >> (2 * half_bits) != 0) half_bits++;
  uint64_t mask = (UINT64_C(1) << half_bits) - 1;
  do {
    uint64_t left = index >> half_bits, right = index & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
      uint32_t words[4];
      tri_random_block(key, round << 32 | right, words);
      uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    index = left << half_bits | right;
  } while (index >= count);
  return index;
}
