/* A draft model: a smaller one with the same tokenizer, which writes a few tokens on from where a sequence is. It draws
 * with the sequence's own random numbers, so that it draws what the model will where their distributions agree. */
#ifndef TRI_GENERATION_DRAFT_H
#define TRI_GENERATION_DRAFT_H

#include "generation/generator.h"
#include "generation/guess.h"

typedef struct tri_draft {
  tri_generator *generator; /* the draft model's, with as many sequences side by side */
  int64_t positions;        /* of the draft model */
  int64_t vocab_size;
} tri_draft;

/* Guesses by a draft, which has to outlive it. */
tri_guesser tri_draft_guesser(tri_draft *draft);

#endif
