/* The generator, which generator.c makes and gives sequences, and generator_step.c runs: for generation/ only. */
#ifndef TRI_GENERATION_GENERATOR_INTERNAL_H
#define TRI_GENERATION_GENERATOR_INTERNAL_H

#include "generation/generator.h"
#include "generation/pages.h"
#include "generation/scheduler.h"
#include "generation/sequence.h"

/* What a step reads of a sequence. Its logits are rows of the run's, the last of which are sampled from: one, and one
 * for each guess. */
typedef struct tri_reading {
  tri_sequence *of; /* NULL: it was released since */
  int64_t logits, first_logit;
  bool samples;
  int64_t guesses;
  int64_t first_query;               /* of the run's */
  int64_t failed_row, failed_behind; /* a row that is scored and not finite, and the tokens before it; -1: none */
} tri_reading;

static inline int64_t tri_reading_first_sample(const tri_reading *r) {
  return r->first_logit + r->logits - 1 - r->guesses;
}

struct tri_generator {
  tri_runner *runner;
  tri_runner_sizes sizes;
  tri_pages *pages;
  tri_dtype logits_type;
  int64_t vocab_size;
  int64_t window;      /* tri_runner_window */
  tri_sequence **list; /* [count], in the order in which they were begun or extended; NULL: released in this step */
  int64_t count, capacity;
  tri_generator_counts counts;

  tri_guesser guesser;
  int64_t most_guesses; /* 0: there is no guesser */
  tri_guess_policy policy;
  tri_guess *asked; /* [sizes.sequences] */

  /* Of the step at hand. */
  tri_schedule_entry *entries; /* [room] */
  tri_sequence **of;           /* [room]: whose entries they are */
  int64_t room;
  int32_t *holders;   /* [sizes.pages] */
  tri_reading *reads; /* [num_reads <= sizes.sequences] */
  int64_t num_reads;
  tri_logit_query *queries; /* [sizes.logit_rows] */
  tri_sampled *sampled; /* [sizes.logit_rows], of those that are sampled from; its id is -1 where one is not finite */
  const void **copies;  /* [sizes.logit_rows]: of their logits, on the host */
  int threads;
  tri_sampling_scratch *scratch; /* [threads]; NULL until the host samples */
};

/* Of all readings: the scores, and the tokens that were sampled. */
tri_status tri_generator_answer(tri_generator *generator);
/* The error of a row of logits, behind `behind` tokens, that is not finite. */
tri_status tri_generator_say_not_finite(tri_generator *generator, int64_t row, int64_t behind);

/* A sequence has come to its end: its observer is told. */
tri_status tri_generator_end(tri_generator *generator, tri_sequence *sequence, tri_finish finish);

/* Before a step is scheduled: guesses for the sequences that are only sampled from. */
tri_status tri_generator_guess(tri_generator *generator);
/* What the guesser keeps for a sequence goes. */
void tri_generator_forget_guesses(tri_generator *generator, tri_sequence *sequence);

#endif
