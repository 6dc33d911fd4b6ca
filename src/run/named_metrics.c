#include "run/named_metrics.h"

#include "base/memory.h"
#include "run/run_config.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static bool is_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

bool tri_metric_name_is_valid(const char *name, size_t bytes) {
  bool inside = false; /* whether the last character belongs to a part of the name */
  if (bytes >= TRI_METRIC_NAME_BYTES) return false;
  for (size_t i = 0; i < bytes; i++) {
    if (!is_of_name(name[i]) && (name[i] != '/' || !inside)) return false;
    inside = name[i] != '/';
  }
  return inside;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

tri_named_metric *tri_named_metrics_find(const tri_named_metrics *metrics, const char *name) {
  for (int64_t i = 0; i < metrics->count; i++) {
    if (strcmp(metrics->list[i].name, name) == 0) return &metrics->list[i];
  }
  return NULL;
}

tri_status tri_named_metrics_add(tri_named_metrics *metrics, const char *format, ...) {
  char name[TRI_METRIC_NAME_BYTES + 1]; /* one byte more than a valid name, so that a truncated name is refused */
  va_list values;
  va_start(values, format);
  vsnprintf(name, sizeof name, format, values);
  va_end(values);
  if (!tri_metric_name_is_valid(name, strlen(name))) {
    return tri_fail(TRI_BAD_CONFIG,
                    "a metric cannot be named %s: a name has at most %d letters, digits, _, -, . and / between them; "
                    "choose another name",
                    name, TRI_METRIC_NAME_BYTES - 1);
  }
  if (tri_named_metrics_find(metrics, name) != NULL) {
    return tri_fail(TRI_BAD_CONFIG, "two metrics would be named %s; choose another name for one of them", name);
  }
  if (metrics->count == TRI_MOST_NAMED_METRICS) {
    return tri_fail(TRI_BAD_CONFIG, "a run may have %d metrics of its task, and %s is one more; give it fewer parts",
                    TRI_MOST_NAMED_METRICS, name);
  }
  TRI_TRY(tri_grow("the names of metrics", sizeof *metrics->list, metrics->count, &metrics->room, &metrics->list));
  tri_named_metric *added = &metrics->list[metrics->count++];
  memcpy(added->name, name, strlen(name) + 1);
  added->value = NAN;
  return TRI_OK;
}

void tri_named_metrics_set(tri_named_metrics *metrics, double value, const char *format, ...) {
  char name[TRI_METRIC_NAME_BYTES];
  va_list values;
  va_start(values, format);
  vsnprintf(name, sizeof name, format, values);
  va_end(values);
  tri_named_metric *metric = tri_named_metrics_find(metrics, name);
  if (metric != NULL) metric->value = value;
}

void tri_named_metrics_forget(tri_named_metrics *metrics) {
  for (int64_t i = 0; i < metrics->count; i++) metrics->list[i].value = NAN;
}

void tri_named_metrics_release(tri_named_metrics *metrics) {
  tri_free(metrics->list);
  *metrics = (tri_named_metrics){0};
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* Adds the metrics of answers, under TRL's names after the prefix `held_out`, which is "" or "validation/". */
static tri_status add_answers(const tri_preference_rules *rules, const char *held_out, tri_named_metrics *out) {
  static const char *const names[] = {"rewards/chosen", "rewards/rejected", "rewards/margins",
                                      TRI_ACCURACY,     "logps/chosen",     "logps/rejected"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    if (strcmp(names[i], TRI_ACCURACY) == 0 && !rules->paired) continue;
    TRI_TRY(tri_named_metrics_add(out, "%s%s", held_out, names[i]));
  }
  return TRI_OK;
}

static tri_status add_preferences(const tri_run_config *config, tri_named_metrics *out) {
  const tri_preference_rules rules = tri_preference_rules_of(tri_objective_preference_loss(&config->objective));
  TRI_TRY(add_answers(&rules, "", out));
  if (rules.kl) TRI_TRY(tri_named_metrics_add(out, "kl"));
  return add_answers(&rules, "validation/", out);
}

/* Adds the metrics of reinforcement learning, under TRL's names where it has them. */
static tri_status add_rollouts(const tri_run_config *config, tri_named_metrics *out) {
  static const char *const names[] = {"reward",
                                      "reward_std",
                                      "frac_reward_zero_std",
                                      "no_verdict",
                                      "filtered",
                                      "completions/mean_length",
                                      "completions/min_length",
                                      "completions/max_length",
                                      "completions/clipped_ratio",
                                      "entropy",
                                      "clip_ratio/low_mean",
                                      "clip_ratio/high_mean",
                                      "clip_ratio/region_mean",
                                      "sampling/sampling_logp_difference/mean",
                                      "sampling/sampling_logp_difference/max",
                                      "sampling/importance_sampling_ratio/mean",
                                      "sampling/importance_sampling_ratio/min",
                                      "sampling/importance_sampling_ratio/max",
                                      "masked",
                                      "rollout_s",
                                      "reward_s",
                                      "wait_s",
                                      "train_s"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) TRI_TRY(tri_named_metrics_add(out, "%s", names[i]));
  if (config->objective.beta > 0) TRI_TRY(tri_named_metrics_add(out, "kl"));
  for (int64_t r = 0; r < config->num_rewards; r++) {
    TRI_TRY(tri_named_metrics_add(out, "rewards/%s/mean", config->rewards[r].label));
    TRI_TRY(tri_named_metrics_add(out, "rewards/%s/std", config->rewards[r].label));
  }
  if (config->data.validation_prompts[0] == '\0') return TRI_OK;
  TRI_TRY(tri_named_metrics_add(out, TRI_HELD_OUT_REWARD));
  return tri_named_metrics_add(out, "validation/completions/mean_length");
}

tri_status tri_named_metrics_of(const tri_run_config *config, tri_named_metrics *out) {
  *out = (tri_named_metrics){0};
  switch (tri_objective_kind_of(&config->objective)) {
    case TRI_OBJECTIVE_OF_TEXT: return TRI_OK;
    case TRI_OBJECTIVE_OF_ROLLOUTS: return add_rollouts(config, out);
    case TRI_OBJECTIVE_OF_PREFERENCES: break;
  }
  return add_preferences(config, out);
}
