#include "tune/explain.h"

#include "base/format.h"
#include "base/memory.h"
#include "plan/accuracy.h"
#include "tune/shapley.h"
#include "tune/study_objective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EXPLAINED = 64, MOST_BACKGROUND = 32, MOST_SHOWN = 10 };

const char *tri_explain_unit(const tri_study *study) { return tri_objective_unit(study->objective); }

double tri_explain_shown(const tri_explanation *e, const tri_trial *trial) {
  return tri_objective_shown(e->study->objective, trial->value);
}

/* Describes the assumptions of the trials. The accuracy of simulations is only described if the cluster is known; in a
 * report of a store whose cluster file is gone, it is not. */
char *tri_explain_note(const tri_study *study, char buffer[TRI_EXPLAIN_NOTE_BYTES]) {
  char accuracy[TRI_ACCURACY_TEXT_BYTES], fitted[TRI_ACCURACY_TEXT_BYTES], kernels[TRI_ACCURACY_TEXT_BYTES];
  buffer[0] = '\0';
  if (study->sequence > 0) {
    snprintf(buffer, TRI_EXPLAIN_NOTE_BYTES, "sequences of %ld tokens%s", (long)study->sequence,
             study->assumed_sequence ? " (the model's longest; `sequence:` for others)" : "");
  }
  if (tri_study_is_real(study) || study->cluster.name[0] == '\0') return buffer;
  size_t held = strlen(buffer);
  tri_accuracy_kernels(&study->cluster, &study->system, kernels);
  snprintf(buffer + held, TRI_EXPLAIN_NOTE_BYTES - held, "%ssimulated; %s; %s%s%s", held == 0 ? "" : "; ",
           tri_accuracy_fitted(&study->cluster, fitted), tri_accuracy_text(&study->cluster, study->devices, accuracy),
           kernels[0] == '\0' ? "" : "; ", kernels);
  return buffer;
}

/* ---- analysis ---------------------------------------------------------------------------------------------------- */

static void count_trials(tri_explanation *e) {
  const tri_trial *best = tri_trial_best(e->trials, e->count);
  e->best = best == NULL ? -1 : best - e->trials;
  for (int64_t i = 0; i < e->count; i++) {
    e->done += e->trials[i].state == TRI_TRIAL_DONE;
    e->failed += e->trials[i].state == TRI_TRIAL_FAILED;
  }
}

static void find_effects(tri_explanation *e) {
  for (int64_t k = 0; k < e->study->space.num_knobs; k++) {
    for (int64_t v = 0; v < e->study->space.knobs[k].count; v++) {
      double sum = 0, count = 0;
      for (int64_t i = 0; i < e->count; i++) {
        if (e->trials[i].point.at[k] != v) continue;
        if (e->trials[i].state == TRI_TRIAL_FAILED) e->failures[k][v]++;
        if (e->trials[i].state != TRI_TRIAL_DONE) continue;
        sum += tri_explain_shown(e, &e->trials[i]);
        count++;
      }
      e->effect[k][v] = count > 0 ? sum / count : NAN;
    }
  }
}

/* Computes the mean absolute Shapley value of each parameter in a model of the finished trials; with `failures` in a
 * model of all trials that ended. Leaves `importance` unchanged if there are too many parameters or too few trials. */
static tri_status find_importance(const tri_explanation *e, bool failures, double *importance) {
  const tri_space *space = &e->study->space;
  tri_gaussian *model = NULL;
  double *places = NULL, values[TRI_KNOBS];
  int64_t dims = space->num_knobs, explained = 0, most = failures ? e->done + e->failed : e->done, seen = 0;
  int64_t background = 0;
  if (dims > TRI_SHAPLEY_DIMS) return TRI_OK;
  TRI_TRY(tri_suggest_model(space, e->trials, e->count, failures, &model));
  if (model == NULL) return TRI_OK;
  tri_status status = tri_alloc("places", (size_t)(2 * most * dims), sizeof *places, &places);
  for (int64_t i = 0; i < e->count && status == TRI_OK; i++) {
    bool counts = e->trials[i].state == TRI_TRIAL_DONE || (failures && e->trials[i].state == TRI_TRIAL_FAILED);
    if (counts) tri_point_place(space, &e->trials[i].point, places + seen++ * dims);
  }
  double *beside = places + most * dims;
  for (int64_t i = 0; i < most && status == TRI_OK; i++) {
    if (!tri_suggest_is_sampled(i, most, MOST_BACKGROUND)) continue;
    memcpy(beside + background++ * dims, places + i * dims, (size_t)dims * sizeof *places);
  }
  for (int64_t i = 0; i < most && status == TRI_OK; i++) {
    if (!tri_suggest_is_sampled(i, most, MOST_EXPLAINED)) continue;
    status = tri_shapley(model, dims, background, beside, places + i * dims, values);
    for (int64_t k = 0; k < dims && status == TRI_OK; k++) importance[k] += fabs(values[k]);
    explained++;
  }
  for (int64_t k = 0; k < dims && explained > 0; k++) importance[k] /= (double)explained;
  tri_free(places);
  tri_gaussian_destroy(model);
  return status;
}

