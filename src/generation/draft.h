/* Guesses by a draft model: a smaller model with the same tokenizer proposes the next tokens of each sequence. It
 * samples with the sequence's own random numbers, so it proposes the token that the model will sample wherever their
 * distributions agree. */
#ifndef TRI_GENERATION_DRAFT_H
#define TRI_GENERATION_DRAFT_H

#include "generation/generator.h"
#include "generation/guess.h"

typedef struct tri_draft {
  tri_generator *generator; /* the draft model's generator, with room for the same number of sequences */
  int64_t positions;        /* largest number of positions of the draft model */
  int64_t vocab_size;
} tri_draft;

/* Returns a proposer that uses `draft`, which must outlive it. */
tri_proposer tri_draft_proposer(tri_draft *draft);

#endif
