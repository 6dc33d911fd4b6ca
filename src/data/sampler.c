/* Which window of the corpus a sample is.
 *
 * The windows of an epoch are sequence + 1 tokens long and lie `sequence` tokens apart, so that every token but the
 * first is a label once. An epoch begins its windows at a shift of its own in [0, sequence): otherwise every epoch
 * would cut the text at the same places. Their number must not depend on the shift (the epoch of a sample is its index
 * divided by it), so where the last window would reach over the end of the corpus it is moved back to end there.
 *
 * The order is a permutation that is computed, not stored: a corpus of 10^12 tokens has 10^9 windows, and any rank must
 * find sample i of epoch e alone. A Feistel network over 2h bits is a bijection of [0, 4^h) whatever its round function
 * is (Luby and Rackoff, 1988); the smallest such domain that holds the windows is used, and values that fall outside
 * are sent through again until one falls inside, which is again a bijection ("cycle walking", Black and Rogaway, 2002).
 * The domain is less than four times the number of windows, so that takes fewer than four passes on average. */
#include "base/random.h"
#include "data/corpus.h"

#include <inttypes.h>
#include <string.h>

/* Four rounds already pass for random to who does not see the key; small domains want more. */
enum { ROUNDS = 8 };

/* Blocks of the epoch's stream: (round, half) for the network, this one for the shift. */
#define SHIFT_BLOCK (UINT64_C(1) << 63)

tri_status tri_sampler_create(const tri_corpus *corpus, int64_t sequence, int64_t vocab_size, uint64_t seed,
                              tri_sampler *out) {
  if (sequence < 1) {
    return tri_fail(TRI_BAD_CONFIG, "data.sequence is %" PRId64 "; a sample has at least 1 token", sequence);
  }
  int64_t tokens = tri_corpus_num_tokens(corpus);
  if (tokens - 1 < sequence) {
    return tri_fail(TRI_BAD_CONFIG,
                    "the corpus has %" PRId64 " tokens, fewer than the %" PRIu64
                    " of one sample (data.sequence %" PRId64
                    " and its last label); prepare more text or lower data.sequence",
                    tokens, (uint64_t)sequence + 1, sequence);
  }
  *out = (tri_sampler){
      .corpus = corpus,
      .sequence = sequence,
      .per_epoch = (tokens - 1) / sequence,
      .vocab_size = vocab_size,
      .seed = seed,
  };
  return TRI_OK;
}

static uint64_t permute(tri_random_key key, uint64_t count, uint64_t index) {
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

static tri_status read_window(const tri_sampler *sampler, int64_t first, int32_t *inputs, int32_t *labels) {
  int64_t sequence = sampler->sequence;
  TRI_TRY(tri_corpus_read(sampler->corpus, first, sequence, sampler->vocab_size, inputs));
  memcpy(labels, inputs + 1, (size_t)(sequence - 1) * sizeof *labels);
  return tri_corpus_read(sampler->corpus, first + sequence, 1, sampler->vocab_size, labels + sequence - 1);
}

tri_status tri_sampler_read(const tri_sampler *sampler, int64_t index, int32_t *inputs, int32_t *labels) {
  if (index < 0) return tri_fail(TRI_INTERNAL, "sample %" PRId64 " was asked for", index);
  uint64_t epoch = (uint64_t)(index / sampler->per_epoch);
  tri_random_key key = tri_random_stream(sampler->seed, TRI_RANDOM_ORDER, epoch);
  int64_t window = (int64_t)permute(key, (uint64_t)sampler->per_epoch, (uint64_t)(index % sampler->per_epoch));
  uint32_t words[4];
  tri_random_block(key, SHIFT_BLOCK, words);
  uint64_t shift = ((uint64_t)words[1] << 32 | words[0]) % (uint64_t)sampler->sequence;
  int64_t first = (int64_t)shift + window * sampler->sequence;
  int64_t last_first = tri_corpus_num_tokens(sampler->corpus) - sampler->sequence - 1;
  return read_window(sampler, first < last_first ? first : last_first, inputs, labels);
}

tri_status tri_sampler_read_in_order(const tri_sampler *sampler, int64_t index, int32_t *inputs, int32_t *labels) {
  if (index < 0 || index >= sampler->per_epoch) {
    return tri_fail(TRI_INTERNAL, "window %" PRId64 " of %" PRId64 " was asked for", index, sampler->per_epoch);
  }
  return read_window(sampler, index * sampler->sequence, inputs, labels);
}
