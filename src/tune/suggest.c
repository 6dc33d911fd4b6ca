/* Expected improvement, weighted by the probability of success (Gelbart et al. 2014). There are up to three Gaussian
 * processes: the value of the finished trials; the logarithm of the memory that trials needed, which predicts where the
 * memory will not suffice; and success (1 or 0) of all trials that ended, if some failed for other reasons.
 *
 * Memory has its own model because it has more information than failures: the need of a trial, whether it fitted or
 * not, shows how far the limit is. This finds the good points in a space if only one point in twenty fits. If the
 * memory of a failed trial is unknown, it counts as a failure only. */
#include "tune/suggest.h"

#include "base/count.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  MOST_LOOKED_AT = 4000,
  LEAST_LOOKED_AT = 400,
  STARTS = 4,
  DRAWS = 64,
  MOST_MODELLED = 300,
  MOST_LEARNT_FROM = 1000
};
enum { FOR_REPORTS = 0, FOR_RANDOM_POINTS = 1, FOR_PLACES = 2 };

const char *tri_trial_state_name(tri_trial_state state) {
  switch (state) {
    case TRI_TRIAL_RUNNING: return "running";
    case TRI_TRIAL_DONE: return "done";
    case TRI_TRIAL_FAILED: return "failed";
  }
  return "?";
}

const tri_trial *tri_trial_best(const tri_trial *trials, int64_t count) {
  const tri_trial *best = NULL;
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state != TRI_TRIAL_DONE || trials[i].early) continue;
    if (best == NULL || trials[i].value > best->value) best = &trials[i];
  }
  return best;
}

tri_suggester tri_suggester_create(const tri_space *space, const tri_point_search *search, tri_point *points,
                                   int64_t num_points, double *prior) {
  return (tri_suggester){.space = space, .search = search, .points = points, .prior = prior, .num_points = num_points};
}

void tri_suggester_release(tri_suggester *s) {
  tri_free(s->points);
  tri_free(s->prior);
  tri_free(s->tried);
  *s = (tri_suggester){0};
}

/* ---- models ------------------------------------------------------------------------------------------------------ */

typedef struct samples {
  double *x, *y;
  int64_t count;
} samples;

static tri_status room_for(const tri_space *space, int64_t count, samples *out) {
  size_t n = (size_t)count + 1;
  TRI_TRY(tri_alloc("trials", n * (size_t)(space->num_knobs + 1), sizeof *out->x, &out->x));
  out->y = out->x + n * (size_t)space->num_knobs;
  return TRI_OK;
}

static void add_sample(const tri_space *space, samples *s, const tri_point *point, double y) {
  tri_point_place(space, point, s->x + s->count * space->num_knobs);
  s->y[s->count++] = y;
}

static tri_status fit(const tri_space *space, const samples *s, int evaluations, tri_gaussian_state *state,
                      tri_gaussian **out) {
  bool categories[TRI_KNOBS];
  for (int64_t k = 0; k < space->num_knobs; k++) categories[k] = space->knobs[k].is_category;
  return tri_gaussian_create(space->num_knobs, categories, s->count, s->x, s->y, evaluations, state, out);
}

/* Returns the number of evaluations of the likelihood for a fit. Their cost grows with the cube of the number of
 * trials, while the hyperparameters change less and less. With more than a hundred trials, the models are fitted in
 * turn. */
static int effort(int64_t count, int64_t turn) {
  if (count <= 60) return 30;
  if (count <= 100) return 8;
  return count % 6 == turn ? 3 : 0;
}

