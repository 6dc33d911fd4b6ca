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
  double weights[TRI_MOST_REWARDS];               /* [config->num_rewards], factors of the rewards */
  bool warned_of_limits[TRI_MOST_REWARDS]; /* [config->num_rewards], whether the run has warned that a pattern exceeds
                                              the limits of PCRE2 */
  int64_t updates;                         /* number of updates on a batch */
  int64_t done; /* number of updates made on the current batch; if `done` equals `updates`, the next step samples a new
                   batch */
  int64_t next_group, filtered; /* number of the next group to sample; groups that the filter has dropped for this
                                   batch */
  double wait_s;                /* mean over the replicas of the seconds in which a replica had nothing to sample, in
                                   the current batch's rollout */
  double rollout_s, reward_s;   /* seconds for the current batch (tri_group_result) */
  tri_held_samples held;        /* samples of an update, or of all completions of the batch */
  double *log_probs; /* [held.room on the first rank, sequence], log-probabilities of the labels of the samples in
                        `held` */
  /* Members of the first rank. */
  tri_tokenizer *tokenizer;
  tri_rollout_batch batch;
  double *normalisers;             /* [completions of a batch], normaliser of each completion's labels */
  tri_rollout_completion **chosen; /* [num_chosen], completions of an update */
  double *chosen_normalisers;      /* [num_chosen], normalisers of the chosen completions */
  tri_packed *packed;              /* [num_chosen], places of the chosen completions in `held` */
  int64_t num_chosen;
  int64_t next_warning[3]; /* first batch that may warn again of groups without a signal, cut completions, and
                              completions without a reward */
  FILE *record;            /* OUTPUT/rollouts.jsonl (rollout_record.h) */
} tri_reinforcement;

static inline tri_reinforcement *tri_reinforcement_of(const tri_training *t) { return t->task_state; }

/* LOCAL, on the first rank. Open and close the rewards of a run (reinforcement_rewards.c). */
tri_status tri_reinforcement_open_rewards(tri_training *t);
void tri_reinforcement_close_rewards(tri_reinforcement *rl);
/* LOCAL, on the first rank. Compute the rewards of the completions of a group: by rules; then by commands, which answer
 * later. items: [rewards of the run, size of the group]; only the rows of commands are used. They must stay valid until
 * the group has answers, or until tri_reinforcement_drop_commands. tri_reinforcement_attend_commands exchanges lines
 * with all commands, and fails like tri_reward_command_attend. */
tri_status tri_reinforcement_score_by_rules(tri_training *t, tri_rollout_batch *group);
tri_status tri_reinforcement_ask_commands(tri_training *t, const tri_rollout_batch *group, tri_command_item *items);
tri_status tri_reinforcement_attend_commands(tri_training *t, bool waits);
bool tri_reinforcement_has_answers(const tri_training *t, const tri_rollout_batch *group,
                                   const tri_command_item *items);
/* Moves the answers to the completions. */
void tri_reinforcement_read_answers(const tri_training *t, tri_rollout_batch *group, tri_command_item *items);
void tri_reinforcement_drop_commands(tri_training *t);

/* Groups to sample and to score. The groups begin in the order of their indices. A group that is not accepted is
 * *dropped*. The first `groups` groups begin at once; one more begins for each dropped group, up to max_filtered more.
 * Which groups begin does therefore not depend on the order in which they end. */
typedef struct tri_group_order {
  int64_t groups, size; /* size: completions of a group */
  int64_t max_filtered;
  bool held_out; /* whether the prompts are held-out ones: a request to stop does not end the rollout, and rewards
                    without any verdict do not end the run */
  /* Sets the members `prompt` and `group` of the completions of a group. */
  void (*name)(const tri_training *t, int64_t index, tri_rollout_batch *group);
  /* Returns whether a group whose rewards are known is accepted; NULL: every group is. */
  bool (*passes)(const tri_training *t, const tri_rollout_batch *group);
} tri_group_order;

typedef struct tri_group_result {
  tri_rollout_batch batch;    /* the accepted groups, in the order of their indices; {0} if stopped. Release it */
  int64_t begun, dropped;     /* numbers of groups */
  double rollout_s, reward_s; /* seconds in which completions were sampled, and seconds after that in which commands
                                 scored */
} tri_group_result;

/* LOCAL, on the first rank, as the work of tri_rollout_ranks_run (rollout_groups.c). Samples and scores groups at the
 * same time. Sets *stopped if the process was asked to stop, or if the run must end because a command ends without
 * answers, has failed for more than rollout.max_failed of the completions, or no completion has a reward; then
 * t->stop_status is TRI_IO_FAILED. */
tri_status tri_reinforcement_run_groups(tri_training *t, const tri_group_order *order, tri_group_result *out,
                                        bool *stopped);

/* LOCAL, on the first rank. Set the metrics of a new batch, and the metrics of an update from its log-probabilities in
 * `log_probs` (reinforcement_metrics.c). */
tri_status tri_reinforcement_batch_metrics(tri_training *t);
tri_status tri_reinforcement_update_metrics(tri_training *t);

tri_observer tri_observe_reward_validation; /* samples completions of held-out prompts every few steps */

#endif
