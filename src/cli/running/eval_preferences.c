#include "cli/running/eval_preferences.h"

#include "base/log.h"
#include "base/memory.h"
#include "cli/running/eval_model.h"
#include "cli/running/ranks.h"
#include "data/preference_sums.h"
#include "files/json_kind.h"
#include "options/json.h"
#include "run/run_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_BATCH = 4, USUAL_SEQUENCE = 1024 };

typedef struct session {
  const tri_eval_preferences *asked;
  tri_merged weights;
  tri_model model;
  tri_tokenizer *tokenizer;
  tri_run_config
      *config; /* configuration of the run that made the model; if the run is not known, it has the default objective */
  tri_preference_rules rules;
  bool rewards; /* whether rewards can be computed, because the objective needs no reference or there is one; otherwise
                   only log-probabilities are printed */
  int64_t sequence, batch;
  tri_preference_source source;
  double *reference;         /* [num_labels], doubled if the source has mismatched answers; NULL: none */
  bool limited;              /* whether the corpus has more sequences than asked->limit */
  double *rows, *mismatched; /* [per_epoch, sequence]: log-probabilities of the answers; mismatched: of the mismatched
                                answers, NULL if there are none */
  tri_preference_unit *units;
  tri_preference_sums sums;
  double kl; /* KL divergence of the mismatched answers, in losses that need it */
} session;

/* ---- objective and data ------------------------------------------------------------------------------------------ */

/* Finds the objective of the run that made the model. If the model was not trained on preferences, chooses the usual
 * objective for the corpus. Logs a line if rewards need a reference that was not given. Fails with TRI_BAD_USAGE if a
 * reference was given that the objective does not use. */
static tri_status find_objective(session *s) {
  const tri_checkpoint_state *state = tri_checkpoint_get_state(s->weights.named);
  const bool paired = tri_corpus_preferences(s->asked->corpus) == TRI_PREFERENCES_PAIRS;
  TRI_TRY(tri_alloc("a run's configuration", 1, sizeof *s->config, &s->config));
  if (state != NULL && state->run_config != NULL) {
    TRI_TRY(tri_run_config_parse("the checkpoint's run file", state->run_config, strlen(state->run_config), NULL, 0,
                                 s->config));
  }
  tri_objective_config *objective = &s->config->objective;
  if (!tri_objective_is_preference(objective)) {
    *objective = (tri_objective_config){
        .name = TRI_OBJECTIVE_FIRST_PREFERENCE + (int)(paired ? TRI_PREFERENCE_DPO : TRI_PREFERENCE_KTO),
        .beta = TRI_PREFERENCE_BETA,
        .label_smoothing = TRI_PREFERENCE_LABEL_SMOOTHING,
        .simpo_gamma = TRI_PREFERENCE_SIMPO_GAMMA,
        .discopop_tau = TRI_PREFERENCE_DISCOPOP_TAU,
        .cpo_alpha = 1,
        .desirable_weight = TRI_PREFERENCE_WEIGHT,
        .undesirable_weight = TRI_PREFERENCE_WEIGHT,
        .policy = tri_policy_usual,
    };
    TRI_TRY(tri_objective_config_finish(objective));
    s->config->init[0] = '\0';
    s->config->data.sequence = 0;
  }
  s->rules = tri_preference_rules_of(tri_objective_preference_loss(objective));
  s->rewards = !s->rules.reference || s->asked->reference != NULL;
  if (!s->rewards) {
    tri_log(
        "rewards and the loss (%s) need the log-probabilities of a reference: --reference FOLDER names the model "
        "that training began with%s%s",
        s->rules.name, s->config->init[0] != '\0' ? ", here " : "", s->config->init);
  }
  if (s->rules.reference || s->asked->reference == NULL) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "eval: --reference: the run's objective (%s) uses no reference; leave it out",
                  s->rules.name);
}

