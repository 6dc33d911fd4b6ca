/* Training on preferences: a step on pairs or on single answers, and the metrics of answers. */
#include "base/count.h"
#include "train/train_internal.h"

#include "base/memory.h"
#include "comm/agreement.h"
#include "data/preference_sums.h"
#include "model/preference_losses.h"

#include <math.h>

typedef struct tri_preference_training {
  tri_preference_settings settings;
  tri_preference_rules rules;
  double *rows;               /* [most sequences, sequence], log-probabilities of the labels of a batch */
  tri_preference_unit *units; /* scratch memory for the pairs or answers of one sequence */
  const double *reference, *validation_reference; /* log-probabilities under the reference, of the training and of the
                                                     held-out answers, in mapped files; NULL: unused */
} tri_preference_training;

static tri_preference_training *state_of(const tri_training *t) { return t->task_state; }

/* ---- metrics of answers ------------------------------------------------------------------------------------------ */

/* Sets the metrics of answers. `of` is the prefix of their names: "", or "validation/" for held-out answers. */
static void set_means(tri_training *t, const char *of, const tri_preference_means *means) {
  tri_named_metrics *to = &t->named;
  tri_named_metrics_set(to, means->rewards[0], "%srewards/chosen", of);
  tri_named_metrics_set(to, means->rewards[1], "%srewards/rejected", of);
  tri_named_metrics_set(to, means->margins, "%s" TRI_MARGIN, of);
  tri_named_metrics_set(to, means->accuracies, "%s" TRI_ACCURACY, of);
  tri_named_metrics_set(to, means->logps[0], "%s" TRI_CHOSEN_LOGP, of);
  tri_named_metrics_set(to, means->logps[1], "%slogps/rejected", of);
}

/* Adds all pairs or answers of `count` samples, whose log-probabilities are in p->rows, to the sums. */
static tri_status add_samples(tri_training *t, const tri_preference_at *at, int64_t count, double kl,
                              tri_preference_sums *to) {
  const tri_preference_training *p = state_of(t);
  tri_preference_settings settings = p->settings;
  settings.kl = kl;
  return tri_preference_sums_add(to, &settings, at, count, p->rows, p->units);
}

/* Computes KTO's z from the batch's mismatched answers. */
static tri_status find_kl(tri_training *t, const tri_preference_at *matched, int64_t count, tri_policy policy,
                          double *out) {
  const tri_preference_training *p = state_of(t);
  tri_preference_at at = *matched;
  at.mismatched = true;
  const tri_feed feed = tri_preference_feed(&at);
  TRI_TRY(tri_engine_log_probs(t->engine, &feed, count, policy, p->rows));
  return tri_preference_kl(&at, count, p->rows, p->units, out);
}

/* ---- the task ---------------------------------------------------------------------------------------------------- */

static tri_status open_references(tri_training *t) {
  tri_preference_training *p = state_of(t);
  if (!p->rules.reference) return TRI_OK;
  TRI_TRY(tri_reference_open(t, &t->data.preferences, "reference.bin", t->identity.train[0], &p->reference));
  t->data.preferences.reference = p->reference;
  if (t->data.validation_preferences.corpus == NULL) return TRI_OK;
  TRI_TRY(tri_reference_open(t, &t->data.validation_preferences, "reference-validation.bin", t->identity.validation,
                             &p->validation_reference));
  t->data.validation_preferences.reference = p->validation_reference;
  return TRI_OK;
}

/* Returns the number of held-out sequences that an evaluation reads. */
static int64_t num_held_out(const tri_training *t) {
  const int64_t all = t->data.validation_preferences.per_epoch, asked = t->config->evaluation.sequences;
  return all < asked ? all : asked;
}

