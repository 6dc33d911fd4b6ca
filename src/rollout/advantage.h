/* Advantages of the completions of a batch: how much better each one is than the others of its group.
 *
 * Follows TRL 1.16 (GRPOTrainer): the reward of completion i is the weighted sum R_i of its rewards. Completions
 * without a verdict have no part in any mean or deviation, and advantage 0; a group with fewer than two verdicts has
 * advantages 0. With n verdicts in the group, mean m and the deviation s (Bessel's, divisor n - 1):
 *
 *   baseline group          A_i = R_i - m
 *   baseline leave_one_out  A_i = (R_i - m) n / (n - 1)
 *   scale_rewards none      A_i
 *   scale_rewards group     A_i / (s + 1e-4)
 *   scale_rewards batch     A_i / (s of all completions of the batch + 1e-4) */
#ifndef TRI_ROLLOUT_ADVANTAGE_H
#define TRI_ROLLOUT_ADVANTAGE_H

#include "model/policy_config.h"
#include "rollout/completion.h"

/* Facts about the rewards of a batch, for metrics. A completion has a verdict if its reward is not NaN. mean and std
 * are NaN if no completion has a verdict. */
typedef struct tri_reward_facts {
  double mean, std;   /* mean and deviation of the rewards of all completions */
  double zero_std;    /* share of groups with at least two verdicts and deviation 0; TRL's frac_reward_zero_std */
  double no_signal;   /* share of groups whose advantages are all 0: the groups of zero_std, and groups with fewer than
                         two verdicts */
  int64_t no_verdict; /* number of completions without a verdict */
} tri_reward_facts;

/* Sets `reward` of every completion to the weighted sum of its rewards that are not NaN; NaN if all are NaN, or if the
 * completion has `failed`. weights: [num_rewards]. */
void tri_rollout_weigh_rewards(tri_rollout_batch *batch, const double *weights, int64_t num_rewards);

/* Sets `advantage` of every completion from `reward`. */
void tri_rollout_find_advantages(tri_rollout_batch *batch, const tri_policy_config *policy);

tri_reward_facts tri_rollout_reward_facts(const tri_rollout_batch *batch);

/* Returns the mean reward of a group; NaN if none of its completions has a verdict. */
double tri_rollout_group_reward(const tri_rollout_batch *batch, int64_t group);

#endif