static tri_status create_source(session *s) {
  const int64_t most = s->model.max_sequence;
  const int64_t trained = s->config->data.sequence > 0 ? s->config->data.sequence : USUAL_SEQUENCE;
  s->sequence = s->asked->sequence > 0 ? s->asked->sequence : trained < most ? trained : most;
  s->batch = s->asked->batch > 0 ? s->asked->batch : USUAL_BATCH;
  if (s->sequence > most) {
    return tri_fail(TRI_BAD_USAGE, "--sequence %" PRId64 " is beyond the model's max_sequence of %" PRId64, s->sequence,
                    most);
  }
  const bool shortens = s->config->data.too_long == TRI_TOO_LONG_TRUNCATE_PROMPT;
  tri_preference_source_options options = {
      .sequence = s->sequence,
      .vocab_size = s->model.vocab_size,
      .paired = s->rules.paired,
      .mismatched = s->rules.kl && s->rewards,
      .max_samples = s->asked->limit,
      .weights = tri_objective_config_weights(&s->config->objective),
      .too_long = shortens ? TRI_TOO_LONG_TRUNCATE_PROMPT : TRI_TOO_LONG_DROP,
  };
  if (s->tokenizer != NULL) {
    const int32_t *beginning = tri_tokenizer_beginning(s->tokenizer, &options.num_beginning);
    memcpy(options.beginning, beginning, (size_t)options.num_beginning * sizeof *beginning);
  }
  TRI_TRY(tri_preference_source_create(s->asked->corpus, &options, &s->source));
  s->limited = s->asked->limit > 0 && s->source.begins[s->source.per_epoch] < s->source.num_units - s->source.left_out;
  if (s->limited) tri_log("the first %" PRId64 " sequences of answers (--limit)", s->asked->limit);
  if (s->source.left_out > 0) {
    tri_warn("%" PRId64 " of %" PRId64 " %s are longer than %" PRId64 " tokens and left out; --sequence takes more",
             s->source.left_out, s->source.num_units, s->rules.paired ? "pairs" : "answers", s->sequence);
  }
  return TRI_OK;
}

/* ---- log-probabilities ------------------------------------------------------------------------------------------- */

/* Destination of the log-probabilities of all sequences of a source. */
typedef struct scored_rows {
  const session *of;
  double *out; /* [per_epoch, sequence] */
} scored_rows;

static tri_status keep_scores(void *context, const tri_scored_batch *batch) {
  const scored_rows *to = context;
  const session *s = to->of;
  memcpy(to->out + batch->first * s->sequence, batch->scores, (size_t)(batch->count * s->sequence) * sizeof *to->out);
  tri_log_progress("%5.1f %%", 100.0 * (double)(batch->first + batch->count) / (double)s->source.per_epoch);
  return TRI_OK;
}

/* Computes out[per_epoch, sequence], the log-probabilities of all sequences of the source in order; `mismatched`: those
 * of the mismatched answers. */
static tri_status score(const session *s, const tri_eval_model *m, bool mismatched, double *out) {
  const tri_preference_at at = {.source = &s->source, .in_order = true, .mismatched = mismatched};
  const tri_feed feed = tri_preference_feed(&at);
  scored_rows to = {s, out};
  tri_feed_scoring scoring = {.feed = &feed, .samples = s->source.per_epoch, .done = keep_scores, .context = &to};
  return tri_eval_model_score(m, &scoring);
}

static tri_status score_all(const session *s, const tri_model *model, const tri_merged *weights) {
  const tri_eval_shape shape = {.purpose = TRI_LIST_SCORE, .batch = s->batch, .sequence = s->sequence, .masked = true};
  tri_eval_model own = {0};
  tri_status status =
      tri_eval_model_create(model, weights, s->asked->options, &shape, s->asked->group, s->asked->tensor, &own);
  if (status == TRI_OK) status = score(s, &own, false, s->rows);
  if (status == TRI_OK && s->source.options.mismatched) status = score(s, &own, true, s->mismatched);
  tri_eval_model_release(&own);
  return status;
}

static tri_status store_reference(session *s) {
  const int64_t copies = s->source.options.mismatched ? 2 : 1;
  TRI_TRY(tri_alloc("reference log-probabilities", (size_t)(copies * s->source.num_labels), sizeof *s->reference,
                    &s->reference));
  for (int64_t i = 0; i < s->source.per_epoch; i++) {
    const tri_preference_at at = {.source = &s->source, .in_order = true}, other = {&s->source, 0, true, true};
    TRI_TRY(tri_preference_store(&at, i, s->rows + i * s->sequence, s->reference));
    if (copies == 2) TRI_TRY(tri_preference_store(&other, i, s->mismatched + i * s->sequence, s->reference));
  }
  s->source.reference = s->reference;
  return TRI_OK;
}

static tri_status score_reference(session *s) {
  const tri_checkpoint_use use = tri_model_options_use(s->asked->options);
  tri_merged weights = {0};
  tri_model model;
  tri_log("%s", s->asked->reference);
  tri_status status = tri_merged_open(s->asked->reference, NULL, &use, &model, &weights);
  if (status == TRI_OK) status = tri_model_options_apply(s->asked->options, &model);
  if (status == TRI_OK && (model.vocab_size != s->model.vocab_size || s->sequence > model.max_sequence)) {
    status = tri_fail(TRI_BAD_FILE,
                      "the reference %s has a vocabulary of %" PRId64 " and %" PRId64
                      " positions; evaluating %s takes %" PRId64 " and at least %" PRId64,
                      s->asked->reference, model.vocab_size, model.max_sequence, s->asked->model, s->model.vocab_size,
                      s->sequence);
  }
  if (status == TRI_OK) status = score_all(s, &model, &weights);
  tri_merged_close(&weights);
  return status == TRI_OK ? store_reference(s) : status;
}

/* ---- the evaluation ---------------------------------------------------------------------------------------------- */

