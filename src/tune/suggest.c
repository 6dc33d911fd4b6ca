/* Expected improvement, weighted by the probability of success (Gelbart et al. 2014). Two Gaussian processes: one of
 * the value, of the trials that are done; one of success, 1 or 0, of all that ended. */
#include "tune/suggest.h"

#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOOKED_AT = 2000 };

void tri_point_place(const tri_study *study, const tri_point *point, double *x) {
  for (int64_t k = 0; k < study->num_knobs; k++) {
    const tri_knob *knob = &study->space[k];
    double value = knob->numbers[point->at[k]], low = knob->numbers[0], high = knob->numbers[knob->count - 1];
    if (knob->is_category || knob->count == 1) {
      x[k] = knob->count == 1 ? 0 : (double)point->at[k] / (double)(knob->count - 1);
    } else if (low > 0 && high / low >= 4) { /* sizes differ by factors */
      x[k] = log(value / low) / log(high / low);
    } else {
      x[k] = (value - low) / (high - low);
    }
  }
}

static void categories_of(const tri_study *study, bool *out) {
  for (int64_t k = 0; k < study->num_knobs; k++) out[k] = study->space[k].is_category;
}

tri_status tri_suggester_create(const tri_study *study, tri_suggester *out) {
  tri_suggester made = {0};
  tri_trial_plan plan;
  int64_t legal = 0;
  TRI_TRY(tri_study_points(study, &made.points, &made.num_points));
  for (int64_t i = 0; i < made.num_points; i++) { /* what no layout can be needs no trial */
    if (tri_point_plan(study, &made.points[i], &plan) == TRI_OK) made.points[legal++] = made.points[i];
  }
  made.num_points = legal;
  *out = made;
  return TRI_OK;
}

void tri_suggester_release(tri_suggester *suggester) {
  tri_free(suggester->points);
  tri_free(suggester->prior);
  *suggester = (tri_suggester){0};
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct samples {
  double *x, *y;
  int64_t count;
} samples;

static tri_status room_for(const tri_study *study, int64_t count, samples *out) {
  size_t n = (size_t)count + 1;
  TRI_TRY(tri_alloc("trials", n * (size_t)(study->num_knobs + 1), sizeof *out->x, &out->x));
  out->y = out->x + n * (size_t)study->num_knobs;
  return TRI_OK;
}

static void add_sample(const tri_study *study, samples *s, const tri_point *point, double y) {
  tri_point_place(study, point, s->x + s->count * study->num_knobs);
  s->y[s->count++] = y;
}

static tri_status fit(const tri_study *study, const samples *s, bool fits, tri_gaussian_state *state,
                      tri_gaussian **out) {
  bool categories[TRI_KNOBS];
  categories_of(study, categories);
  return tri_gaussian_create(study->num_knobs, categories, s->count, s->x, s->y, fits, state, out);
}

static double prior_of(const tri_study *study, const tri_suggester *suggester, const tri_point *point) {
  for (int64_t i = 0; suggester->prior != NULL && i < suggester->num_points; i++) {
    if (tri_point_equal(study, &suggester->points[i], point)) return suggester->prior[i];
  }
  return 0;
}

/* What the prior's values are multiplied by to be like those measured. */
static double prior_scale(const tri_study *study, const tri_suggester *suggester, const tri_trial *trials,
                          int64_t count) {
  double measured = 0, expected = 0;
  if (suggester->prior == NULL) return 0;
  for (int64_t i = 0; i < count; i++) {
    double prior = prior_of(study, suggester, &trials[i].point);
    if (trials[i].state != TRI_TRIAL_DONE || prior <= 0) continue;
    measured += trials[i].value;
    expected += prior;
  }
  return expected > 0 ? measured / expected : 1;
}

tri_status tri_suggest_model(const tri_study *study, tri_suggester *suggester, const tri_trial *trials, int64_t count,
                             tri_gaussian **out) {
  samples s = {0};
  *out = NULL;
  TRI_TRY(room_for(study, count, &s));
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state == TRI_TRIAL_DONE) add_sample(study, &s, &trials[i].point, trials[i].value);
  }
  tri_status status = s.count < 2 ? TRI_OK : fit(study, &s, true, &suggester->value, out);
  tri_free(s.x);
  return status;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

static bool was_tried(const tri_study *study, const tri_trial *trials, int64_t count, const tri_point *point) {
  for (int64_t i = 0; i < count; i++) {
    if (tri_point_equal(study, &trials[i].point, point)) return true;
  }
  return false;
}

static uint64_t draw(const tri_study *study, uint64_t purpose, uint64_t index) {
  tri_random_key key = tri_random_stream(study->seed, TRI_RANDOM_TUNE, purpose);
  return (uint64_t)tri_random_u32(key, 2 * index) << 32 | tri_random_u32(key, 2 * index + 1);
}

/* One that was not tried, from a place at random on. */
static bool at_random(const tri_study *study, const tri_suggester *s, const tri_trial *trials, int64_t count,
                      tri_point *out) {
  for (uint64_t turn = 0; turn < 64; turn++) {
    int64_t i = (int64_t)(draw(study, 1, (uint64_t)count * 64 + turn) % (uint64_t)s->num_points);
    *out = s->points[i];
    if (!was_tried(study, trials, count, out)) return true;
  }
  for (int64_t i = 0; i < s->num_points; i++) {
    *out = s->points[i];
    if (!was_tried(study, trials, count, out)) return true;
  }
  return false;
}

