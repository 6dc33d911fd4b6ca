/* Metrics of reinforcement learning, with TRL's names (GRPOTrainer 1.16) for those that TRL also has. */
#include "train/reinforcement.h"

#include "base/count.h"
#include "base/log.h"
#include "rollout/advantage.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Returns the mean difference between log-probabilities of sampling and of training above which the kernels of the two
 * are considered to disagree. */
static double limit_of(tri_dtype precision) {
  switch (precision) {
    case TRI_FP64: return 1e-12;
    case TRI_BF16: return 2e-2;
    case TRI_FP32:
    case TRI_INT32: break;
  }
  return 1e-5;
}

static void set_rewards(tri_training *t, const tri_rollout_batch *batch) {
  const int64_t count = tri_rollout_batch_count(batch);
  for (int64_t r = 0; r < t->config->num_rewards; r++) {
    double sum = 0, squares = 0, verdicts = 0;
    for (int64_t i = 0; i < count; i++) {
      const double reward = batch->list[i].rewards[r];
      if (isnan(reward)) continue;
      sum += reward;
      verdicts++;
    }
    const double mean = sum / verdicts;
    for (int64_t i = 0; i < count; i++) {
      const double reward = batch->list[i].rewards[r];
      if (!isnan(reward)) squares += (reward - mean) * (reward - mean);
    }
    tri_named_metrics_set(&t->named, mean, "rewards/%s/mean", t->config->rewards[r].label);
    tri_named_metrics_set(&t->named, sqrt(squares / (verdicts - 1)), "rewards/%s/std", t->config->rewards[r].label);
  }
}

/* Batches between two warnings of the same kind. */
enum { WARNING_BATCHES = 25 };

static bool is_due(const tri_training *t, bool found, int64_t *next) {
  if (!found || t->progress.batches < *next) return false;
  *next = t->progress.batches + WARNING_BATCHES;
  return true;
}

/* Warns of a batch that teaches little: most groups have no signal, most completions were cut, or have no reward. */
static void warn_of_batch(tri_training *t, double no_signal, double clipped, double no_verdict) {
  const tri_rollout_settings *r = &t->config->rollout;
  tri_reinforcement *rl = tri_reinforcement_of(t);
  if (is_due(t, no_signal >= 0.8, &rl->next_warning[0])) {
    tri_warn(
        "batch %ld: %.0f %% of the groups teach nothing, because all their completions have the same reward, or fewer "
        "than two have one; use "
        "prompts that the model solves sometimes, a higher rollout.temperature or num_generations, or rollout.filter",
        (long)t->progress.batches + 1, 100 * no_signal);
  }
  if (is_due(t, no_verdict >= 0.5, &rl->next_warning[2])) {
    tri_warn(
        "batch %ld: %.0f %% of the completions have no reward (the answers of commands are null, or did not come), and "
        "are not learned from",
        (long)t->progress.batches + 1, 100 * no_verdict);
  }
  if (is_due(t, clipped >= 0.5, &rl->next_warning[1])) {
    tri_warn(
        "batch %ld: %.0f %% of the completions were cut at rollout.max_completion_length %ld; raise it, or check that "
        "the model ends its texts (end-of-text token, rollout.stop)",
        (long)t->progress.batches + 1, 100 * clipped, (long)r->max_completion_length);
  }
}

/* Sets the metric of a part of a reward to its mean over the completions that have it. */
static tri_status set_part(tri_training *t, const tri_rollout_batch *batch, int64_t r, const char *part) {
  const char *name = t->config->rewards[r].label;
  char full[TRI_METRIC_NAME_BYTES];
  double sum = 0, number = 0;
  snprintf(full, sizeof full, "rewards/%s/%s", name, part);
  if (tri_named_metrics_find(&t->named, full) == NULL) TRI_TRY(tri_named_metrics_add(&t->named, "%s", full));
  tri_named_metric *metric = tri_named_metrics_find(&t->named, full);
  if (isfinite(metric->value)) return TRI_OK; /* set already, for an earlier completion */
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) {
    const tri_rollout_completion *c = &batch->list[i];
    for (int64_t p = 0; p < c->num_parts[r]; p++) {
      if (strcmp(c->parts[r][p].name, part) != 0) continue;
      sum += c->parts[r][p].value;
      number++;
    }
  }
  metric->value = sum / number;
  return TRI_OK;
}

