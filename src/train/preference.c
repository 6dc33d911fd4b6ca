/* Learning from preferences: the engine's step on pairs, or on single answers, and what is told of them. */
#include "train/train_internal.h"

#include "base/exact_sum.h"
#include "base/memory.h"
#include "comm/agreement.h"
#include "device/completions.h"
#include "model/preference_losses.h"

#include <math.h>

typedef struct tri_preference_training {
  tri_preference_settings settings;
  tri_preference_rules rules;
  double *rows;                                   /* log-probabilities of a batch [most sequences, sequence] */
  tri_preference_unit *units;                     /* of one sequence */
  const double *reference, *validation_reference; /* mapped; NULL: not used */
} tri_preference_training;

/* ---- what is told of answers ------------------------------------------------------------------------------------- */

/* Sums over the answers of a batch, in any order. */
typedef struct answer_sums {
  tri_exact_sum loss, rewards[2], logps[2], cross_entropy, weights;
  int64_t count[2], pairs, right;
} answer_sums;

static void add_answer(const tri_preference_training *p, const tri_completion_sums *sums, int side, answer_sums *to) {
  if (sums->labels == 0) return;
  to->count[side]++;
  tri_exact_sum_add(&to->rewards[side], tri_preference_reward(&p->settings, sums));
  tri_exact_sum_add(&to->logps[side], tri_preference_logp(&p->settings, sums));
}

static void add_unit(const tri_preference_training *p, double kl, const tri_preference_unit *unit, answer_sums *to) {
  const tri_completion_sums *chosen = &unit->sums[0], *rejected = &unit->sums[1];
  tri_preference_settings settings = p->settings;
  settings.kl = kl;
  add_answer(p, chosen, 0, to);
  add_answer(p, rejected, 1, to);
  tri_exact_sum_add(&to->loss, tri_completions_value(&settings, chosen, rejected).loss);
  to->pairs++;
  to->right += tri_preference_reward(&p->settings, chosen) > tri_preference_reward(&p->settings, rejected);
}

static double mean_of(tri_exact_sum *sum, double count) { return count > 0 ? tri_exact_sum_value(sum) / count : NAN; }

/* Names as TRL has them, of steps and, where `validation`, of held-out answers. */
static void tell(tri_training *t, bool validation, const char *name, const char *held_out, double value) {
  if (!isfinite(value) || t->num_named == TRI_MOST_NAMED_METRICS) return;
  t->named[t->num_named++] = (tri_named_metric){validation ? held_out : name, value};
}

#define TELL(NAME, VALUE) tell(t, validation, NAME, "validation/" NAME, VALUE)
static void tell_sums(tri_training *t, bool validation, answer_sums *sums) {
  const double chosen = mean_of(&sums->rewards[0], (double)sums->count[0]);
  const double rejected = mean_of(&sums->rewards[1], (double)sums->count[1]);
  TELL("rewards/chosen", chosen);
  TELL("rewards/rejected", rejected);
  TELL("rewards/margins", chosen - rejected);
  if (t->preferences->rules.paired) TELL("rewards/accuracies", (double)sums->right / (double)sums->pairs);
  TELL("logps/chosen", mean_of(&sums->logps[0], (double)sums->count[0]));
  TELL("logps/rejected", mean_of(&sums->logps[1], (double)sums->count[1]));
}
#undef TELL

/* All units of `count` samples, whose log-probabilities are in `rows`. */
static tri_status add_samples(tri_training *t, const tri_preference_at *at, int64_t count, double kl, answer_sums *to) {
  const tri_preference_training *p = t->preferences;
  for (int64_t s = 0; s < count; s++) {
    int64_t units = 0;
    const double *rows = p->rows + s * at->source->options.sequence;
    TRI_TRY(tri_preference_units(at, s, rows, p->units, &units));
    for (int64_t u = 0; u < units; u++) add_unit(p, kl, &p->units[u], to);
  }
  return TRI_OK;
}

