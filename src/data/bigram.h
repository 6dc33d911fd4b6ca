/* A bigram model counted on a corpus: a baseline that a trained model must beat by far.
 *
 * Witten-Bell smoothing (Witten and Bell 1991) on two levels: with c the counts, T(h) the number of different tokens
 * that follow h, T the number of different tokens, N the number of all tokens and V the size of the vocabulary,
 *
 *   p(w | h) = (c(h w) + T(h) p(w)) / (c(h) + T(h))        p(w) = (c(w) + T / V) / (N + T) */
#ifndef TRI_DATA_BIGRAM_H
#define TRI_DATA_BIGRAM_H

#include "base/status.h"
#include "data/corpus.h"

#include <stdint.h>

typedef struct tri_bigram tri_bigram;

/* Counts all pairs of adjacent tokens of the corpus, with 16 bytes of memory for each token. Fails with TRI_BAD_FILE
 * for an id outside [0, vocab_size). Release with tri_bigram_destroy. */
tri_status tri_bigram_create(const tri_corpus *corpus, int64_t vocab_size, tri_bigram **out);
void tri_bigram_destroy(tri_bigram *bigram);

/* Returns p(next | previous), which is above 0 for all ids below vocab_size. */
double tri_bigram_probability(const tri_bigram *bigram, int32_t previous, int32_t next);

#endif
