/* Generates texts for several prompts, as many at a time as there are places on all replicas. */
#ifndef TRI_GENERATION_TEXTS_H
#define TRI_GENERATION_TEXTS_H

#include "generation/written.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tri_texts_request {
  const tri_prompt *prompts; /* [num_prompts]; they must outlive the texts */
  int64_t num_prompts;
  int64_t samples; /* number of texts for each prompt; 0: one */
  int64_t batch;   /* largest number of texts at a time on each replica */
  int64_t tokens;  /* largest number of tokens to sample; 0: as many as the folder's max_length leaves after the prompt,
                      or `usual_tokens` if the folder has no max_length; but at most as many as there are positions left
                      after the prompt, if any are left */
  int64_t usual_tokens; /* number of tokens if neither `tokens` nor the folder gives one; 0: 100 */
  int64_t context;      /* largest number of positions to use; 0: the model's */
  size_t cache_bytes;   /* largest size of each rank's cache of keys and values; 0: enough for all texts of a batch */
  tri_sampling_request requested;
  bool prompt_scores; /* whether log-probabilities of the prompts' tokens are computed */
} tri_texts_request;

/* Texts in the order of the prompts. */
typedef struct tri_texts {
  tri_generation *generation;
  tri_texts_request asked;
  tri_written *list; /* [count] */
  int64_t count, batch, samples;
  int64_t started, ended, reported; /* number of started texts; of ended texts; of texts that `done` was called for, in
                                       the order of the list */
  tri_status (*done)(void *context, tri_written *written);
  void *context;
} tri_texts;

/* Encodes the prompts. Release with tri_texts_release, also after a failure. */
tri_status tri_texts_begin(tri_generation *generation, const tri_texts_request *request, tri_texts *out);
/* Only on the first rank of the generation's group, which has the prompts. Computes the sizes of the runner for these
 * texts, and the number of tokens to sample for each. */
tri_status tri_texts_sizes(tri_texts *texts, tri_runner_sizes *out);
/* COLLECTIVE over the group; the other ranks pass texts without prompts. Creates the device, the runner and the
 * generator with these sizes, and loads the weights. */
tri_status tri_texts_load(tri_texts *texts);
/* COLLECTIVE over the group. Generates all texts. On the first rank, calls `done` (may be NULL) with `context` for
 * each, in the order of the prompts. If the process is asked to stop, `done` is not called for texts that were not
 * started. */
tri_status tri_texts_write(tri_texts *texts, tri_status (*done)(void *context, tri_written *written), void *context);
void tri_texts_release(tri_texts *texts);

#endif