/* Mean of S - R of the batch's mismatched answers, at least 0: KTO's z. */
static tri_status find_kl(tri_training *t, const tri_preference_at *matched, int64_t count, tri_policy policy,
                          double *out) {
  const tri_preference_training *p = t->preferences;
  tri_preference_at at = *matched;
  at.mismatched = true;
  const tri_feed feed = tri_preference_feed(&at);
  tri_exact_sum sum = {0};
  int64_t answers = 0;
  TRI_TRY(tri_engine_log_probs(t->engine, &feed, count, policy, p->rows));
  for (int64_t s = 0; s < count; s++) {
    int64_t units = 0;
    TRI_TRY(tri_preference_units(&at, s, p->rows + s * at.source->options.sequence, p->units, &units));
    for (int64_t u = 0; u < units; u++) {
      const tri_completion_sums *sums = &p->units[u].sums[p->units[u].sums[0].labels > 0 ? 0 : 1];
      tri_exact_sum_add(&sum, sums->logp - sums->reference);
    }
    answers += units;
  }
  *out = fmax(0, mean_of(&sum, (double)answers));
  return TRI_OK;
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static tri_status open_references(tri_training *t) {
  tri_preference_training *p = t->preferences;
  if (!p->rules.reference) return TRI_OK;
  TRI_TRY(tri_reference_open(t, &t->data.preferences, "reference.bin", t->identity.train[0], &p->reference));
  t->data.preferences.reference = p->reference;
  if (t->data.validation_preferences.corpus == NULL) return TRI_OK;
  TRI_TRY(tri_reference_open(t, &t->data.validation_preferences, "reference-validation.bin", t->identity.validation,
                             &p->validation_reference));
  t->data.validation_preferences.reference = p->validation_reference;
  return TRI_OK;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* How many held-out sequences an evaluation reads. */
static int64_t num_held_out(const tri_training *t) {
  const int64_t all = t->data.validation_preferences.per_epoch, asked = t->config->evaluation.sequences;
  return all < asked ? all : asked;
}

static tri_status make_room(tri_training *t) {
  const tri_run_config *config = t->config;
  const int64_t units = larger(t->data.preferences.most_units, t->data.validation_preferences.most_units);
  const int64_t samples = larger(config->optimizer.global_batch, num_held_out(t));
  TRI_TRY(tri_alloc("a run on preferences", 1, sizeof *t->preferences, &t->preferences));
  tri_preference_training *p = t->preferences;
  p->settings = config->objective.trained.preference;
  p->rules = tri_preference_rules_of(tri_objective_preference_loss(&config->objective));
  TRI_TRY(tri_alloc("answers", (size_t)units, sizeof *p->units, &p->units));
  return tri_alloc("log-probabilities of a batch", (size_t)(samples * config->data.sequence), sizeof *p->rows,
                   &p->rows);
}

static tri_status preference_begin(tri_training *t) {
  TRI_TRY(tri_common_status(&t->mesh.world, make_room(t)));
  return open_references(t);
}

static void preference_release(tri_training *t) {
  tri_preference_training *p = t->preferences;
  if (p == NULL) return;
  tri_reference_close(&t->data.preferences, p->reference);
  tri_reference_close(&t->data.validation_preferences, p->validation_reference);
  tri_free(p->rows);
  tri_free(p->units);
  tri_free(p);
  t->preferences = NULL;
}

/* Steps before may have been of another global_batch. */
static tri_status preference_step(tri_training *t, double lr, tri_step *out) {
  const tri_progress *progress = &t->progress;
  const int64_t batch = t->config->optimizer.global_batch, expected = progress->step * batch;
  const tri_preference_at samples = {.source = &t->data.preferences, .first = progress->samples};
  const tri_preference_at at = {.source = &t->data.preferences, .first = progress->samples - expected};
  const tri_feed feed = tri_preference_feed(&at);
  answer_sums *sums = NULL;
  double kl = 0;
  if (t->preferences->rules.kl) TRI_TRY(find_kl(t, &samples, batch, TRI_POLICY_TRAINED, &kl));
  tri_engine_set_kl(t->engine, kl);
  TRI_TRY(tri_engine_step(t->engine, &feed, progress->step, progress->updates, lr, out));
  TRI_TRY(tri_engine_step_log_probs(t->engine, t->preferences->rows));
  TRI_TRY(tri_alloc("sums over answers", 1, sizeof *sums, &sums));
  tri_status status = add_samples(t, &samples, batch, kl, sums);
  if (status == TRI_OK) tell_sums(t, false, sums);
  if (status == TRI_OK && t->preferences->rules.kl) tell(t, false, "kl", "kl", kl);
  tri_free(sums);
  return status;
}

/* ---- held-out answers -------------------------------------------------------------------------------------------- */

/* The cross entropy of the labels that have a weight. */
static tri_status add_cross_entropy(tri_training *t, const tri_preference_at *at, int64_t count, answer_sums *to) {
  const int64_t sequence = at->source->options.sequence;
  const tri_feed feed = tri_preference_feed(at);
  tri_sample sample = {0};
  tri_status status = tri_alloc("a sample", (size_t)sequence, sizeof *sample.ids, &sample.ids);
  if (status == TRI_OK) status = tri_alloc("a sample", (size_t)sequence, sizeof *sample.labels, &sample.labels);
  if (status == TRI_OK) status = tri_alloc("a sample", (size_t)sequence, sizeof *sample.positions, &sample.positions);
  if (status == TRI_OK) status = tri_alloc("a sample", (size_t)sequence, sizeof *sample.weights, &sample.weights);
  for (int64_t s = 0; s < count && status == TRI_OK; s++) {
    status = tri_feed_read(&feed, s, &sample);
    for (int64_t i = 0; i < sequence && status == TRI_OK; i++) {
      if (sample.labels[i] < 0 || sample.weights[i] == 0) continue;
      tri_exact_sum_add(&to->cross_entropy, -t->preferences->rows[s * sequence + i] * (double)sample.weights[i]);
      tri_exact_sum_add(&to->weights, (double)sample.weights[i]);
    }
  }
  tri_free(sample.weights);
  tri_free(sample.positions);
  tri_free(sample.labels);
  tri_free(sample.ids);
  return status;
}

static tri_status judge_held_out(tri_training *t, answer_sums *sums) {
  const tri_preference_at at = {.source = &t->data.validation_preferences, .in_order = true};
  const tri_feed feed = tri_preference_feed(&at);
  const int64_t count = num_held_out(t);
  const double weight = t->config->objective.trained.label_scale;
  double kl = 0;
  if (t->preferences->rules.kl) TRI_TRY(find_kl(t, &at, count, TRI_POLICY_EVALUATED, &kl));
  TRI_TRY(tri_engine_log_probs(t->engine, &feed, count, TRI_POLICY_EVALUATED, t->preferences->rows));
  TRI_TRY(add_samples(t, &at, count, kl, sums));
  t->validation_loss = mean_of(&sums->loss, (double)sums->pairs);
  if (weight == 0) return TRI_OK;
  TRI_TRY(add_cross_entropy(t, &at, count, sums));
  t->validation_loss += weight * mean_of(&sums->cross_entropy, tri_exact_sum_value(&sums->weights));
  return TRI_OK;
}

tri_status tri_observe_preference_validation(tri_training *t, tri_made_step *made) {
  answer_sums *sums = NULL;
  made->evaluated = !tri_training_diverges(t) && t->data.validation_preferences.corpus != NULL &&
                    tri_training_is_due(t, t->config->evaluation.every);
  if (!made->evaluated) return TRI_OK;
  TRI_TRY(tri_alloc("sums over answers", 1, sizeof *sums, &sums));
  tri_status status = judge_held_out(t, sums);
  if (status == TRI_OK) {
    tell_sums(t, true, sums);
    tri_training_judged(t);
  }
  tri_free(sums);
  return status;
}

static tri_observer *const observers[] = {
    tri_observe_bad_steps,
    tri_observe_preference_validation,
    tri_observe_metrics,
    tri_observe_divergence,
    tri_observe_state,
    tri_observe_samples,
    NULL,
};

const tri_train_loop tri_loop_preferences = {.name = "preferences",
                                             .of_preferences = true,
                                             .begin = preference_begin,
                                             .step = preference_step,
                                             .observers = observers,
                                             .release = preference_release};
