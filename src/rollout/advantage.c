#include "rollout/advantage.h"

#include <math.h>

/* Added to deviations, as in TRL. */
static const double STD_MARGIN = 1e-4;

/* Mean and deviation of the rewards of some completions. */
typedef struct moments {
  int64_t verdicts;
  double mean, std; /* std: 0 with fewer than two verdicts */
} moments;

/* Completions are added in order, so that the result does not depend on when they were sampled. */
static moments moments_of(const tri_rollout_completion *list, int64_t count) {
  moments m = {0, 0, 0};
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; i++) {
    if (isnan(list[i].reward)) continue;
    sum += list[i].reward;
    m.verdicts++;
  }
  if (m.verdicts == 0) return m;
  m.mean = sum / (double)m.verdicts;
  for (int64_t i = 0; i < count; i++) {
    if (!isnan(list[i].reward)) squares += (list[i].reward - m.mean) * (list[i].reward - m.mean);
  }
  if (m.verdicts > 1) m.std = sqrt(squares / (double)(m.verdicts - 1));
  return m;
}

static const tri_rollout_completion *group_at(const tri_rollout_batch *batch, int64_t group) {
  return batch->list + group * batch->size;
}

void tri_rollout_weigh_rewards(tri_rollout_batch *batch, const double *weights, int64_t num_rewards) {
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) {
    tri_rollout_completion *c = &batch->list[i];
    c->reward = NAN;
    for (int64_t r = 0; r < num_rewards && !c->failed; r++) {
      if (isnan(c->rewards[r])) continue;
      c->reward = (isnan(c->reward) ? 0 : c->reward) + weights[r] * c->rewards[r];
    }
  }
}

/* Returns the divisor of a group's advantages. */
static double scale_of(tri_scale_rewards scale, const moments *group, const moments *all) {
  switch (scale) {
    case TRI_SCALE_NONE: return 1;
    case TRI_SCALE_BY_BATCH: return all->std + STD_MARGIN;
    case TRI_SCALE_BY_GROUP: break;
  }
  return group->std + STD_MARGIN;
}

/* Returns the factor of a reward's difference from the mean of its group. */
static double baseline_factor(tri_baseline baseline, int64_t verdicts) {
  switch (baseline) {
    case TRI_BASELINE_GROUP: break;
    case TRI_BASELINE_LEAVE_ONE_OUT: return (double)verdicts / (double)(verdicts - 1);
  }
  return 1;
}

void tri_rollout_find_advantages(tri_rollout_batch *batch, const tri_policy_config *policy) {
  const moments all = moments_of(batch->list, tri_rollout_batch_count(batch));
  for (int64_t g = 0; g < batch->groups; g++) {
    tri_rollout_completion *group = batch->list + g * batch->size;
    const moments own = moments_of(group, batch->size);
    const bool signals = own.verdicts > 1;
    const double factor = signals ? baseline_factor(policy->baseline, own.verdicts) : 0;
    const double scale = scale_of(policy->scale_rewards, &own, &all);
    for (int64_t i = 0; i < batch->size; i++) {
      const bool counts = signals && !isnan(group[i].reward);
      group[i].advantage = counts ? (group[i].reward - own.mean) * factor / scale : 0;
    }
  }
}

tri_reward_facts tri_rollout_reward_facts(const tri_rollout_batch *batch) {
  const int64_t count = tri_rollout_batch_count(batch);
  const moments all = moments_of(batch->list, count);
  tri_reward_facts out = {.mean = NAN, .std = NAN, .no_verdict = count - all.verdicts};
  int64_t still = 0, few = 0;
  for (int64_t g = 0; g < batch->groups; g++) {
    const moments own = moments_of(group_at(batch, g), batch->size);
    few += own.verdicts < 2;
    still += own.verdicts > 1 && own.std <= 1e-8; /* as torch.isclose */
  }
  out.zero_std = (double)still / (double)batch->groups;
  out.no_signal = (double)(still + few) / (double)batch->groups;
  if (all.verdicts == 0) return out;
  out.mean = all.mean;
  out.std = all.std;
  return out;
}

double tri_rollout_group_reward(const tri_rollout_batch *batch, int64_t group) {
  const moments own = moments_of(group_at(batch, group), batch->size);
  return own.verdicts == 0 ? NAN : own.mean;
}