static tri_status make_room(tri_training *t) {
  const tri_run_config *config = t->config;
  const int64_t units = tri_larger(t->data.preferences.most_units, t->data.validation_preferences.most_units);
  const int64_t samples = tri_larger(config->optimizer.global_batch, num_held_out(t));
  tri_preference_training *p = NULL;
  TRI_TRY(tri_alloc("a run on preferences", 1, sizeof *p, &p));
  t->task_state = p;
  p->settings = config->objective.trained.loss.preference;
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
  tri_preference_training *p = state_of(t);
  if (p == NULL) return;
  tri_reference_close(&t->data.preferences, p->reference);
  tri_reference_close(&t->data.validation_preferences, p->validation_reference);
  tri_free(p->rows);
  tri_free(p->units);
  tri_free(p);
  t->task_state = NULL;
}

static tri_status preference_step(tri_training *t, double lr, tri_step *out) {
  const tri_global_batch batch = tri_training_next_batch(t);
  const tri_preference_at samples = {.source = &t->data.preferences, .first = batch.first};
  const tri_preference_at all = {.source = &t->data.preferences};
  const tri_feed feed = tri_preference_feed(&all);
  tri_preference_sums *sums = NULL;
  double kl = 0;
  if (state_of(t)->rules.kl) TRI_TRY(find_kl(t, &samples, batch.count, TRI_POLICY_TRAINED, &kl));
  tri_engine_set_kl(t->engine, kl);
  TRI_TRY(tri_engine_step(t->engine, &feed, &batch, t->progress.updates, lr, out));
  TRI_TRY(tri_engine_step_log_probs(t->engine, state_of(t)->rows));
  TRI_TRY(tri_alloc("sums over answers", 1, sizeof *sums, &sums));
  tri_status status = add_samples(t, &samples, batch.count, kl, sums);
  if (status == TRI_OK) {
    const tri_preference_means means = tri_preference_sums_means(sums, 0);
    set_means(t, "", &means);
  }
  if (status == TRI_OK) tri_named_metrics_set(&t->named, kl, "kl");
  tri_free(sums);
  return status;
}

/* ---- held-out answers -------------------------------------------------------------------------------------------- */

static tri_status judge_held_out(tri_training *t, tri_preference_sums *sums) {
  const tri_preference_at at = {.source = &t->data.validation_preferences, .in_order = true};
  const tri_feed feed = tri_preference_feed(&at);
  const int64_t count = num_held_out(t);
  const double weight = t->config->objective.trained.label_scale;
  double kl = 0;
  if (state_of(t)->rules.kl) TRI_TRY(find_kl(t, &at, count, TRI_POLICY_EVALUATED, &kl));
  TRI_TRY(tri_engine_log_probs(t->engine, &feed, count, TRI_POLICY_EVALUATED, state_of(t)->rows));
  TRI_TRY(add_samples(t, &at, count, kl, sums));
  if (weight != 0) TRI_TRY(tri_preference_sums_add_cross_entropy(sums, &at, count, state_of(t)->rows));
  const tri_preference_means means = tri_preference_sums_means(sums, weight);
  t->validation_loss = means.loss;
  set_means(t, "validation/", &means);
  return TRI_OK;
}

tri_status tri_observe_preference_validation(tri_training *t, tri_made_step *made) {
  tri_preference_sums *sums = NULL;
  made->evaluated = !tri_training_diverges(t) && t->data.validation_preferences.corpus != NULL &&
                    tri_training_is_due(t, t->config->evaluation.every);
  if (!made->evaluated) return TRI_OK;
  TRI_TRY(tri_alloc("sums over answers", 1, sizeof *sums, &sums));
  tri_status status = judge_held_out(t, sums);
  if (status == TRI_OK) tri_training_judged(t);
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

const tri_train_task tri_task_preferences = {.name = "preferences",
                                             .data = &tri_run_data_preferences,
                                             .held_out_key = "data.validation_preferences",
                                             .prepare = tri_training_prepare_preferences,
                                             .begin = preference_begin,
                                             .announce = tri_training_announce_preferences,
                                             .step = preference_step,
                                             .observers = observers,
                                             .release = preference_release};
