/* The generator, which generator.c makes and gives sequences, and generator_step.c runs: for generation/ only. */
#ifndef TRI_GENERATION_GENERATOR_INTERNAL_H
#define TRI_GENERATION_GENERATOR_INTERNAL_H

#include "generation/generator.h"
#include "generation/pages.h"
#include "generation/scheduler.h"
#include "generation/sequence.h"

/* What a step reads of a sequence, and what comes of it. */
typedef struct tri_reading {
  tri_sequence *of;            /* NULL: it was released since */
  int64_t logits, first_logit; /* rows of the run's logits */
  bool samples;
  int64_t first_query;               /* of the run's */
  const void *copy;                  /* of the last row of logits */
  int64_t failed_row, failed_behind; /* a row of logits that is not finite, and the tokens before it; -1: none */
  tri_sampled sampled;
} tri_reading;

struct tri_generator {
  tri_runner *runner;
  tri_runner_sizes sizes;
  tri_pages *pages;
  tri_dtype logits_type;
  int64_t vocab_size;
  tri_sequence **list; /* [count], in the order in which they were begun or extended; NULL: released in this step */
  int64_t count, capacity;
  tri_generator_counts counts;

  /* Of the step at hand. */
  tri_schedule_entry *entries; /* [room] */
  tri_sequence **of;           /* [room]: whose entries they are */
  int64_t room;
  int32_t *holders;   /* [sizes.pages] */
  tri_reading *reads; /* [num_reads <= sizes.sequences] */
  int64_t num_reads;
  tri_logit_query *queries; /* [sizes.logit_rows] */
  int threads;
  tri_sampling_scratch *scratch; /* [threads]; NULL until the host samples */
};

/* Of all readings: the scores, and the tokens that were sampled. */
tri_status tri_generator_answer(tri_generator *generator);
/* The error of a reading that has failed. */
tri_status tri_generator_say_not_finite(tri_generator *generator, const tri_reading *reading);

#endif
