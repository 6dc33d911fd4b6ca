#include "plan/search.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/loop_threads.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "plan/row_pairs.h"
#include "plan/search_candidates.h"
#include "schedule/layout_config.h"
#include "schedule/layout_values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tri_simulation_request simulation_of(const tri_search_request *request, const tri_layout *layout) {
  return (tri_simulation_request){.model = request->model,
                                  .layout = layout,
                                  .cluster = request->cluster,
                                  .system = request->system,
                                  .global_batch = request->global_batch,
                                  .sequence = request->sequence,
                                  .precision = request->precision,
                                  .optimizer = request->optimizer,
                                  .objective = request->objective,
                                  .masked = request->masked,
                                  .masked_attention_fraction = request->masked_attention_fraction,
                                  .drawn = request->drawn,
                                  .expert_imbalance = request->expert_imbalance};
}

/* Logs the progress of a search that has simulated candidates before the index `next`. limit_s: step time above whose
 * bound no candidate is simulated, as far as known. */
static void log_simulated(const tri_searching *s, int64_t next, double limit_s) {
  double seconds = 0;
  char simulated[32], left[32];
  int64_t low = next, high = s->count; /* the bounds of time ascend */
  if (!tri_search_shows_progress(s, &seconds)) return;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (s->all[middle].bound.step_s > limit_s) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  tri_log_progress("searching: %s layouts simulated, at most %s are left, %.0f s",
                   tri_format_grouped(s->simulated, simulated, sizeof simulated),
                   tri_format_grouped(low - next, left, sizeof left), seconds);
}

/* ---- simulation -------------------------------------------------------------------------------------------------- */

/* Computes the context_row_pairs of a candidate, and predicts its time and memory, unless a closer bound of the time is
 * above limit_s, or a stage needs more than `room` bytes. A candidate that was found too large stays so, because no
 * later call has a larger `room`. */
static tri_status search_simulate(const tri_searching *s, tri_candidate *c, double room, double limit_s) {
  const tri_simulation_limits limits = {limit_s, room, true};
  tri_layout layout = c->layout;
  const tri_simulation_request request = simulation_of(s->request, &layout);
  int64_t row_pairs = TRI_NO_ROW_PAIRS;
  tri_simulation_outcome outcome;
  tri_prediction found;
  if (c->timed || c->large || c->late_s > limit_s * (1 + TRI_BOUND_MARGIN)) return TRI_OK;
  TRI_TRY(tri_plan_row_pairs(&request, &row_pairs));
  if (row_pairs != TRI_NO_ROW_PAIRS) layout.context_row_pairs = row_pairs;
  TRI_TRY(tri_simulate_within(&request, &limits, &found, &outcome));
  switch (outcome) {
    case TRI_OUTCOME_TOO_SLOW: c->late_s = found.step_s; return TRI_OK;
    case TRI_OUTCOME_TOO_LARGE: c->large = true; return TRI_OK;
    case TRI_OUTCOME_SIMULATED: break;
  }
  found.row_pairs = row_pairs;
  found.fits = found.memory.peak <= tri_search_room(s->request);
  TRI_TRY(tri_alloc("a prediction", 1, sizeof *c->prediction, &c->prediction));
  *c->prediction = found;
  c->layout = layout;
  c->timed = true;
  return TRI_OK;
}

/* Candidates to simulate: the arguments of search_simulate. */
typedef struct simulating {
  const tri_searching *s;
  tri_candidate **some;
  double room, limit_s;
} simulating;

static tri_status simulate_one(void *context, int64_t i, int thread) {
  const simulating *at = context;
  (void)thread;
  return search_simulate(at->s, at->some[i], at->room, at->limit_s);
}