static void sort_by_importance(tri_explanation *e) {
  for (int32_t k = 0; k < e->study->space.num_knobs; k++) {
    int32_t at = k;
    while (at > 0 && e->importance[e->order[at - 1]] < e->importance[k]) {
      e->order[at] = e->order[at - 1];
      at--;
    }
    e->order[at] = k;
  }
}

bool tri_explain_is_pareto(const tri_explanation *e, int64_t i) {
  const tri_trial *own = &e->trials[i];
  if (own->state != TRI_TRIAL_DONE || own->memory <= 0) return false;
  for (int64_t j = 0; j < e->count; j++) {
    const tri_trial *other = &e->trials[j];
    if (other->state != TRI_TRIAL_DONE || other->memory <= 0) continue;
    bool as_good = other->value >= own->value && other->memory <= own->memory;
    if (as_good && (other->value > own->value || other->memory < own->memory)) return false;
  }
  return true;
}

int64_t tri_explain_rank(const tri_explanation *e, double value) {
  int64_t rank = 1;
  for (int64_t i = 0; i < e->count; i++) rank += e->trials[i].state == TRI_TRIAL_DONE && e->trials[i].value > value;
  return rank;
}

tri_status tri_explain(const tri_study *study, const tri_trial *trials, int64_t count, const tri_trial *known,
                       tri_explanation *out) {
  *out = (tri_explanation){.study = study, .trials = trials, .count = count, .known = known};
  count_trials(out);
  find_effects(out);
  TRI_TRY(find_importance(out, false, out->importance));
  if (out->failed > 0) TRI_TRY(find_importance(out, true, out->with_failures));
  sort_by_importance(out);
  return TRI_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Compares trials by value; the best comes first. Trials that were stopped early come after all others. */
static int compare_trials(const void *left, const void *right) {
  const tri_trial *const *a = left, *const *b = right;
  if ((*a)->early != (*b)->early) return (*a)->early ? 1 : -1;
  return ((*a)->value < (*b)->value) - ((*a)->value > (*b)->value);
}

static void print_best(const tri_explanation *e, FILE *to) {
  const tri_trial **sorted = NULL;
  int64_t n = 0;
  char text[TRI_POINT_TEXT_BYTES];
  if (tri_alloc("trials", (size_t)e->count, sizeof(tri_trial *), &sorted) != TRI_OK) return;
  for (int64_t i = 0; i < e->count; i++) {
    if (e->trials[i].state == TRI_TRIAL_DONE) sorted[n++] = &e->trials[i];
  }
  qsort(sorted, (size_t)n, sizeof *sorted, compare_trials);
  for (int64_t i = 0; i < n && i < MOST_SHOWN; i++) {
    fprintf(to, "%4ld  trial %-5ld %12.4f  %s%s\n", (long)i + 1, (long)sorted[i]->number,
            tri_explain_shown(e, sorted[i]), tri_point_text(&e->study->space, &sorted[i]->point, text, sizeof text),
            sorted[i]->early ? "  (stopped early)" : "");
  }
  tri_free(sorted);
}

const char *tri_explain_beside_best(const tri_explanation *e, double value, char out[TRI_EXPLAIN_BESIDE_BYTES]) {
  const double share = e->best < 0 ? NAN : value / e->trials[e->best].value - 1;
  snprintf(out, TRI_EXPLAIN_BESIDE_BYTES, isfinite(share) ? "%+.1f %%" : "-", tri_format_rounded(100 * share, 1));
  return out;
}

static void print_known(const tri_explanation *e, FILE *to) {
  char beside[TRI_EXPLAIN_BESIDE_BYTES];
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_recipe *recipe = &e->study->known[r];
    const tri_trial *t = &e->known[r];
    if (t->state == TRI_TRIAL_FAILED) fprintf(to, "%s (%s): %s\n", recipe->name, recipe->layout, t->reason);
    if (t->state != TRI_TRIAL_DONE) continue;
    fprintf(to, "%s (%s): %.4f, place %ld of %ld, %s of the best\n", recipe->name, recipe->layout, t->value,
            (long)tri_explain_rank(e, t->value), (long)e->done + 1, tri_explain_beside_best(e, t->value, beside));
  }
}