/* The i-th of `trials` spread evenly over the whole space, or all of it. */
static bool in_order(const tri_study *study, const tri_suggester *s, const tri_trial *trials, int64_t count,
                     tri_point *out) {
  bool all = study->method == TRI_METHOD_EXHAUSTIVE || study->trials >= s->num_points;
  for (int64_t i = 0; i < (all ? s->num_points : study->trials); i++) {
    *out = s->points[all ? i : i * s->num_points / study->trials];
    if (!was_tried(study, trials, count, out)) return true;
  }
  return false;
}

static double improvement(double mean, double deviation, double best) {
  double z = (mean - best) / deviation;
  double density = exp(-0.5 * z * z) / sqrt(2 * acos(-1.0)), below = 0.5 * erfc(-z / sqrt(2.0));
  return deviation * (z * below + density);
}

typedef struct models {
  tri_gaussian *value, *success;
  double best, scale; /* of values, less the prior where there is one */
  double *scratch;
} models;

static void release_models(models *m) {
  tri_gaussian_destroy(m->value);
  tri_gaussian_destroy(m->success);
  tri_free(m->scratch);
}

static tri_status build_models(const tri_study *study, tri_suggester *s, const tri_trial *trials, int64_t count,
                               models *m) {
  samples values = {0}, ends = {0};
  tri_status status = TRI_OK;
  double worst = INFINITY;
  bool any_failed = false;
  m->scale = prior_scale(study, s, trials, count);
  m->best = -INFINITY;
  TRI_TRY_GOTO(room_for(study, count, &values), done);
  TRI_TRY_GOTO(room_for(study, count, &ends), done);
  TRI_TRY_GOTO(tri_alloc("trials", (size_t)count + 1, sizeof *m->scratch, &m->scratch), done);
  for (int64_t i = 0; i < count; i++) {
    bool done = trials[i].state == TRI_TRIAL_DONE;
    if (trials[i].state != TRI_TRIAL_RUNNING) add_sample(study, &ends, &trials[i].point, done);
    any_failed = any_failed || trials[i].state == TRI_TRIAL_FAILED;
    if (!done) continue;
    add_sample(study, &values, &trials[i].point, trials[i].value - m->scale * prior_of(study, s, &trials[i].point));
    if (trials[i].value > m->best) m->best = trials[i].value;
    if (trials[i].value < worst) worst = trials[i].value;
  }
  /* The liar: what is running will come out as the worst so far, so that others look elsewhere; and so has, as far as
   * values go, what failed. */
  for (int64_t i = 0; i < count && isfinite(worst); i++) {
    if (trials[i].state != TRI_TRIAL_DONE) {
      add_sample(study, &values, &trials[i].point, worst - m->scale * prior_of(study, s, &trials[i].point));
    }
  }
  bool often = count < 40 || count % 5 == 0; /* the lengths move slowly later on */
  if (values.count > 1) TRI_TRY_GOTO(fit(study, &values, often, &s->value, &m->value), done);
  /* Failures alone say nothing about lengths: then the model only keeps away from where it has been. */
  bool both = any_failed && values.count > 0;
  if (any_failed && ends.count > 1) TRI_TRY_GOTO(fit(study, &ends, often && both, &s->success, &m->success), done);
done:
  tri_free(ends.x);
  tri_free(values.x);
  return status;
}

static double score(const tri_study *study, const tri_suggester *s, const models *m, int64_t index) {
  double x[TRI_KNOBS], mean = 0, deviation = 0, chance = 1;
  tri_point_place(study, &s->points[index], x);
  if (m->success != NULL) {
    tri_gaussian_predict(m->success, x, m->scratch, &mean, &deviation);
    chance = 0.5 * erfc((0.5 - mean) / (deviation + 1e-3) / sqrt(2.0)); /* that it is more of a success than not */
  }
  if (m->value == NULL) return chance * (s->prior == NULL ? 1 : s->prior[index]);
  tri_gaussian_predict(m->value, x, m->scratch, &mean, &deviation);
  if (s->prior != NULL) mean += m->scale * s->prior[index];
  return chance * improvement(mean, deviation, m->best);
}

/* The best of all points, or of many of them and of the neighbours of the best trial. */
static tri_status by_models(const tri_study *study, tri_suggester *s, const tri_trial *trials, int64_t count,
                            tri_point *out, bool *found) {
  models m = {0};
  tri_status status = build_models(study, s, trials, count, &m);
  double most = -INFINITY;
  *found = false;
  uint64_t stride = (uint64_t)s->num_points <= MOST_LOOKED_AT ? 1 : (uint64_t)s->num_points / MOST_LOOKED_AT;
  uint64_t first = stride == 1 ? 0 : draw(study, 2, (uint64_t)count) % stride;
  for (uint64_t i = first; status == TRI_OK && i < (uint64_t)s->num_points; i += stride) {
    if (was_tried(study, trials, count, &s->points[i])) continue;
    double now = score(study, s, &m, (int64_t)i);
    if (now <= most) continue;
    most = now;
    *out = s->points[i];
    *found = true;
  }
  release_models(&m);
  TRI_TRY(status);
  if (!*found) *found = at_random(study, s, trials, count, out);
  return TRI_OK;
}

tri_status tri_suggest(const tri_study *study, tri_suggester *s, const tri_trial *trials, int64_t count, tri_point *out,
                       bool *found) {
  *found = false;
  if (s->num_points == 0) return TRI_OK;
  if (study->method == TRI_METHOD_GRID || study->method == TRI_METHOD_EXHAUSTIVE) {
    *found = in_order(study, s, trials, count, out);
    return TRI_OK;
  }
  bool begins = count < study->initial && s->prior == NULL;
  if (study->method == TRI_METHOD_RANDOM || begins) {
    *found = at_random(study, s, trials, count, out);
    return TRI_OK;
  }
  return by_models(study, s, trials, count, out, found);
}
