/* The generator's struct and internal functions, shared by generator*.c; for generation/ only. */
#ifndef TRI_GENERATION_GENERATOR_INTERNAL_H
#define TRI_GENERATION_GENERATOR_INTERNAL_H

#include "generation/generator.h"
#include "generation/pages.h"
#include "generation/scheduler.h"
#include "generation/sequence.h"

/* The rows of one sequence in a step. They have logit rows [first_logit, first_logit + logits) of the run. If `samples`
 * is set, tokens are sampled from the last 1 + guesses of these logit rows. */
typedef struct tri_reading {
  tri_sequence *of; /* the sequence; NULL: it was cancelled or released during this step */
  int64_t logits, first_logit;
  bool samples;
  int64_t guesses;
  int64_t first_query;               /* index of the reading's first query among the queries of the step */
  int64_t failed_row, failed_behind; /* a scored logit row with a logit that is not finite, and the number of tokens
                                        before its prediction; failed_row -1: all scored rows are finite */
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
  int64_t window;    /* result of tri_runner_window */
  tri_prefix *roots; /* [num_roots], roots of the cached pages of the present version of the weights, by owner */
  int64_t num_roots, root_room;
  bool draining;       /* whether tri_generator_drain is in progress, during which waiting sequences do not start */
  tri_sequence **list; /* [count], in the order in which they were begun or extended; NULL: released or moved to the end
                          since the last step began */
  int64_t count, capacity;
  tri_generator_counts counts;

  tri_proposer proposer;
  int64_t most_guesses; /* largest number of guesses per sequence and step; 0: there is no proposer */
  tri_guess_policy policy;
  tri_guess *asked; /* [sizes.sequences], requests to the proposer */

  /* State of the step in progress. */
  tri_schedule_entry *entries; /* [room], the sequences as the scheduler reads them */
  tri_sequence **of;           /* [room], the sequence of each entry */
  int64_t room;
  int32_t *holders;         /* [sizes.pages], the scheduler's copy of the reference counts */
  tri_reading *reads;       /* [num_reads <= sizes.sequences] */
  int64_t num_reads;        /* sequences that have rows in the step */
  tri_logit_query *queries; /* [TRI_ROW_QUERIES * sizes.logit_rows], queries that the device answers about the run's
                               logits */
  tri_sampled *sampled;     /* [sizes.logit_rows], token sampled from each logit row; id -1: logits are not finite */
  const void **copies; /* [sizes.logit_rows], the row's logits in host memory, if the host samples from them or looks up
                          the likeliest tokens */
  int threads;         /* host threads that sample */
  tri_sampling_scratch *scratch; /* [threads]; NULL until the host samples */
};

/* Computes the scores and samples the tokens of all readings of this step. */
tri_status tri_generator_answer(tri_generator *generator);
/* Reports that logit row `row`, the prediction after `behind` tokens, is not finite. Returns TRI_DIVERGED. */
tri_status tri_generator_not_finite(tri_generator *generator, int64_t row, int64_t behind);

/* Ends a sequence and calls its observer. */
tri_status tri_generator_end(tri_generator *generator, tri_sequence *sequence, tri_finish finish);

/* Asks the proposer for guesses for each sequence that samples after reading its only unread token. Called before a
 * step is scheduled. */
tri_status tri_generator_guess(tri_generator *generator);
/* Frees the proposer's state of a sequence. */
void tri_generator_forget_guesses(tri_generator *generator, tri_sequence *sequence);

#endif