/* Simulates candidates in parallel, but those whose time is known to be above limit_s. */
static tri_status simulate_all(tri_searching *s, tri_candidate **some, int64_t count, double room, double limit_s) {
  simulating each = {s, some, room, limit_s};
  /* Candidates that an earlier call has simulated are counted again below. */
  for (int64_t i = 0; i < count; i++) s->simulated -= some[i]->timed;
  TRI_TRY(tri_parallel_for(count, tri_loop_threads(), simulate_one, &each));
  for (int64_t i = 0; i < count; i++) s->simulated += some[i]->timed;
  return TRI_OK;
}

static int compare_answers(const void *left, const void *right) {
  const tri_candidate *const *a = left, *const *b = right;
  double x = (*a)->prediction->step_s, y = (*b)->prediction->step_s;
  if (x != y) return x > y ? 1 : -1;
  const double one = (*a)->prediction->memory.peak, other = (*b)->prediction->memory.peak;
  return (one > other) - (one < other);
}

/* Inserts a candidate into best[*count], the fastest candidates that fit into `room` bytes, if it is one of the
 * `top` fastest. The fastest is first. */
static void keep_best(tri_candidate **best, int64_t *count, int64_t top, tri_candidate *c, double room) {
  if (!c->timed || c->prediction->memory.peak > room) return;
  if (*count == top) {
    if (compare_answers(&c, &best[top - 1]) >= 0) return;
    (*count)--;
  }
  best[(*count)++] = c;
  qsort(best, (size_t)*count, sizeof *best, compare_answers);
}

/* The conditions for the candidates that `find` returns. */
typedef struct query {
  double room;                 /* largest number of bytes of the fullest rank */
  int64_t top;                 /* largest number of candidates to return */
  const tri_config_key *other; /* only candidates that differ from `than` in this key; NULL: all candidates */
  const tri_layout *than;
  double limit_s; /* largest step time of a candidate; INFINITY: no limit */
} query;

static bool is_wanted(const tri_searching *s, const query *want, const tri_candidate *c) {
  if (want->other != NULL && tri_layouts_differ(&c->layout, want->than, want->other) == NULL) return false;
  return c->bound.bytes <= want->room || s->request->exhaustive;
}

static void report_simulated(const tri_searching *s, tri_candidate **some, int64_t count) {
  for (int64_t i = 0; i < count && s->request->simulated != NULL; i++) {
    if (!some[i]->timed || some[i]->reported) continue;
    some[i]->reported = true;
    s->request->simulated(s->request->context, &some[i]->layout, some[i]->prediction);
  }
}

/* Returns the step time above which no candidate of a query is simulated: that of the slowest of want->top candidates,
 * or the limit of the request. An exhaustive search, and one whose caller gets each simulated layout, simulate all. */
static double simulated_s(const tri_searching *s, double slowest_s) {
  if (s->request->exhaustive || s->request->simulated != NULL) return INFINITY;
  return s->request->limit_s > 0 ? fmin(slowest_s, s->request->limit_s) : slowest_s;
}

/* Finds the fastest candidates of a query, and writes them to best[*found], the fastest first. Simulates candidates
 * in the order of their bounds of time until the next bound is above the limit, or above the step time of the
 * slowest of want->top candidates. An exhaustive search simulates all. */
static tri_status find(tri_searching *s, const query *want, tri_candidate **best, int64_t *found) {
  tri_candidate *some[TRI_SEARCH_AT_ONCE];
  double slowest_s = INFINITY; /* step time of the slowest of want->top candidates */
  *found = 0;
  for (int64_t next = 0; next < s->count;) {
    int64_t count = 0, at_once = want->top == 1 ? TRI_SEARCH_AT_ONCE / 4 : TRI_SEARCH_AT_ONCE;
    while (next < s->count && count < at_once) {
      tri_candidate *c = &s->all[next];
      bool late = c->bound.step_s > slowest_s || c->bound.step_s > want->limit_s;
      if (late && !s->request->exhaustive) {
        next = s->count;
        break;
      }
      next++;
      if (is_wanted(s, want, c)) some[count++] = c;
    }
    TRI_TRY(simulate_all(s, some, count, want->room, simulated_s(s, slowest_s)));
    report_simulated(s, some, count);
    for (int64_t i = 0; i < count; i++) keep_best(best, found, want->top, some[i], want->room);
    if (*found == want->top) slowest_s = best[want->top - 1]->prediction->step_s;
    log_simulated(s, next, fmin(slowest_s, want->limit_s));
  }
  return TRI_OK;
}