static tri_status set_parts(tri_training *t, const tri_rollout_batch *batch) {
  for (int64_t i = 0; i < tri_rollout_batch_count(batch); i++) {
    const tri_rollout_completion *c = &batch->list[i];
    for (int64_t r = 0; r < t->config->num_rewards; r++) {
      for (int64_t p = 0; p < c->num_parts[r]; p++) TRI_TRY(set_part(t, batch, r, c->parts[r][p].name));
    }
  }
  return TRI_OK;
}

tri_status tri_reinforcement_batch_metrics(tri_training *t) {
  const tri_reinforcement *rl = tri_reinforcement_of(t);
  const tri_rollout_batch *batch = &rl->batch;
  const int64_t count = tri_rollout_batch_count(batch);
  const tri_reward_facts facts = tri_rollout_reward_facts(batch);
  double tokens = 0, entropy = 0, clipped = 0;
  int64_t longest = 0, shortest = INT64_MAX;
  for (int64_t i = 0; i < count; i++) {
    const tri_rollout_completion *c = &batch->list[i];
    tokens += (double)c->count;
    longest = tri_larger(longest, c->count);
    shortest = tri_smaller(shortest, c->count);
    clipped += c->finish == TRI_FINISH_LENGTH;
    for (int64_t k = 0; k < c->count; k++) entropy += c->entropies[k];
  }
  tri_named_metrics *to = &t->named;
  t->reward = facts.mean;
  tri_named_metrics_set(to, facts.mean, "reward");
  tri_named_metrics_set(to, facts.std, "reward_std");
  tri_named_metrics_set(to, facts.zero_std, "frac_reward_zero_std");
  tri_named_metrics_set(to, (double)facts.no_verdict, "no_verdict");
  tri_named_metrics_set(to, (double)rl->filtered, "filtered");
  tri_named_metrics_set(to, tokens / (double)count, "completions/mean_length");
  tri_named_metrics_set(to, (double)shortest, "completions/min_length");
  tri_named_metrics_set(to, (double)longest, "completions/max_length");
  tri_named_metrics_set(to, clipped / (double)count, "completions/clipped_ratio");
  tri_named_metrics_set(to, entropy / tokens, "entropy");
  tri_named_metrics_set(to, rl->rollout_s, "rollout_s");
  tri_named_metrics_set(to, rl->reward_s, "reward_s");
  tri_named_metrics_set(to, rl->wait_s, "wait_s");
  set_rewards(t, batch);
  warn_of_batch(t, facts.no_signal, clipped / (double)count, (double)facts.no_verdict / (double)count);
  return set_parts(t, batch);
}

/* Sums over the labels of an update. labels: their number; ratios: number of ratios that may be clipped, one for each
 * label, or for each completion (importance_sampling_level sequence); low, high: ratios clipped at the lower or
 * the upper bound; masked: labels that the importance ratio or the off-policy limit masks; kl: divergences from the
 * reference. */
typedef struct update_sums {
  double labels, ratios, low, high, masked, kl;
  double difference, most_difference;    /* |log-probability in training - in sampling|: sum and maximum */
  double ratio, least_ratio, most_ratio; /* importance ratio, old probability / probability in sampling: sum, minimum
                                            and maximum */
} update_sums;

static tri_policy_label label_of(const tri_rollout_completion *c, int64_t k) {
  return (tri_policy_label){.advantage = c->advantage,
                            .normaliser = 1,
                            .old = c->old == NULL ? 0 : c->old[k],
                            .behaviour = c->behaviour[k],
                            .reference = c->reference == NULL ? 0 : c->reference[k]};
}

/* Returns the sums over a completion, without `slope`. lp: [c->count]. */
static tri_policy_sums sums_of(const tri_policy_settings *s, const tri_rollout_completion *c, const double *lp) {
  tri_policy_sums out = {.labels = (double)c->count};
  for (int64_t k = 0; k < c->count; k++) {
    const tri_policy_label label = label_of(c, k);
    const double old = tri_policy_old(s, &label, lp[k]);
    out.log_ratio += (lp[k] - old) / out.labels;
    out.importance += old - label.behaviour;
    out.drift += (label.behaviour - lp[k]) / out.labels;
  }
  return out;
}