/* Prints the Pareto-optimal trials, the best first. Each of them needs less memory than the trial before it. */
static void print_pareto(const tri_explanation *e, FILE *to) {
  char text[TRI_POINT_TEXT_BYTES];
  double below = INFINITY;
  fprintf(to,
          "\nPareto-optimal (no other trial is better with as little memory; share that the fullest device needs):\n");
  for (;;) {
    const tri_trial *next = NULL;
    for (int64_t i = 0; i < e->count; i++) {
      bool later = tri_explain_is_pareto(e, i) && e->trials[i].value < below;
      if (later && (next == NULL || e->trials[i].value > next->value)) next = &e->trials[i];
    }
    if (next == NULL) return;
    fprintf(to, "  %12.4f  %5.1f %%  %s\n", next->value, 100 * next->memory,
            tri_point_text(&e->study->space, &next->point, text, sizeof text));
    below = next->value;
  }
}

/* Returns whether the memory of trials is known, and less memory costs value. For a validation loss there is no such
 * trade-off, because the memory of a run does not depend on its loss. */
static bool knows_memory(const tri_explanation *e) {
  if (tri_objective_is_last_loss(e->study->objective)) return false;
  for (int64_t i = 0; i < e->count; i++) {
    if (tri_explain_is_pareto(e, i)) return true;
  }
  return false;
}

/* Prints that no trial has succeeded. Prints each reason only once, with the number of trials that failed for this
 * reason. */
static void print_failures(const tri_explanation *e, FILE *to) {
  fprintf(to, "no trial has succeeded yet\n");
  for (int64_t i = 0; i < e->count; i++) {
    int64_t same = 0;
    bool first = e->trials[i].state == TRI_TRIAL_FAILED;
    for (int64_t j = 0; j < e->count && first; j++) {
      bool equal = strcmp(e->trials[i].reason, e->trials[j].reason) == 0 && e->trials[j].state == TRI_TRIAL_FAILED;
      first = !equal || j >= i;
      same += equal;
    }
    if (first) fprintf(to, "  %4ld times: %s\n", (long)same, e->trials[i].reason);
  }
}

void tri_explain_text(const tri_explanation *e, FILE *to) {
  const tri_study *study = e->study;
  char note[TRI_EXPLAIN_NOTE_BYTES];
  fprintf(to, "%s: %ld trial%s, %ld of them done, %ld failed; %s\n", study->name, (long)e->count, TRI_PLURAL(e->count),
          (long)e->done, (long)e->failed, tri_explain_unit(study));
  if (tri_explain_note(study, note)[0] != '\0') fprintf(to, "%s\n", note);
  if (e->best < 0) {
    print_failures(e, to);
    return;
  }
  print_best(e, to);
  print_known(e, to);
  if (knows_memory(e)) print_pareto(e, to);
  fprintf(to, "\nwhat mattered (mean |Shapley value|%s):\n",
          e->failed > 0 ? "; in brackets, failures counted as nothing" : "");
  if (study->space.num_knobs > TRI_SHAPLEY_DIMS) {
    fprintf(to, "  of more than %d parameters this is not worked out\n", TRI_SHAPLEY_DIMS);
  }
  for (int64_t i = 0; i < study->space.num_knobs; i++) {
    int32_t k = e->order[i];
    fprintf(to, "  %-18s %10.4f ", study->space.knobs[k].name, e->importance[k]);
    if (e->failed > 0) fprintf(to, "(%.4f) ", e->with_failures[k]);
    for (int64_t v = 0; v < study->space.knobs[k].count; v++) {
      if (isnan(e->effect[k][v]) && e->failures[k][v] == 0) continue;
      fprintf(to, " %s: ", study->space.knobs[k].words[v]);
      if (!isnan(e->effect[k][v])) fprintf(to, "%.4g", e->effect[k][v]);
      if (e->failures[k][v] > 0) fprintf(to, " (%ld failed)", (long)e->failures[k][v]);
    }
    fprintf(to, "\n");
  }
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *json_of_trials(const tri_explanation *e) {
  json_t *trials = json_array();
  char text[TRI_POINT_TEXT_BYTES];
  for (int64_t i = 0; i < e->count; i++) {
    const tri_trial *t = &e->trials[i];
    json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:f}", "number", (json_int_t)t->number, "point",
                               tri_point_text(&e->study->space, &t->point, text, sizeof text), "state",
                               tri_trial_state_name(t->state), "reason", t->reason, "seconds", t->seconds);
    if (t->state == TRI_TRIAL_DONE) json_object_set_new(object, "value", json_real(tri_explain_shown(e, t)));
    if (t->memory > 0) json_object_set_new(object, "memory", json_real(t->memory));
    json_array_append_new(trials, object);
  }
  return trials;
}