/* ---- nothing fits ------------------------------------------------------------------------------------------------ */

static int compare_bytes(const void *left, const void *right) {
  const tri_candidate *a = left, *b = right;
  return (a->bound.bytes > b->bound.bytes) - (a->bound.bytes < b->bound.bytes);
}

/* Finds the candidate that needs the least memory. Sorts s->all by the bounds of memory, and plans candidates in
 * this order until the next bound is not below the least memory found. */
static tri_status smallest(tri_searching *s, tri_candidate **out, double *bytes) {
  *out = NULL;
  *bytes = INFINITY;
  qsort(s->all, (size_t)s->count, sizeof *s->all, compare_bytes);
  for (int64_t i = 0; i < s->count && s->all[i].bound.bytes < *bytes; i++) {
    tri_candidate *c = &s->all[i];
    tri_memory_parts memory;
    tri_simulation_request request = simulation_of(s->request, &c->layout);
    TRI_TRY(tri_predict_fullest(&request, INFINITY, NULL, &memory));
    if (memory.peak >= *bytes) continue;
    *bytes = memory.peak;
    *out = c;
  }
  return TRI_OK;
}

/* Finds a number of devices with which a layout fits, and its global batch. Tries 2, 4, ... 64 times the requested
 * number, each with the requested batch, and then with a batch that is larger by the same factor. Sets *out to the
 * first number that fits, or to 0. */
static tri_status enough_devices(const tri_searching *s, int64_t *out, int64_t *batch) {
  *out = 0;
  for (int64_t i = 2; i <= 13 && *out == 0; i++) {
    const int64_t times = INT64_C(1) << (i / 2);
    tri_search_request more = *s->request;
    tri_searching larger = {.begin_s = s->begin_s, .request = &more, .stores_all = true};
    tri_candidate *least = NULL;
    double bytes = INFINITY;
    more.devices *= times;
    if (i % 2 == 1) more.global_batch *= times;
    if (more.cluster->max_devices > 0 && more.devices > more.cluster->max_devices) return TRI_OK;
    *batch = more.global_batch;
    tri_status status = tri_search_enumerate(&larger);
    if (status == TRI_OK) status = smallest(&larger, &least, &bytes);
    tri_search_forget(&larger);
    if (status != TRI_OK && status != TRI_BAD_LAYOUT) return status;
    if (bytes <= tri_search_room(&more)) *out = more.devices;
  }
  return TRI_OK;
}

/* Fails because no candidate fits. If the bound of any is within the memory, enumerates again to store all. */
static tri_status nothing_fits(tri_searching *s) {
  tri_candidate *least = NULL;
  double bytes = 0, room = tri_search_room(s->request);
  char need[32], there[32], missing[32], layout[TRI_LAYOUT_TEXT_BYTES], advice[160] = "; choose a smaller model";
  int64_t devices = 0, batch = 0;
  if (s->some_fit && !s->stores_all) {
    tri_search_forget(s);
    *s = (tri_searching){.begin_s = s->begin_s, .request = s->request, .stores_all = true};
    TRI_TRY(tri_search_enumerate(s));
  }
  TRI_TRY(smallest(s, &least, &bytes));
  if (s->request->no_advice) {
    advice[0] = '\0';
  } else {
    TRI_TRY(enough_devices(s, &devices, &batch));
  }
  if (devices > 0) {
    snprintf(advice, sizeof advice, "; %" PRId64 " devices with a global batch of %" PRId64 " would do", devices,
             batch);
  }
  return tri_fail(TRI_OUT_OF_MEMORY,
                  "no layout of %s fits %" PRId64
                  " device%s of %s: the smallest, %s, needs %s on its fullest rank, but %s are available, %s (%.0f "
                  "bytes) too few%s",
                  s->request->model->name, s->request->devices, TRI_PLURAL(s->request->devices),
                  s->request->cluster->name, tri_layout_text(&least->layout, layout, sizeof layout),
                  tri_format_bytes(bytes, need, sizeof need), tri_format_bytes(room, there, sizeof there),
                  tri_format_bytes(bytes - room, missing, sizeof missing), bytes - room, advice);
}