static void add_ratio(const tri_policy_settings *s, double advantage, double log_ratio, update_sums *to) {
  const double ratio = tri_policy_ratio(log_ratio);
  to->ratios++;
  switch ((tri_policy_objective)s->objective) {
    case TRI_POLICY_CISPO: to->high += ratio > s->epsilon_high && advantage > 0; break;
    case TRI_POLICY_CLIPPED:
      to->low += ratio < 1 - s->epsilon && advantage < 0;
      to->high += ratio > 1 + s->epsilon_high && advantage > 0;
      break;
  }
}

static void add_label(const tri_policy_settings *s, const tri_rollout_completion *c, int64_t k, double lp,
                      const tri_policy_sums *sums, update_sums *to) {
  const tri_policy_label label = label_of(c, k);
  const double old = tri_policy_old(s, &label, lp), difference = fabs(lp - label.behaviour);
  const double importance = exp(old - label.behaviour);
  if (!s->by_sequence) add_ratio(s, c->advantage, lp - old, to);
  to->labels++;
  to->masked += tri_policy_is_off_policy(s, &label, sums) || tri_policy_weight(s, &label, lp, sums) == 0;
  to->difference += difference;
  to->most_difference = tri_larger_double(to->most_difference, difference);
  to->ratio += importance;
  to->least_ratio = importance < to->least_ratio ? importance : to->least_ratio;
  to->most_ratio = tri_larger_double(to->most_ratio, importance);
  if (c->reference != NULL) to->kl += exp(c->reference[k] - lp) - (c->reference[k] - lp) - 1;
}

static update_sums sum_labels(const tri_reinforcement *rl, const tri_policy_settings *settings) {
  update_sums sums = {.least_ratio = INFINITY};
  for (int64_t i = 0; i < rl->num_chosen; i++) {
    const tri_rollout_completion *c = rl->chosen[i];
    if (rl->packed[i].sample < 0) continue;
    const double *lp = rl->log_probs + rl->packed[i].sample * rl->held.sequence + rl->packed[i].first;
    const tri_policy_sums own = sums_of(settings, c, lp);
    if (settings->by_sequence) add_ratio(settings, c->advantage, own.log_ratio, &sums);
    for (int64_t k = 0; k < c->count; k++) add_label(settings, c, k, lp[k], &own, &sums);
  }
  return sums;
}

/* Fails if the log-probabilities in the first update on a batch differ from those of sampling by more than rounding can
 * explain. */
static tri_status check_difference(const tri_training *t, double mean) {
  const double given = t->config->rollout.max_logp_difference;
  const double limit = given > 0 ? given : limit_of(t->config->precision);
  if (tri_reinforcement_of(t)->done > 0 || !(mean > limit)) return TRI_OK; /* in a bad step `mean` is NaN */
  return tri_fail(
      TRI_INTERNAL,
      "log-probabilities of sampling and of training differ by %.3g in the mean, more than %.3g: in %s both "
      "should compute the same function, but their kernels disagree; if the difference is rounding of "
      "large logits, raise rollout.max_logp_difference",
      mean, limit, tri_dtype_name(t->config->precision));
}

tri_status tri_reinforcement_update_metrics(tri_training *t) {
  const tri_policy_settings *settings = &t->config->objective.trained.loss.policy;
  const update_sums s = sum_labels(tri_reinforcement_of(t), settings);
  tri_named_metrics *to = &t->named;
  tri_named_metrics_set(to, s.low / s.ratios, "clip_ratio/low_mean");
  tri_named_metrics_set(to, s.high / s.ratios, "clip_ratio/high_mean");
  tri_named_metrics_set(to, (s.low + s.high) / s.ratios, "clip_ratio/region_mean");
  tri_named_metrics_set(to, s.difference / s.labels, "sampling/sampling_logp_difference/mean");
  tri_named_metrics_set(to, s.most_difference, "sampling/sampling_logp_difference/max");
  tri_named_metrics_set(to, s.ratio / s.labels, "sampling/importance_sampling_ratio/mean");
  tri_named_metrics_set(to, s.least_ratio, "sampling/importance_sampling_ratio/min");
  tri_named_metrics_set(to, s.most_ratio, "sampling/importance_sampling_ratio/max");
  tri_named_metrics_set(to, s.masked / s.labels, "masked");
  tri_named_metrics_set(to, s.kl / s.labels, "kl");
  return check_difference(t, s.difference / s.labels);
}
