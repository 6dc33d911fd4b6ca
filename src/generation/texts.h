/* Texts of some prompts, as many side by side as there is room for: one that ends makes room for the next. */
#ifndef TRI_GENERATION_TEXTS_H
#define TRI_GENERATION_TEXTS_H

#include "generation/written.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_texts_request {
  const tri_prompt *prompts; /* [num_prompts]; they outlive the texts */
  int64_t num_prompts;
  int64_t samples;    /* of each prompt; 0: one */
  int64_t batch;      /* texts side by side, at most */
  int64_t tokens;     /* to write at most; 0: a hundred, or as many as there are positions for, if there is any */
  int64_t context;    /* positions to use at most; 0: the model's */
  size_t cache_bytes; /* of keys and values, at most; 0: what all texts side by side take */
  tri_sampling_wish wish;
  bool prompt_scores; /* log-probabilities of the prompts' tokens */
} tri_texts_request;

/* In the order of the prompts. */
typedef struct tri_texts {
  tri_generation *generation;
  tri_texts_request asked;
  tri_written *list; /* [count] */
  int64_t count, batch, samples;
  int64_t started, ended, told; /* texts: those told are the first ones of the list */
  tri_status (*done)(void *context, tri_written *written);
  void *context;
} tri_texts;

/* The prompts as tokens. Release with tri_texts_release, also after a failure. */
tri_status tri_texts_begin(tri_generation *generation, const tri_texts_request *request, tri_texts *out);
/* What the texts take, and the weights with room for them. */
tri_status tri_texts_sizes(tri_texts *texts, tri_runner_sizes *out);
tri_status tri_texts_load(tri_texts *texts);
/* Writes all; `done`, which may be NULL, is told of each in the order of the prompts. */
tri_status tri_texts_write(tri_texts *texts, tri_status (*done)(void *context, tri_written *written), void *context);
void tri_texts_release(tri_texts *texts);

#endif