/* Returns the index of a point in the sorted list; -1 if the list does not have it. */
static int64_t find_point_index(const tri_suggester *s, const tri_point *point) {
  int64_t low = 0, high = s->num_points - 1;
  while (low <= high) {
    int64_t middle = low + (high - low) / 2, k = 0;
    const tri_point *other = &s->points[middle];
    while (k < s->space->num_knobs && other->at[k] == point->at[k]) k++;
    if (k == s->space->num_knobs) return middle;
    if (other->at[k] < point->at[k]) {
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  return -1;
}

static double prior_of(const tri_suggester *s, const tri_point *point) {
  int64_t place = s->prior == NULL ? -1 : find_point_index(s, point);
  return place < 0 ? 0 : s->prior[place];
}

/* Returns the factor that makes the sum of the prior's values of finished trials equal to the sum of their measured
 * values; 0 without a prior; 1 if no finished trial has a prior's value. */
static double prior_scale(const tri_suggester *s, const tri_trial *trials, int64_t count) {
  double measured = 0, expected = 0;
  if (s->prior == NULL) return 0;
  for (int64_t i = 0; i < count; i++) {
    double prior = prior_of(s, &trials[i].point);
    if (trials[i].state != TRI_TRIAL_DONE || prior <= 0) continue;
    measured += trials[i].value;
    expected += prior;
  }
  return expected > 0 ? measured / expected : 1;
}

bool tri_suggest_is_sampled(int64_t i, int64_t count, int64_t most) {
  int64_t stride = (count + most - 1) / most;
  tri_random_key key = tri_random_stream(0, TRI_RANDOM_TUNE, FOR_REPORTS);
  return stride <= 1 || i % stride == tri_random_u32(key, (uint64_t)(i / stride)) % stride;
}

static bool counts_in(const tri_trial *trial, bool failures) {
  return trial->state == TRI_TRIAL_DONE || (failures && trial->state == TRI_TRIAL_FAILED);
}

/* Returns the value of a trial for the models. A failed trial has the value 0. */
static double worth_of(const tri_trial *trial) {
  switch (trial->state) {
    case TRI_TRIAL_DONE: return trial->value;
    case TRI_TRIAL_RUNNING:
    case TRI_TRIAL_FAILED: break;
  }
  return 0;
}

tri_status tri_suggest_model(const tri_space *space, const tri_trial *trials, int64_t count, bool failures,
                             tri_gaussian **out) {
  samples s = {0};
  tri_gaussian_state state = {0};
  *out = NULL;
  TRI_TRY(room_for(space, count, &s));
  int64_t all = 0, seen = 0;
  for (int64_t i = 0; i < count; i++) all += counts_in(&trials[i], failures);
  for (int64_t i = 0; i < count; i++) {
    if (!counts_in(&trials[i], failures) || !tri_suggest_is_sampled(seen++, all, MOST_MODELLED)) continue;
    add_sample(space, &s, &trials[i].point, worth_of(&trials[i]));
  }
  tri_status status = s.count < 2 ? TRI_OK : fit(space, &s, 20, &state, out);
  tri_free(s.x);
  return status;
}

typedef struct models {
  tri_gaussian *value, *success, *memory;
  double best, scale; /* best: best value on the scale of the model; scale: factor of the prior */
  int64_t all;        /* number of all trials; the models may use only some of them */
} models;

static void release_models(models *m) {
  tri_gaussian_destroy(m->value);
  tri_gaussian_destroy(m->success);
  tri_gaussian_destroy(m->memory);
}

/* Compresses the values below the median by a logarithm. Differences between bad points say little about the best
 * point, and a single extreme value would make all other values nearly equal. Sets *best to the best value on the new
 * scale. */
static tri_status draw_together(samples *values, double *best) {
  double *sorted = NULL;
  int64_t n = values->count;
  TRI_TRY(tri_alloc("values", (size_t)n + 1, sizeof *sorted, &sorted));
  memcpy(sorted, values->y, (size_t)n * sizeof *sorted);
  qsort(sorted, (size_t)n, sizeof *sorted, tri_compare_doubles);
  double middle = sorted[n / 2], unit = sorted[n - 1] - middle;
  for (int64_t i = 0; i < n && unit > 0; i++) {
    double y = (values->y[i] - middle) / unit;
    values->y[i] = y < 0 ? -log1p(-y) : y;
  }
  *best = unit > 0 ? 1 : *best;
  tri_free(sorted);
  return TRI_OK;
}

static bool wanted_too_much(const tri_trial *trial) { return trial->state == TRI_TRIAL_FAILED && trial->memory > 1; }

static tri_status model_values(tri_suggester *s, const tri_trial *trials, int64_t count, models *m) {
  samples values = {0};
  double worst = INFINITY;
  m->scale = prior_scale(s, trials, count);
  m->best = -INFINITY;
  TRI_TRY(room_for(s->space, count, &values));
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state != TRI_TRIAL_DONE) continue;
    add_sample(s->space, &values, &trials[i].point, trials[i].value - m->scale * prior_of(s, &trials[i].point));
    m->best = fmax(m->best, trials[i].value);
    worst = fmin(worst, trials[i].value);
  }
  /* The constant liar: a running trial counts as the worst value so far, so that the next trials search elsewhere. A
   * trial that failed for a reason that no model covers counts the same. */
  for (int64_t i = 0; i < count && isfinite(worst); i++) {
    if (trials[i].state == TRI_TRIAL_DONE || wanted_too_much(&trials[i])) continue;
    add_sample(s->space, &values, &trials[i].point, worst - m->scale * prior_of(s, &trials[i].point));
  }
  tri_status status = s->prior == NULL && values.count > 1 ? draw_together(&values, &m->best) : TRI_OK;
  bool matters = status == TRI_OK && values.count > 1;
  if (matters) status = fit(s->space, &values, effort(m->all, 0), &s->value, &m->value);
  tri_free(values.x);
  return status;
}