static tri_status set_up(session *s) {
  const tri_model_options *options = s->asked->options;
  const tri_checkpoint_use use = tri_model_options_use(options);
  TRI_TRY(tri_merged_open(s->asked->model, options->base, &use, &s->model, &s->weights));
  TRI_TRY(tri_model_options_apply(options, &s->model));
  TRI_TRY(find_objective(s));
  TRI_TRY(tri_eval_corpus_tokenizer(&s->weights, options, s->asked->corpus, &s->tokenizer));
  TRI_TRY(create_source(s));
  tri_eval_log_idle(s->asked->group, s->asked->tensor, s->source.per_epoch, s->batch);
  const size_t rows = (size_t)(s->source.per_epoch * s->sequence);
  TRI_TRY(tri_alloc("answers", (size_t)s->source.most_units, sizeof *s->units, &s->units));
  TRI_TRY(tri_alloc("log-probabilities", rows, sizeof *s->rows, &s->rows));
  if (!s->source.options.mismatched) return TRI_OK;
  return tri_alloc("log-probabilities", rows, sizeof *s->mismatched, &s->mismatched);
}

static tri_status evaluate(session *s) {
  const tri_preference_at at = {.source = &s->source, .in_order = true}, other = {&s->source, 0, true, true};
  tri_preference_settings settings = s->config->objective.trained.loss.preference;
  if (s->asked->reference != NULL) TRI_TRY(score_reference(s));
  TRI_TRY(score_all(s, &s->model, &s->weights));
  if (s->mismatched != NULL) {
    TRI_TRY(tri_preference_kl(&other, s->source.per_epoch, s->mismatched, s->units, &s->kl));
    settings.kl = s->kl;
  }
  TRI_TRY(tri_preference_sums_add(&s->sums, &settings, &at, s->source.per_epoch, s->rows, s->units));
  if (s->config->objective.trained.label_scale == 0) return TRI_OK;
  return tri_preference_sums_add_cross_entropy(&s->sums, &at, s->source.per_epoch, s->rows);
}

typedef struct figure {
  const char *name, *about;
  double value;
  bool rewards; /* whether the figure needs the reference if the objective has one */
} figure;

/* Prints the results. Without a reference, rewards are multiples of the log-probabilities, so comparisons of rewards
 * are comparisons of log-probabilities. */
static tri_status report(session *s) {
  const tri_preference_means m = tri_preference_sums_means(&s->sums, s->config->objective.trained.label_scale);
  const bool paired = s->rules.paired;
  const char *accuracies = s->rewards ? "rewards/accuracies" : "logps/accuracies";
  const figure figures[] = {
      {"loss", s->rules.name, m.loss, true},
      {"rewards/chosen", "", m.rewards[0], true},
      {"rewards/rejected", "", m.rewards[1], true},
      {"rewards/margins", "", m.margins, true},
      {accuracies, "share of the pairs whose chosen answer has the higher one", paired ? m.accuracies : NAN, false},
      {"logps/chosen", "log-probability of an answer", m.logps[0], false},
      {"logps/rejected", "", m.logps[1], false},
      {"kl", "", s->mismatched != NULL ? s->kl : NAN, true},
  };
  json_t *object = json_pack("{s:s, s:I, s:I}", "objective", s->rules.name, paired ? "pairs" : "answers",
                             (json_int_t)s->sums.pairs, "sequence", (json_int_t)s->sequence);
  if (s->limited) json_object_set_new(object, "limit", json_integer(s->asked->limit));
  if (!s->asked->json) printf("%-18s  %" PRId64 "\n", paired ? "pairs" : "answers", s->sums.pairs);
  for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
    const figure *f = &figures[i];
    if ((f->rewards && !s->rewards) || isnan(f->value)) continue;
    json_object_set_new(object, f->name, tri_json_number(f->value));
    if (s->asked->json) continue;
    printf("%-18s  %.6f%s%s%s\n", f->name, f->value, f->about[0] != '\0' ? "  (" : "", f->about,
           f->about[0] != '\0' ? ")" : "");
  }
  if (s->asked->json) return tri_print_json(object);
  json_decref(object);
  return TRI_OK;
}

tri_status tri_eval_preferences_run(const tri_eval_preferences *asked) {
  session *s = NULL;
  TRI_TRY(tri_alloc("an evaluation", 1, sizeof *s, &s));
  s->asked = asked;
  tri_status status = tri_ranks_agree(asked->group, set_up(s));
  if (status == TRI_OK) status = evaluate(s);
  if (status == TRI_OK) status = report(s);
  tri_free(s->mismatched);
  tri_free(s->rows);
  tri_free(s->units);
  tri_free(s->reference);
  tri_preference_source_destroy(&s->source);
  tri_tokenizer_destroy(s->tokenizer);
  tri_free(s->config);
  tri_merged_close(&s->weights);
  tri_free(s);
  return status;
}
