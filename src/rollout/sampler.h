/* Samples the completions of a batch, on all ranks of a dispatcher, with the weights of its generators. */
#ifndef TRI_ROLLOUT_SAMPLER_H
#define TRI_ROLLOUT_SAMPLER_H

#include "generation/dispatcher.h"
#include "rollout/completion.h"
#include "rollout/settings.h"

enum { TRI_ROLLOUT_MOST_STOPS = TRI_ROLLOUT_STOPS + 1 };

/* How completions are sampled and end. */
typedef struct tri_rollout_sampler {
  tri_dispatcher *dispatcher;
  const tri_tokenizer *tokenizer;
  const int32_t *ends; /* [num_ends], tokens that end a completion */
  int num_ends;
  const char *stops[TRI_ROLLOUT_MOST_STOPS]; /* [num_stops], strings that end a completion */
  int num_stops;
  uint64_t seed; /* seed of the random numbers (tri_sampling) */
  tri_sampling
      sampling;  /* temperature and candidates; its members `seed`, `prompt` and `sample` are set for each completion */
  int64_t most;  /* largest number of tokens of a completion */
  int64_t slots; /* largest number of sequences that a replica runs at the same time */
  bool stops_when_asked; /* whether a request to stop (tri_stop_asked) cancels the completions */
} tri_rollout_sampler;

/* LOCAL, on the dispatcher's first rank; the other ranks call tri_dispatcher_follow until it dismisses them. Samples
 * the completions of a batch, whose members `prompt`, `group` and `sample` are set. The random numbers of a completion
 * are a function of seed, group, sample and position. With stops_when_asked, cancels the completions if this process is
 * asked to stop; then *stopped is true, and the batch is not complete. */
tri_status tri_rollout_sample(const tri_rollout_sampler *sampler, tri_rollout_batch *batch, bool *stopped);

#endif