static tri_status model_memory(tri_suggester *s, const tri_trial *trials, int64_t count, models *m) {
  samples taken = {0};
  bool any = false;
  TRI_TRY(room_for(s->space, count, &taken));
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state == TRI_TRIAL_RUNNING || trials[i].memory <= 0) continue;
    add_sample(s->space, &taken, &trials[i].point, log(trials[i].memory));
    any = any || trials[i].memory > 0.5;
  }
  bool matters = any && taken.count > 1;
  tri_status status = matters ? fit(s->space, &taken, effort(m->all, 2), &s->memory, &m->memory) : TRI_OK;
  tri_free(taken.x);
  return status;
}

static tri_status model_success(tri_suggester *s, const tri_trial *trials, int64_t count, models *m) {
  samples ends = {0};
  int64_t done = 0;
  TRI_TRY(room_for(s->space, count, &ends));
  for (int64_t i = 0; i < count; i++) {
    if (trials[i].state == TRI_TRIAL_RUNNING || wanted_too_much(&trials[i])) continue;
    add_sample(s->space, &ends, &trials[i].point, trials[i].state == TRI_TRIAL_DONE);
    done += trials[i].state == TRI_TRIAL_DONE;
  }
  /* Failures alone say nothing about the lengths, so the model then only avoids the points that were tried. */
  bool matters = ends.count > 1 && done < ends.count;
  tri_status status =
      matters ? fit(s->space, &ends, done == 0 ? 0 : effort(m->all, 4), &s->success, &m->success) : TRI_OK;
  tri_free(ends.x);
  return status;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* Marks the points that have a trial. Usually the trials are those of the last call and a few more. */
static tri_status mark_tried(tri_suggester *s, const tri_trial *trials, int64_t count) {
  if (s->tried == NULL) TRI_TRY(tri_alloc("points", (size_t)s->num_points, sizeof *s->tried, &s->tried));
  bool same = s->marked > 0 && s->marked <= count && trials[s->marked - 1].number == s->last_marked;
  if (!same) memset(s->tried, 0, (size_t)s->num_points * sizeof *s->tried);
  for (int64_t i = same ? s->marked : 0; i < count; i++) {
    int64_t place = find_point_index(s, &trials[i].point);
    if (place >= 0) s->tried[place] = true;
  }
  s->marked = count;
  s->last_marked = count > 0 ? trials[count - 1].number : 0;
  return TRI_OK;
}

static uint64_t suggest_draw(const tri_suggester *s, uint64_t purpose, uint64_t index) {
  tri_random_key key = tri_random_stream(s->search->seed, TRI_RANDOM_TUNE, purpose);
  return (uint64_t)tri_random_u32(key, 2 * index) << 32 | tri_random_u32(key, 2 * index + 1);
}

/* Returns the index of a random point without a trial. After DRAWS draws of points that have a trial, returns the next
 * point without one from a random place on. Returns -1 if there is none. */
static int64_t at_random(const tri_suggester *s, int64_t count) {
  uint64_t from = suggest_draw(s, FOR_RANDOM_POINTS, (uint64_t)count) % (uint64_t)s->num_points;
  for (uint64_t i = 0; i < DRAWS; i++) {
    uint64_t place = suggest_draw(s, FOR_RANDOM_POINTS, (uint64_t)count * DRAWS + i) % (uint64_t)s->num_points;
    if (!s->tried[place]) return (int64_t)place;
  }
  for (uint64_t i = 0; i < (uint64_t)s->num_points; i++) {
    uint64_t place = (from + i) % (uint64_t)s->num_points;
    if (!s->tried[place]) return (int64_t)place;
  }
  return -1;
}

/* Returns the index of the first point without a trial among `trials` points that are spread evenly over the list;
 * among all points if the method is exhaustive, or if the list has no more points. Returns -1 if there is none. */
static int64_t in_order(const tri_suggester *s) {
  int64_t wanted = s->search->trials;
  bool all = s->search->method == TRI_METHOD_EXHAUSTIVE || wanted >= s->num_points;
  for (int64_t i = 0; i < (all ? s->num_points : wanted); i++) {
    int64_t place = all ? i : i * s->num_points / wanted;
    if (!s->tried[place]) return place;
  }
  return -1;
}

static double improvement(double mean, double deviation, double best) {
  double z = (mean - best) / deviation;
  double density = exp(-0.5 * z * z) / sqrt(2 * acos(-1.0)), below = 0.5 * erfc(-z / sqrt(2.0));
  return deviation * (z * below + density);
}

static double chance_above(double mean, double deviation, double edge) {
  return 0.5 * erfc((edge - mean) / (deviation + 1e-3) / sqrt(2.0));
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Candidates for the next point, as indices of points in the list, with their scores. */
typedef struct field {
  const tri_suggester *s;
  const models *m;
  int64_t count;       /* number of trials so far */
  int32_t *at;         /* [room] */
  double *scores;      /* [room] */
  double *x, *numbers; /* [room * knobs], [room * 4] */
  int64_t num_points, room;
} field;

static tri_status field_create(const tri_suggester *s, const models *m, int64_t count, int64_t room, field *out) {
  field f = {.s = s, .m = m, .count = count, .room = room};
  size_t wide = (size_t)s->space->num_knobs + 5;
  TRI_TRY(tri_alloc("points", (size_t)room, sizeof *f.at, &f.at));
  tri_status status = tri_alloc("points", (size_t)room * wide, sizeof *f.scores, &f.scores);
  if (status != TRI_OK) tri_free(f.at);
  TRI_TRY(status);
  f.numbers = f.scores + room;
  f.x = f.numbers + 4 * room;
  *out = f;
  return TRI_OK;
}

static void field_release(field *f) {
  tri_free(f->at);
  tri_free(f->scores);
}

static void add_place(field *f, int64_t place) {
  if (place < 0 || f->num_points == f->room) return;
  if (!f->s->tried[place]) f->at[f->num_points++] = (int32_t)place;
}

/* Computes the scores of all candidates in the field. */
static tri_status weigh(field *f) {
  const models *m = f->m;
  int64_t n = f->num_points, dims = f->s->space->num_knobs;
  double *mean = f->numbers, *deviation = mean + n, *more = deviation + n, *spread = more + n, *scores = f->scores;
  for (int64_t i = 0; i < n; i++) tri_point_place(f->s->space, &f->s->points[f->at[i]], f->x + i * dims);
  /* Every second trial exploits the known: it has a lower weight of the uncertainty, and refines the best known
   * points. */
  double daring = f->count % 2 == 1 ? 0.3 : 1;
  for (int64_t i = 0; i < n; i++) scores[i] = 1;
  if (m->memory != NULL) {
    TRI_TRY(tri_gaussian_predict(m->memory, n, f->x, more, spread));
    for (int64_t i = 0; i < n; i++) scores[i] *= chance_above(-more[i], spread[i], 0);
  }
  if (m->success != NULL) { /* multiplies the score by the probability that success is above one half */
    TRI_TRY(tri_gaussian_predict(m->success, n, f->x, more, spread));
    for (int64_t i = 0; i < n; i++) scores[i] *= chance_above(more[i], spread[i], 0.5);
  }
  if (m->value != NULL) TRI_TRY(tri_gaussian_predict(m->value, n, f->x, mean, deviation));
  for (int64_t i = 0; i < n; i++) {
    double prior = f->s->prior == NULL ? 0 : f->s->prior[f->at[i]];
    scores[i] *= m->value != NULL      ? improvement(mean[i] + m->scale * prior, daring * deviation[i], m->best)
                 : f->s->prior != NULL ? prior
                                       : 1;
  }
  return TRI_OK;
}

static int64_t best_in(const field *f) {
  int64_t best = -1;
  for (int64_t i = 0; i < f->num_points; i++) {
    if (best < 0 || f->scores[i] > f->scores[best]) best = i;
  }
  return best;
}

/* Fills the field with all untried points that differ from `point` in one parameter, and otherwise only in parameters
 * whose condition depends on it. */
static void add_neighbours(field *f, const tri_point *point) {
  const tri_space *space = f->s->space;
  f->num_points = 0;
  for (int64_t k = 0; k < space->num_knobs; k++) {
    for (int32_t v = 0; v < space->knobs[k].count; v++) {
      tri_point other = *point;
      other.at[k] = v;
      tri_point_settle(space, &other);
      if (v != point->at[k]) add_place(f, find_point_index(f->s, &other));
    }
  }
}

/* Moves to the neighbour with the highest score as long as the score rises. */
static tri_status climb(field *f, tri_point from, double *score, tri_point *out) {
  for (;;) {
    add_neighbours(f, &from);
    TRI_TRY(weigh(f));
    int64_t best = best_in(f);
    if (best < 0 || f->scores[best] <= *score) return TRI_OK;
    *score = f->scores[best];
    *out = from = f->s->points[f->at[best]];
  }
}

/* Adds an even sample of all points to the field: a random point of each `stride` adjacent points. Each trial has
 * another sample. */
static void add_sample_of_all(field *f) {
  const tri_suggester *s = f->s;
  int64_t stride = (s->num_points + f->room - 1) / f->room;
  for (int64_t i = 0; i < s->num_points; i += stride) {
    int64_t place = i + (int64_t)(suggest_draw(s, FOR_PLACES + (uint64_t)f->count, (uint64_t)i) % (uint64_t)stride);
    if (place < s->num_points) add_place(f, place);
  }
}

/* Chooses the point with the highest score. The candidates are the STARTS best points of a sample, and the points that
 * are reached by climbing from these and from the best trial. Sets *found to false if there is no candidate. */
static tri_status choose_next_point(const tri_suggester *s, const models *m, const tri_trial *trials, int64_t count,
                                    tri_point *out, bool *found) {
  field all = {0}, near = {0};
  int64_t neighbours = 0, most = count <= 60 ? MOST_LOOKED_AT : MOST_LOOKED_AT * 60 * 60 / (count * count);
  const tri_trial *top = tri_trial_best(trials, count);
  for (int64_t k = 0; k < s->space->num_knobs; k++) neighbours += s->space->knobs[k].count;
  TRI_TRY(field_create(s, m, count, most < LEAST_LOOKED_AT ? LEAST_LOOKED_AT : most, &all));
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(field_create(s, m, count, neighbours, &near), done);
  add_sample_of_all(&all);
  TRI_TRY_GOTO(weigh(&all), done);
  double score = -INFINITY;
  if (top != NULL) TRI_TRY_GOTO(climb(&near, top->point, &score, out), done);
  for (int start = 0; start < STARTS; start++) {
    int64_t best = best_in(&all);
    if (best < 0) break;
    double here = all.scores[best];
    tri_point there = s->points[all.at[best]];
    TRI_TRY_GOTO(climb(&near, there, &here, &there), done);
    if (here > score) {
      score = here;
      *out = there;
    }
    all.scores[best] = -INFINITY;
  }
  *found = !isinf(score);
done:
  field_release(&near);
  field_release(&all);
  return status;
}

static int better_first(const void *left, const void *right) {
  const tri_trial *a = *(const tri_trial *const *)left, *b = *(const tri_trial *const *)right;
  const double of_a = worth_of(a), of_b = worth_of(b);
  if (of_a != of_b) return of_a > of_b ? -1 : 1;
  return (a->number > b->number) - (a->number < b->number);
}

/* Chooses the trials to model if there are very many, because the cost grows with the cube of their number. The chosen
 * trials are the newest ones, which include the running ones, and the best of the others. Sets *kept to their number.
 * Release *out with tri_free. */
static tri_status pick_modelled(const tri_trial *trials, int64_t count, tri_trial **out, int64_t *kept) {
  const tri_trial **before = NULL;
  const int64_t newest = MOST_LEARNT_FROM / 2, older = count - newest;
  TRI_TRY(tri_alloc("trials", (size_t)older, sizeof(const tri_trial *), (void *)&before));
  for (int64_t i = 0; i < older; i++) before[i] = &trials[i];
  qsort((void *)before, (size_t)older, sizeof *before, better_first);
  const tri_status status = tri_alloc("trials", MOST_LEARNT_FROM, sizeof **out, out);
  if (status == TRI_OK) {
    for (int64_t i = 0; i < MOST_LEARNT_FROM - newest; i++) (*out)[i] = *before[i];
    memcpy(*out + (MOST_LEARNT_FROM - newest), trials + older, (size_t)newest * sizeof **out);
    *kept = MOST_LEARNT_FROM;
  }
  tri_free((void *)before);
  return status;
}

static tri_status by_models(tri_suggester *s, const tri_trial *trials, int64_t count, tri_point *out, bool *found) {
  models m = {.all = count};
  const tri_trial *modelled = trials;
  tri_trial *some = NULL;
  int64_t num_modelled = count;
  if (count > MOST_LEARNT_FROM) {
    TRI_TRY(pick_modelled(trials, count, &some, &num_modelled));
    modelled = some;
  }
  tri_status status = model_values(s, modelled, num_modelled, &m);
  if (status == TRI_OK) status = model_memory(s, modelled, num_modelled, &m);
  if (status == TRI_OK) status = model_success(s, modelled, num_modelled, &m);
  tri_free(some);
  if (status == TRI_OK) status = choose_next_point(s, &m, trials, count, out, found);
  release_models(&m);
  return status;
}

tri_status tri_suggest(tri_suggester *s, const tri_trial *trials, int64_t count, tri_point *out, bool *found) {
  tri_method method = s->search->method;
  int64_t place = -1;
  *found = false;
  if (s->num_points == 0) return TRI_OK;
  TRI_TRY(mark_tried(s, trials, count));
  bool begins = count < s->search->initial && s->prior == NULL;
  if (method == TRI_METHOD_GAUSSIAN && !begins) {
    TRI_TRY(by_models(s, trials, count, out, found));
    if (*found) return TRI_OK;
  }
  switch (method) {
    case TRI_METHOD_GRID:
    case TRI_METHOD_EXHAUSTIVE: place = in_order(s); break;
    case TRI_METHOD_GAUSSIAN:
    case TRI_METHOD_RANDOM: place = at_random(s, count); break;
    case TRI_METHOD_AUTO: return tri_fail_internal("the method of choosing points is not resolved");
    case TRI_METHOD_POPULATION:
    case TRI_METHOD_HALVING: return tri_fail_internal("a method of rounds suggests no points");
  }
  *found = place >= 0;
  if (*found) *out = s->points[place];
  return TRI_OK;
}
