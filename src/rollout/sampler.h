/* Samples completions, on all ranks of a dispatcher, with the weights of its generators. Groups of completions may be
 * added while others are sampled. */
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
} tri_rollout_sampler;

/* Groups that are being sampled. All calls are LOCAL, on the dispatcher's first rank; the other ranks call
 * tri_dispatcher_follow until it dismisses them. */
typedef struct tri_rollout tri_rollout;

/* Creates a rollout without groups. The sampler must outlive it. */
tri_status tri_rollout_create(const tri_rollout_sampler *sampler, tri_rollout **out);
/* Releases the rollout. No sequence of it may be in progress, unless the dispatcher is not used any more. */
void tri_rollout_destroy(tri_rollout *rollout);

/* Adds the completions [size] of a group, whose members `prompt`, `group` and `sample` are set. They must stay valid
 * until all of them have ended: the other members are set then, and `finish` is not TRI_FINISH_NONE. The random numbers
 * of a completion are a function of seed, group, sample and position. Groups begin in the order of the calls. */
tri_status tri_rollout_add(tri_rollout *rollout, tri_rollout_completion *completions, int64_t size);

/* Begins groups for which there is room, and runs a step of the dispatcher. Sets *more to whether a completion has not
 * ended. */
tri_status tri_rollout_step(tri_rollout *rollout, bool *more);

/* Cancels the completions of all groups. Returns when no sequence is in progress. */
tri_status tri_rollout_cancel(tri_rollout *rollout);

#endif