/* ---- alternatives ------------------------------------------------------------------------------------------------ */

static double more_along(const tri_prediction *best, const tri_prediction *other, tri_domain domain) {
  tri_axis axis = tri_domain_axis(domain);
  return other->time.along[axis] - best->time.along[axis];
}

/* Returns the name of the part of the step that grows most from the best layout to another one. */
static const char *largest_loss(const tri_prediction *best, const tri_prediction *other) {
  const struct {
    const char *name;
    double more;
  } parts[] = {{"computation", other->time.compute - best->time.compute},
               {"tensor-parallel communication", more_along(best, other, TRI_DOMAIN_TENSOR)},
               {"messages between stages", more_along(best, other, TRI_DOMAIN_PIPELINE)},
               {"data-parallel communication", more_along(best, other, TRI_DOMAIN_REPLICAS)},
               {"context-parallel communication", more_along(best, other, TRI_DOMAIN_CONTEXT)},
               {"expert-parallel communication", more_along(best, other, TRI_DOMAIN_EXPERT)},
               {"bubble", other->time.bubble - best->time.bubble},
               {"optimizer", other->time.optimizer - best->time.optimizer}};
  size_t most = 0;
  for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++) {
    if (parts[i].more > parts[most].more) most = i;
  }
  return parts[most].name;
}

/* Returns the alternative whose layout is that of `other`, and adds it if it is new. One layout may be the
 * alternative for several keys. */
static tri_alternative *alternative_of(tri_search_result *result, const tri_candidate *best,
                                       const tri_candidate *other) {
  for (int64_t i = 0; i < result->num_alternatives; i++) {
    if (tri_layouts_alike(&result->alternatives[i].layout, &other->layout, TRI_LAYOUT_OF_ALL)) {
      return &result->alternatives[i];
    }
  }
  tri_alternative *made = &result->alternatives[result->num_alternatives++];
  *made = (tri_alternative){.layout = other->layout,
                            .step_s = other->prediction->step_s,
                            .loss = largest_loss(best->prediction, other->prediction)};
  return made;
}

/* Returns the step time of the slowest of the TRI_SEARCH_TOLD fastest alternatives so far; INFINITY if there are
 * fewer. */
static double farthest_s(const tri_search_result *result) {
  double nearest[TRI_SEARCH_TOLD];
  for (int i = 0; i < TRI_SEARCH_TOLD; i++) nearest[i] = INFINITY;
  for (int64_t a = 0; a < result->num_alternatives; a++) {
    double step_s = result->alternatives[a].step_s;
    for (int i = 0; i < TRI_SEARCH_TOLD; i++) {
      const double before = nearest[i];
      if (step_s >= before) continue;
      nearest[i] = step_s;
      step_s = before;
    }
  }
  return nearest[TRI_SEARCH_TOLD - 1];
}

/* Returns whether a candidate of the query may fit, but have a step time above want->limit_s. */
static bool may_have_others(const tri_searching *s, const query *want) {
  bool some = false;
  for (int64_t i = 0; i < s->count && !some; i++) {
    some = s->all[i].bound.step_s > want->limit_s && is_wanted(s, want, &s->all[i]);
  }
  return some;
}

