/* Reinforcement learning with rewards (GRPO and its relatives): state that the files of the task share.
 *
 * A batch of completions is sampled with the current weights, scored, and trained on in one or more updates; then the
 * next batch is sampled. All ranks take turns: they sample together, and then they train together. The first rank has
 * the completions. Nothing of a rollout is saved: completions are a function of the weights, of the seed and of the
 * number of the group, so a run that resumes before a batch samples the same completions again. */
#ifndef TRI_TRAIN_REINFORCEMENT_H
#define TRI_TRAIN_REINFORCEMENT_H

#include "reward/command.h"
#include "reward/reward.h"
#include "rollout/pack.h"
#include "rollout/sampler.h"
#include "train/rollout_ranks.h"

#include <stdio.h>

typedef struct tri_reinforcement {
  tri_rollout_ranks ranks;
  tri_rollout_sampler sampler;
  tri_reward *rewards[TRI_MOST_REWARDS];          /* [config->num_rewards]; NULL: a command */
  tri_reward_command *commands[TRI_MOST_REWARDS]; /* [config->num_rewards]; NULL: a rule */
  double weights[TRI_MOST_REWARDS];
  int64_t updates; /* updates of a batch */
  int64_t done;    /* updates made on the current batch; equal to `updates`: the next step needs a new batch */
  int64_t next_group, filtered;
  double rollout_s, reward_s; /* seconds for the current batch */
  tri_held_samples held;
  double *log_probs; /* [held.room on the first rank, sequence], of the samples of a step or of a whole batch */
  /* Members of the first rank. */
  tri_tokenizer *tokenizer;
  tri_rollout_batch batch;
  double *normalisers;             /* [completions of a batch] */
  tri_rollout_completion **chosen; /* [completions of a batch], those of an update */
  double *chosen_normalisers;      /* [completions of a batch] */
  tri_packed *packed;              /* [completions of a batch], the places of the chosen ones */
  int64_t num_chosen;
  int64_t next_warning[3]; /* first batch that may warn again of groups without a signal, cut completions, and
                              completions without a reward */
  FILE *record;
} tri_reinforcement;

static inline tri_reinforcement *tri_reinforcement_of(const tri_training *t) { return t->task_state; }

/* LOCAL, on the first rank. Opens and closes the rewards of a run; sets the rewards of completions. *stopped: the
 * process was asked to stop while a command worked (reinforcement_rewards.c). */
tri_status tri_reinforcement_open_rewards(tri_training *t);
void tri_reinforcement_close_rewards(tri_reinforcement *rl);
tri_status tri_reinforcement_score(tri_training *t, tri_rollout_batch *batch, bool *stopped);

/* LOCAL, on the first rank. Set the metrics of a new batch, and those of an update, whose log-probabilities are in
 * `log_probs` (reinforcement_metrics.c). */
tri_status tri_reinforcement_batch_metrics(tri_training *t);
tri_status tri_reinforcement_update_metrics(tri_training *t);

tri_observer tri_observe_reward_validation; /* samples completions of held-out prompts every few steps */

#endif
