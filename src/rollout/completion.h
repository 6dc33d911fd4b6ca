/* A completion that the policy has sampled for a prompt, and its way to a loss: rewards, advantage, labels.
 *
 * A *group* has `num_generations` completions of one prompt. A *batch* has the groups that are trained between two
 * rollouts; all of its completions are sampled with the same weights. */
#ifndef TRI_ROLLOUT_COMPLETION_H
#define TRI_ROLLOUT_COMPLETION_H

#include "data/prompt_source.h"
#include "generation/generator.h"
#include "reward/answer.h"
#include "rollout/settings.h"

typedef struct tri_rollout_completion {
  const tri_rollout_prompt *prompt; /* not owned */
  int64_t group;                    /* number of the group in the run, from 0 on */
  int64_t sample;                   /* index in the group */
  int32_t *ids;                     /* [count], the token that ended the completion included */
  double *behaviour; /* [count], log-probabilities under the distribution that the tokens were sampled from */
  double *entropies; /* [count], entropies of the model's own distribution */
  int64_t count, ids_room, behaviour_room, entropies_room;
  char *text; /* the rewarded text, without the end and without a stop string; ends with a NUL */
  size_t text_bytes;
  tri_finish finish;
  double rewards[TRI_MOST_REWARDS]; /* [rewards of the run], unweighted; NaN: no verdict */
  /* Parts of the rewards [num_parts of each reward]; NULL unless a command has answered with parts. */
  tri_reward_part *parts[TRI_MOST_REWARDS];
  int64_t num_parts[TRI_MOST_REWARDS];
  bool failed;       /* whether a command has failed to answer, so that the completion has no reward at all */
  double reward;     /* weighted sum of the rewards that have a verdict; NaN: no reward has one, or `failed` */
  double advantage;  /* 0 without a verdict */
  bool counts;       /* whether its labels are in the loss */
  double *old;       /* [count], log-probabilities of the tokens before the batch's first update; NULL: not needed */
  double *reference; /* [count], log-probabilities of the tokens under the reference model; NULL: not needed */
} tri_rollout_completion;

/* The completions of a batch, group after group. Starts as {0}. */
typedef struct tri_rollout_batch {
  tri_rollout_completion *list; /* [groups * size] */
  int64_t groups, size;         /* size: completions of a group */
} tri_rollout_batch;

static inline int64_t tri_rollout_batch_count(const tri_rollout_batch *batch) { return batch->groups * batch->size; }

tri_status tri_rollout_batch_create(int64_t groups, int64_t size, tri_rollout_batch *out);
/* Releases the batch and its completions. */
void tri_rollout_batch_release(tri_rollout_batch *batch);

#endif
