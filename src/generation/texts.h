/* Texts of some prompts: as many side by side as there is room for, one batch behind the other. */
#ifndef TRI_GENERATION_TEXTS_H
#define TRI_GENERATION_TEXTS_H

#include "generation/generation.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_texts_request {
  const tri_prompt *prompts; /* [num_prompts]; they outlive the texts */
  int64_t num_prompts;
  int64_t samples; /* of each prompt; 0: one */
  int64_t batch;   /* texts side by side, at most */
  int64_t tokens;  /* to write at most; 0: a hundred, or as many as there are positions for, if there is any */
  int64_t context; /* positions to use at most; 0: the model's */
} tri_texts_request;

/* In the order of the prompts. */
typedef struct tri_texts {
  tri_generation *generation;
  tri_texts_request asked;
  tri_written *list; /* [count] */
  int64_t count, batch, samples;
} tri_texts;

/* The prompts as tokens. Release with tri_texts_release, also after a failure. */
tri_status tri_texts_begin(tri_generation *generation, const tri_texts_request *request, tri_texts *out);
/* The weights, and room for a batch. */
tri_status tri_texts_load(tri_texts *texts);
/* Writes the batch of texts that begins with number `first`; *count is how many these are. */
tri_status tri_texts_write(tri_texts *texts, int64_t first, int64_t *count);
void tri_texts_release(tri_texts *texts);

#endif
