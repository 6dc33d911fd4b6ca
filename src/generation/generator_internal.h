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
  tri_status status;
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
  int threads;
  tri_sampling_scratch *scratch; /* [threads] */
};

#endif