static void add_alternative(const tri_candidate *best, const tri_candidate *other, const tri_config_key *key,
                            tri_search_result *result) {
  tri_alternative *alternative = alternative_of(result, best, other);
  alternative->keys[alternative->num_keys++] = tri_layouts_differ(&other->layout, &best->layout, key);
}

static tri_status explain_key(tri_searching *s, const tri_candidate *best, const tri_config_key *key,
                              tri_search_result *result) {
  tri_candidate *next = NULL;
  int64_t found = 0;
  const query want = {tri_search_room(s->request), 1, key, &best->layout, farthest_s(result)};
  TRI_TRY(find(s, &want, &next, &found));
  if (found > 0) {
    add_alternative(best, next, key, result);
  } else if (!may_have_others(s, &want)) {
    result->only[result->num_only++] = key;
  }
  return TRI_OK;
}

/* Returns the fastest answer with another value of the key than the best one; NULL if all answers have the same
 * value. No other candidate that fits is faster than an answer, so this is the alternative for the key. */
static const tri_candidate *answer_without(tri_candidate *const *best, int64_t found, const tri_config_key *key) {
  for (int64_t i = 1; i < found; i++) {
    if (tri_layouts_differ(&best[i]->layout, &best[0]->layout, key) != NULL) return best[i];
  }
  return NULL;
}

static int compare_alternatives(const void *left, const void *right) {
  const tri_alternative *a = left, *b = right;
  return (a->step_s > b->step_s) - (a->step_s < b->step_s);
}

/* Returns whether a searched key differs among all candidates, stored or not. */
static bool varies(const tri_searching *s, const tri_config_key *key) {
  for (int i = 0; i < s->num_alike; i++) {
    if (s->alike[i] == key) return false;
  }
  return true;
}

/* Returns whether candidates differ in the key, or in one that is explained with it. If they do not, the key is fixed
 * or cannot be varied. */
static bool is_open(const tri_searching *s, const tri_config_key *key) {
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_config_key *other = &tri_layout_table.keys[k];
    const tri_layout_search *asked = tri_layout_search_of(other);
    if (asked == NULL || (other != key && (asked->with == NULL || strcmp(asked->with, key->name) != 0))) continue;
    if (varies(s, other)) return true;
  }
  return false;
}

/* Finds an alternative for each key. Keys with an alternative among the answers come first, because these cost no
 * simulation. For the other keys only alternatives are searched that would be among the TRI_SEARCH_TOLD fastest. */
