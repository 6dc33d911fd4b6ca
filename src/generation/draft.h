/* Guesses by a draft model: a smaller model with the same tokenizer proposes the next tokens of each sequence. The
 * draft model samples with the sequence's own random numbers, so if both models have the same distribution for a token,
 * the draft model proposes the token that the large model will sample. */
#ifndef TRI_GENERATION_DRAFT_H
#define TRI_GENERATION_DRAFT_H

#include "generation/generator.h"
#include "generation/guess.h"

typedef struct tri_draft {
  tri_generator *generator; /* the draft model's generator, for as many sequences as the large model's */
  int64_t positions;        /* tri_runner_sizes.positions of the draft model's runner */
  int64_t vocab_size;       /* vocabulary of the large model, whose tokens are guessed */
} tri_draft;

/* Returns a proposer that uses `draft`, which must outlive it. */
tri_proposer tri_draft_proposer(tri_draft *draft);

#endif