/* Returns the parameters as JSON, the most important first. Each has its values, with the mean of the trials that have
 * the value, and the number of those that failed. */
static json_t *json_of_parameters(const tri_explanation *e) {
  json_t *parameters = json_array();
  for (int64_t i = 0; i < e->study->space.num_knobs; i++) {
    int32_t k = e->order[i];
    const tri_knob *knob = &e->study->space.knobs[k];
    json_t *values = json_array();
    for (int64_t v = 0; v < knob->count; v++) {
      json_t *object = json_pack("{s:s, s:I}", "value", knob->words[v], "failed", (json_int_t)e->failures[k][v]);
      if (!isnan(e->effect[k][v])) json_object_set_new(object, "mean", json_real(e->effect[k][v]));
      json_array_append_new(values, object);
    }
    json_array_append_new(parameters,
                          json_pack("{s:s, s:f, s:f, s:o}", "parameter", knob->name, "importance", e->importance[k],
                                    "with_failures", e->with_failures[k], "values", values));
  }
  return parameters;
}

static json_t *json_of_known(const tri_explanation *e) {
  json_t *known = json_array();
  for (int64_t r = 0; r < e->study->num_known; r++) {
    const tri_trial *t = &e->known[r];
    json_t *object = json_pack("{s:s, s:s, s:s}", "name", e->study->known[r].name, "layout", e->study->known[r].layout,
                               "reason", t->reason);
    if (t->state == TRI_TRIAL_DONE) {
      json_object_set_new(object, "value", json_real(t->value));
      json_object_set_new(object, "place", json_integer(tri_explain_rank(e, t->value)));
    }
    json_array_append_new(known, object);
  }
  return known;
}

json_t *tri_explain_json(const tri_explanation *e) {
  const tri_study *study = e->study;
  char text[TRI_POINT_TEXT_BYTES];
  json_t *pareto = json_array();
  for (int64_t i = 0; i < e->count && knows_memory(e); i++) {
    if (tri_explain_is_pareto(e, i)) json_array_append_new(pareto, json_integer(e->trials[i].number));
  }
  json_t *document =
      json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "study", study->name, "unit", tri_explain_unit(study),
                "done", (json_int_t)e->done, "failed", (json_int_t)e->failed, "importance", json_of_parameters(e),
                "pareto", pareto, "known", json_of_known(e), "trials", json_of_trials(e));
  if (document != NULL && study->sequence > 0) {
    json_object_set_new(document, "sequence", json_integer((json_int_t)study->sequence));
    json_object_set_new(document, "sequence_assumed", json_boolean(study->assumed_sequence));
  }
  if (document != NULL && !tri_study_is_real(study) && study->cluster.name[0] != '\0') {
    json_object_set_new(document, "accuracy", tri_accuracy_json(&study->cluster, &study->system));
  }
  if (document != NULL && e->best >= 0) {
    const tri_trial *best = &e->trials[e->best];
    json_object_set_new(
        document, "best",
        json_pack("{s:I, s:f, s:s}", "number", (json_int_t)best->number, "value", tri_explain_shown(e, best), "point",
                  tri_point_text(&study->space, &best->point, text, sizeof text)));
  }
  return document;
}