static tri_status explain(tri_searching *s, tri_candidate *const *best, int64_t found, tri_search_result *result) {
  const tri_config_key *rest[TRI_SEARCH_EXPLAINED];
  int64_t explained = 0, num_rest = 0;
  for (size_t k = 0; k < tri_layout_table.num_keys && explained < TRI_SEARCH_EXPLAINED; k++) {
    const tri_config_key *key = &tri_layout_table.keys[k];
    const tri_layout_search *asked = tri_layout_search_of(key);
    if (asked == NULL || asked->with != NULL || !is_open(s, key)) continue;
    explained++;
    const tri_candidate *other = answer_without(best, found, key);
    if (other == NULL) {
      rest[num_rest++] = key;
    } else {
      add_alternative(best[0], other, key, result);
    }
  }
  for (int64_t i = 0; i < num_rest; i++) TRI_TRY(explain_key(s, best[0], rest[i], result));
  qsort(result->alternatives, (size_t)result->num_alternatives, sizeof *result->alternatives, compare_alternatives);
  return TRI_OK;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static tri_status give(const tri_searching *s, tri_candidate *const *best, int64_t found, tri_search_result *result) {
  TRI_TRY(tri_alloc("answers", (size_t)found, sizeof *result->answers, &result->answers));
  for (int64_t i = 0; i < found; i++) result->answers[i] = (tri_answer){best[i]->layout, *best[i]->prediction};
  result->num_answers = found;
  result->valid = s->valid;
  result->simulated = s->simulated;
  result->exhaustive = s->request->exhaustive;
  return TRI_OK;
}

/* Begins a search: sets *request to a copy of `given` with a cache of prices, which the result owns if it is new. */
static tri_status begin(const tri_search_request *given, tri_search_request *request, tri_searching *s,
                        tri_search_result *result) {
  *request = *given;
  *result = (tri_search_result){0};
  *s = (tri_searching){.begin_s = tri_clock_s(), .request = request, .stores_all = given->exhaustive};
  if (given->prices != NULL) return TRI_OK;
  TRI_TRY(tri_price_cache_create(given, &result->prices));
  request->prices = result->prices;
  return TRI_OK;
}

tri_status tri_search(const tri_search_request *given, tri_search_result *out) {
  tri_searching s;
  tri_search_request own;
  const tri_search_request *request = &own;
  tri_search_result result;
  tri_candidate **best = NULL;
  int64_t found = 0;
  tri_status status = TRI_OK;
  TRI_TRY(begin(given, &own, &s, &result));
  TRI_TRY_GOTO(tri_search_enumerate(&s), done);
  TRI_TRY_GOTO(tri_alloc("answers", (size_t)request->top, sizeof(tri_candidate *), &best), done);
  const double limit_s = request->limit_s > 0 ? request->limit_s : INFINITY;
  TRI_TRY_GOTO(find(&s, &(query){tri_search_room(request), request->top, NULL, NULL, limit_s}, best, &found), done);
  if (found == 0 && request->limit_s > 0) {
    *out = (tri_search_result){0};
    goto done;
  }
  if (found == 0) {
    status = nothing_fits(&s);
    goto done;
  }
  TRI_TRY_GOTO(give(&s, best, found, &result), done);
  if (request->explain && !request->exhaustive) TRI_TRY_GOTO(explain(&s, best, found, &result), done);
  result.seconds = tri_clock_s() - s.begin_s;
  *out = result;
  result = (tri_search_result){0};
done:
  if (request->progress) tri_log_progress_end();
  tri_search_release(&result);
  tri_free(best);
  tri_search_forget(&s);
  return status;
}

tri_status tri_search_pareto(const tri_search_request *given, tri_search_result *out) {
  enum { POINTS = 24 };
  tri_searching s;
  tri_search_request own;
  const tri_search_request *request = &own;
  tri_search_result result;
  tri_candidate *front[POINTS];
  int64_t points = 0;
  tri_status status = TRI_OK;
  TRI_TRY(begin(given, &own, &s, &result));
  TRI_TRY_GOTO(tri_search_enumerate(&s), done);
  for (double room = tri_search_room(request); points < POINTS;) {
    int64_t found = 0;
    TRI_TRY_GOTO(find(&s, &(query){room, 1, NULL, NULL, INFINITY}, &front[points], &found), done);
    if (found == 0) break;
    room = 0.97 * front[points]->prediction->memory.peak; /* points of the front differ by at least 3 % */
    points++;
  }
  if (points == 0) {
    status = nothing_fits(&s);
    goto done;
  }
  TRI_TRY_GOTO(give(&s, front, points, &result), done);
  *out = result;
  result = (tri_search_result){0};
done:
  if (request->progress) tri_log_progress_end();
  tri_search_release(&result);
  tri_search_forget(&s);
  return status;
}

void tri_search_release(tri_search_result *result) {
  tri_free(result->answers);
  tri_price_cache_destroy(result->prices);
  *result = (tri_search_result){0};
}

char *tri_search_keys(const char *fixed, char buffer[TRI_SEARCHED_BYTES]) {
  buffer[0] = '\0';
  for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
    const tri_config_key *key = &tri_layout_table.keys[k];
    const size_t held = strlen(buffer);
    if (tri_layout_search_of(key) == NULL || tri_layout_is_fixed(fixed, key->name)) continue;
    snprintf(buffer + held, TRI_SEARCHED_BYTES - held, "%s%s", held == 0 ? "" : ", ", key->name);
  }
  return buffer;
}
