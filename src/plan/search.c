#include "plan/search.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/loop_threads.h"
#include "base/memory.h"
#include "plan/bounds.h"
#include "plan/row_pairs.h"
#include "schedule/layout_config.h"
#include "schedule/layout_values.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* AT_ONCE: largest number of candidates that are simulated in parallel. BATCH: number of layouts whose bounds are
 * computed in parallel; BLOCK: number of consecutive ones that a thread takes at once, many of which share prices of
 * layers. KEYS: largest number of searched keys. SILENT_S: seconds before the first message of progress. */
enum { AT_ONCE = 16, BATCH = 1 << 15, BLOCK = BATCH / AT_ONCE, KEYS = 32, SILENT_S = 2 };

/* A candidate is a valid layout with its lower bounds. It is *planned* if its memory is predicted, *late* if it was
 * also found to be slower than the other candidates of a query, by a closer bound of its time, and *timed* if its time
 * is predicted. It is *simulated* if it is late or timed. */
typedef struct candidate {
  tri_layout layout;
  tri_bound bound;
  double late_s; /* closer bound of the step time (tri_simulate_step_within); 0: not computed, or not late */
  bool simulated, timed;
  bool reported;              /* whether tri_search_request.simulated was called for the candidate */
  tri_prediction *prediction; /* owned; NULL: not planned */
} candidate;

/* The search stores only candidates that may be answers: those whose bound of memory is within the memory of a device,
 * and whose bound of time is within the limit of the request. As long as no bound of memory is within it, all
 * candidates are stored, to find the one that needs the least memory. */
typedef struct search {
  double begin_s; /* time at which the search began (tri_clock_s) */
  const tri_search_request *request;
  int64_t lowest_trained;         /* index of the lowest layer with a trained weight (tri_trainable_lowest_layer) */
  candidate *all;                 /* stored candidates [count]; enumerate sorts them by their bounds of time */
  int64_t count, room, simulated; /* room: capacity of `all`; simulated: number of simulated candidates */
  int64_t valid;                  /* number of candidates, stored or not */
  bool stores_all;                /* whether all candidates are stored */
  bool some_fit;                  /* whether the bound of memory of any candidate is within the memory of a device */
  tri_layout first;               /* layout of the first candidate */
  /* Searched keys that have the same value in all candidates [num_alike]. */
  const tri_config_key *alike[KEYS];
  int num_alike;
} search;

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

static double room_of(const tri_search_request *request) { return tri_system_room(request->system, request->cluster); }

/* Returns whether the progress is logged now: the search has taken longer than SILENT_S. */
static bool shows_progress(const search *s, double *seconds) {
  *seconds = tri_clock_s() - s->begin_s;
  return s->request->progress && *seconds >= SILENT_S;
}

/* Logs the progress of a search whose candidates are not all known. */
static void log_candidates(const search *s) {
  double seconds = 0;
  char valid[32];
  if (!shows_progress(s, &seconds)) return;
  tri_log_progress("searching: %s valid layouts so far, %.0f s", tri_format_grouped(s->valid, valid, sizeof valid),
                   seconds);
}

/* Logs the progress of a search that has simulated candidates before the index `next`. limit_s: step time above whose
 * bound no candidate is simulated, as far as known. */
static void log_simulated(const search *s, int64_t next, double limit_s) {
  double seconds = 0;
  char simulated[32], left[32];
  int64_t low = next, high = s->count; /* the bounds of time ascend */
  if (!shows_progress(s, &seconds)) return;
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

/* ---- candidates -------------------------------------------------------------------------------------------------- */

typedef struct adding {
  search *to;
  tri_bounds *bounds[AT_ONCE]; /* those of each thread [num_threads] */
  int num_threads;
  tri_layout *layouts; /* valid layouts whose bounds are not computed yet [count] */
  tri_bound *found;    /* memory for their bounds [BATCH] */
  int64_t count;
  /* The last layout that was resolved, with recompute_every 1: before (`tried`) and after it was resolved. */
  tri_layout tried, resolved;
  bool valid; /* whether `resolved` is valid */
} adding;

/* Resolves a layout. Returns false if it is not valid. tri_layouts_each varies `recompute_every` innermost, and this
 * key affects no other key. So a layout is resolved only with recompute_every 1, and the result is reused for the
 * other values. */
static bool resolve(adding *at, const tri_layout *tried, tri_layout *out) {
  const tri_search_request *of = at->to->request;
  tri_layout one = *tried;
  one.recompute_every = 1;
  if (!tri_layouts_alike(&one, &at->tried, TRI_LAYOUT_OF_ALL)) {
    at->tried = at->resolved = one;
    at->valid = tri_layout_resolve_trained(&at->resolved, of->model, at->to->lowest_trained, of->sequence,
                                           of->global_batch, of->devices) == TRI_OK;
  }
  if (tried->recompute_every > 1 && tried->recompute != TRI_RECOMPUTE_FULL)
    return false; /* without full recompute, recompute_every has no effect */
  *out = at->resolved;
  out->recompute_every = tried->recompute_every;
  return at->valid;
}

/* Removes the keys from s->alike in which a layout differs from the first one. */
static void find_alike(search *s, const tri_layout *layout) {
  if (s->valid == 0) {
    s->first = *layout;
    s->num_alike = 0;
    for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
      const tri_config_key *key = &tri_layout_table.keys[k];
      if (tri_layout_search_of(key) == NULL) continue;
      assert(s->num_alike < KEYS);
      s->alike[s->num_alike++] = key;
    }
  }
  for (int i = s->num_alike - 1; i >= 0; i--) {
    if (tri_layout_value(layout, s->alike[i]) == tri_layout_value(&s->first, s->alike[i])) continue;
    s->alike[i] = s->alike[--s->num_alike];
  }
}

/* Counts a candidate, and stores it if it may be an answer. */
static tri_status store(search *s, const tri_layout *layout, tri_bound bound) {
  const tri_search_request *request = s->request;
  const bool fits = bound.bytes <= room_of(request);
  find_alike(s, layout);
  s->valid++;
  if (!s->stores_all) {
    if (request->limit_s > 0 && !request->explain && bound.step_s > request->limit_s) return TRI_OK;
    if (!fits && s->some_fit) return TRI_OK;
    if (fits && !s->some_fit) s->count = 0;
  }
  s->some_fit = s->some_fit || fits;
  TRI_TRY(tri_grow("candidates", sizeof *s->all, s->count, &s->room, &s->all));
  s->all[s->count++] = (candidate){.layout = *layout, .bound = bound};
  return TRI_OK;
}

/* Computes the bounds of the next BLOCK layouts from index `first` on. */
static tri_status find_bounds(adding *at, int64_t first) {
  for (int64_t i = first; i < at->count && i < first + BLOCK; i++) {
    TRI_TRY(tri_bounds_of(at->bounds[omp_get_thread_num()], &at->layouts[i], &at->found[i]));
  }
  return TRI_OK;
}

/* Computes the bounds of at->layouts in parallel, and empties the list. */
static tri_status bound_batch(adding *at) {
  char message[1024] = "";
  tri_status worst = TRI_OK;
#pragma omp parallel for schedule(dynamic) num_threads(at->num_threads)
  for (int64_t first = 0; first < at->count; first += BLOCK) {
    tri_status status = find_bounds(at, first);
#pragma omp critical(tri_search_failure)
    if (status != TRI_OK && worst == TRI_OK) {
      worst = status;
      snprintf(message, sizeof message, "%s", tri_status_message());
    }
  }
  if (worst != TRI_OK) return tri_fail(worst, "%s", message);
  for (int64_t i = 0; i < at->count; i++) TRI_TRY(store(at->to, &at->layouts[i], at->found[i]));
  at->count = 0;
  log_candidates(at->to);
  return TRI_OK;
}

static tri_status add(void *context, const tri_layout *tried) {
  adding *at = context;
  if (!resolve(at, tried, &at->layouts[at->count])) return TRI_OK;
  return ++at->count < BATCH ? TRI_OK : bound_batch(at);
}

/* Resolves and adds all layouts of a space. */
static tri_status add_all(search *s, const tri_layout_space *space) {
  adding at = {.to = s};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("candidates", BATCH, sizeof *at.layouts, &at.layouts), done);
  TRI_TRY_GOTO(tri_alloc("candidates", BATCH, sizeof *at.found, &at.found), done);
  const int threads = tri_loop_threads();
  for (; at.num_threads < threads && at.num_threads < AT_ONCE; at.num_threads++) {
    TRI_TRY_GOTO(tri_bounds_create(s->request, &at.bounds[at.num_threads]), done);
  }
  TRI_TRY_GOTO(tri_layouts_each(space, add, &at), done);
  TRI_TRY_GOTO(bound_batch(&at), done);
done:
  for (int i = 0; i < at.num_threads; i++) tri_bounds_destroy(at.bounds[i]);
  tri_free(at.found);
  tri_free(at.layouts);
  return status;
}

static void release(search *s) {
  for (int64_t i = 0; i < s->count; i++) tri_free(s->all[i].prediction);
  tri_free(s->all);
}

static int compare_bounds(const void *left, const void *right) {
  const candidate *a = left, *b = right;
  return (a->bound.step_s > b->bound.step_s) - (a->bound.step_s < b->bound.step_s);
}

/* Fails because no layout with the fixed keys is valid. The message says why the layout with these keys, and with the
 * defaults of all others, is not valid. If this layout is valid, but not one that the search tries, the message refers
 * to `trireme simulate`. */
static tri_status none_with_fixed(const tri_search_request *request, tri_layout fixed) {
  char why[1024] = "run `trireme simulate` with one such layout to see why";
  if (tri_layout_resolve(&fixed, request->model, request->sequence, request->global_batch, request->devices) !=
      TRI_OK) {
    snprintf(why, sizeof why, "with the defaults of the other keys, %s", tri_status_message());
  }
  return tri_fail(TRI_BAD_LAYOUT, "no layout of %" PRId64 " devices with %s is valid: %s", request->devices,
                  request->fixed, why);
}

static tri_status enumerate(search *s) {
  const tri_search_request *request = s->request;
  tri_layout fixed = {0};
  if (request->fixed != NULL) {
    TRI_TRY(tri_layout_parse(request->fixed, &fixed));
    TRI_TRY(tri_system_settle(request->system, request->fixed, &fixed));
  }
  TRI_TRY(tri_trainable_lowest_layer(request->model, &s->lowest_trained));
  const tri_layout_space space = {.model = request->model,
                                  .devices = request->devices,
                                  .global_batch = request->global_batch,
                                  .sequence = request->sequence,
                                  .keeps_gathered = !request->system->gathers_again,
                                  .gathers_again = request->system->gathers_again || request->system->planned,
                                  .sums_whole = !tri_system_reduces_each(request->system, 2),
                                  .zero = request->system->zero,
                                  .fixed = request->fixed};
  TRI_TRY(add_all(s, &space));
  if (s->valid == 0 && request->fixed != NULL) return none_with_fixed(request, fixed);
  if (s->valid == 0) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "no layout of %" PRId64 " devices is valid: tensor must divide the %" PRId64
                    " heads, pipeline must be at most %" PRId64
                    " (the layers and 2), data x micro_batch must divide the global batch of %" PRId64
                    ", and each context rank needs %d tokens of a sequence (simulate accepts more context ranks); try "
                    "another --devices or --global-batch",
                    request->devices, request->model->num_heads, request->model->num_layers + 2, request->global_batch,
                    TRI_LAYOUT_LEAST_TOKENS);
  }
  qsort(s->all, (size_t)s->count, sizeof *s->all, compare_bounds);
  return TRI_OK;
}

/* ---- simulation -------------------------------------------------------------------------------------------------- */

/* Predicts the time of a candidate, unless a closer bound of it is above limit_s. */
static tri_status find_time(const search *s, candidate *c, double limit_s, tri_prediction *out, bool *late) {
  tri_layout layout = c->layout;
  tri_simulation_request request = simulation_of(s->request, &layout);
  int64_t row_pairs = TRI_NO_ROW_PAIRS;
  *late = c->late_s > limit_s * (1 + TRI_BOUND_MARGIN);
  if (*late) return TRI_OK;
  TRI_TRY(tri_plan_row_pairs(&request, &row_pairs));
  if (row_pairs != TRI_NO_ROW_PAIRS) layout.context_row_pairs = row_pairs;
  TRI_TRY(tri_simulate_step_within(&request, limit_s, out));
  out->row_pairs = row_pairs;
  *late = out->tokens_per_s == 0;
  if (*late) c->late_s = out->step_s;
  return TRI_OK;
}

/* Predicts the memory of a candidate, and, if the memory fits into `room` bytes, computes its context_row_pairs and
 * predicts its time, unless this is known to be above limit_s. The prediction of memory ends at the first stage that
 * does not fit. A later call does not continue it, because no later call has a larger `room`. With a limit in the
 * request, most candidates are too slow, so the time is predicted first. */
static tri_status search_simulate(const search *s, candidate *c, double room, double limit_s) {
  const tri_simulation_request request = simulation_of(s->request, &c->layout);
  const bool time_first = s->request->limit_s > 0;
  tri_prediction timed;
  bool late = false;
  if (c->timed) return TRI_OK;
  if (time_first) TRI_TRY(find_time(s, c, limit_s, &timed, &late));
  if (late) return TRI_OK;
  if (c->prediction == NULL) {
    TRI_TRY(tri_alloc("a prediction", 1, sizeof *c->prediction, &c->prediction));
    TRI_TRY(tri_predict_fullest(&request, room, &c->prediction->fullest_stage, &c->prediction->memory));
  }
  if (c->prediction->memory.peak > room) return TRI_OK;
  c->simulated = true;
  if (!time_first) TRI_TRY(find_time(s, c, limit_s, &timed, &late));
  if (late) return TRI_OK;
  if (timed.row_pairs != TRI_NO_ROW_PAIRS) c->layout.context_row_pairs = timed.row_pairs;
  timed.memory = c->prediction->memory;
  timed.fullest_stage = c->prediction->fullest_stage;
  timed.fits = timed.memory.peak <= room_of(s->request);
  *c->prediction = timed;
  c->timed = true;
  return TRI_OK;
}

/* Simulates candidates in parallel, but those whose time is known to be above limit_s. Returns the first failure after
 * all have ended. */
static tri_status simulate_all(search *s, candidate **some, int64_t count, double room, double limit_s) {
  char message[1024] = "";
  tri_status worst = TRI_OK;
  /* Candidates that an earlier call has simulated are counted again below. */
  for (int64_t i = 0; i < count; i++) s->simulated -= some[i]->simulated;
#pragma omp parallel for schedule(dynamic) num_threads(tri_loop_threads())
  for (int64_t i = 0; i < count; i++) {
    tri_status status = search_simulate(s, some[i], room, limit_s);
#pragma omp critical(tri_search_failure)
    if (status != TRI_OK && worst == TRI_OK) {
      worst = status;
      snprintf(message, sizeof message, "%s", tri_status_message());
    }
  }
  for (int64_t i = 0; i < count; i++) s->simulated += some[i]->simulated;
  return worst == TRI_OK ? TRI_OK : tri_fail(worst, "%s", message);
}

static int compare_answers(const void *left, const void *right) {
  const candidate *const *a = left, *const *b = right;
  double x = (*a)->prediction->step_s, y = (*b)->prediction->step_s;
  if (x != y) return x > y ? 1 : -1;
  const double one = (*a)->prediction->memory.peak, other = (*b)->prediction->memory.peak;
  return (one > other) - (one < other);
}

/* Inserts a candidate into best[*count], the fastest candidates that fit into `room` bytes, if it is one of the
 * `top` fastest. The fastest is first. */
static void keep_best(candidate **best, int64_t *count, int64_t top, candidate *c, double room) {
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

static bool is_wanted(const search *s, const query *want, const candidate *c) {
  if (want->other != NULL && tri_layouts_differ(&c->layout, want->than, want->other) == NULL) return false;
  return c->bound.bytes <= want->room || s->request->exhaustive;
}

static void report_simulated(const search *s, candidate **some, int64_t count) {
  for (int64_t i = 0; i < count && s->request->simulated != NULL; i++) {
    if (!some[i]->timed || some[i]->reported) continue;
    some[i]->reported = true;
    s->request->simulated(s->request->context, &some[i]->layout, some[i]->prediction);
  }
}

/* Returns the step time above which no candidate of a query is simulated: that of the slowest of want->top candidates,
 * or the limit of the request. An exhaustive search, and one whose caller gets each simulated layout, simulate all. */
static double simulated_s(const search *s, double slowest_s) {
  if (s->request->exhaustive || s->request->simulated != NULL) return INFINITY;
  return s->request->limit_s > 0 ? fmin(slowest_s, s->request->limit_s) : slowest_s;
}

/* Finds the fastest candidates of a query, and writes them to best[*found], the fastest first. Simulates candidates
 * in the order of their bounds of time until the next bound is above the limit, or above the step time of the
 * slowest of want->top candidates. An exhaustive search simulates all. */
static tri_status find(search *s, const query *want, candidate **best, int64_t *found) {
  candidate *some[AT_ONCE];
  double slowest_s = INFINITY; /* step time of the slowest of want->top candidates */
  *found = 0;
  for (int64_t next = 0; next < s->count;) {
    int64_t count = 0, at_once = want->top == 1 ? AT_ONCE / 4 : AT_ONCE;
    while (next < s->count && count < at_once) {
      candidate *c = &s->all[next];
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
  const candidate *a = left, *b = right;
  return (a->bound.bytes > b->bound.bytes) - (a->bound.bytes < b->bound.bytes);
}

/* Finds the candidate that needs the least memory. Sorts s->all by the bounds of memory, and plans candidates in
 * this order until the next bound is not below the least memory found. */
static tri_status smallest(search *s, candidate **out, double *bytes) {
  *out = NULL;
  *bytes = INFINITY;
  qsort(s->all, (size_t)s->count, sizeof *s->all, compare_bytes);
  for (int64_t i = 0; i < s->count && s->all[i].bound.bytes < *bytes; i++) {
    candidate *c = &s->all[i];
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
static tri_status enough_devices(const search *s, int64_t *out, int64_t *batch) {
  *out = 0;
  for (int64_t i = 2; i <= 13 && *out == 0; i++) {
    const int64_t times = INT64_C(1) << (i / 2);
    tri_search_request more = *s->request;
    search larger = {.begin_s = s->begin_s, .request = &more, .stores_all = true};
    candidate *least = NULL;
    double bytes = INFINITY;
    more.devices *= times;
    if (i % 2 == 1) more.global_batch *= times;
    if (more.cluster->max_devices > 0 && more.devices > more.cluster->max_devices) return TRI_OK;
    *batch = more.global_batch;
    tri_status status = enumerate(&larger);
    if (status == TRI_OK) status = smallest(&larger, &least, &bytes);
    release(&larger);
    if (status != TRI_OK && status != TRI_BAD_LAYOUT) return status;
    if (bytes <= room_of(&more)) *out = more.devices;
  }
  return TRI_OK;
}

/* Fails because no candidate fits. If the bound of any is within the memory, enumerates again to store all. */
static tri_status nothing_fits(search *s) {
  candidate *least = NULL;
  double bytes = 0, room = room_of(s->request);
  char need[32], there[32], missing[32], layout[TRI_LAYOUT_TEXT_BYTES], advice[160] = "; choose a smaller model";
  int64_t devices = 0, batch = 0;
  if (s->some_fit && !s->stores_all) {
    release(s);
    *s = (search){.begin_s = s->begin_s, .request = s->request, .stores_all = true};
    TRI_TRY(enumerate(s));
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
static tri_alternative *alternative_of(tri_search_result *result, const candidate *best, const candidate *other) {
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
static bool may_have_others(const search *s, const query *want) {
  bool some = false;
  for (int64_t i = 0; i < s->count && !some; i++) {
    some = s->all[i].bound.step_s > want->limit_s && is_wanted(s, want, &s->all[i]);
  }
  return some;
}

static void add_alternative(const candidate *best, const candidate *other, const tri_config_key *key,
                            tri_search_result *result) {
  tri_alternative *alternative = alternative_of(result, best, other);
  alternative->keys[alternative->num_keys++] = tri_layouts_differ(&other->layout, &best->layout, key);
}

static tri_status explain_key(search *s, const candidate *best, const tri_config_key *key, tri_search_result *result) {
  candidate *next = NULL;
  int64_t found = 0;
  const query want = {room_of(s->request), 1, key, &best->layout, farthest_s(result)};
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
static const candidate *answer_without(candidate *const *best, int64_t found, const tri_config_key *key) {
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
static bool varies(const search *s, const tri_config_key *key) {
  for (int i = 0; i < s->num_alike; i++) {
    if (s->alike[i] == key) return false;
  }
  return true;
}

/* Returns whether candidates differ in the key, or in one that is explained with it. If they do not, the key is fixed
 * or cannot be varied. */
static bool is_open(const search *s, const tri_config_key *key) {
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
static tri_status explain(search *s, candidate *const *best, int64_t found, tri_search_result *result) {
  const tri_config_key *rest[TRI_SEARCH_EXPLAINED];
  int64_t explained = 0, num_rest = 0;
  for (size_t k = 0; k < tri_layout_table.num_keys && explained < TRI_SEARCH_EXPLAINED; k++) {
    const tri_config_key *key = &tri_layout_table.keys[k];
    const tri_layout_search *asked = tri_layout_search_of(key);
    if (asked == NULL || asked->with != NULL || !is_open(s, key)) continue;
    explained++;
    const candidate *other = answer_without(best, found, key);
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

static tri_status give(const search *s, candidate *const *best, int64_t found, tri_search_result *result) {
  TRI_TRY(tri_alloc("answers", (size_t)found, sizeof *result->answers, &result->answers));
  for (int64_t i = 0; i < found; i++) result->answers[i] = (tri_answer){best[i]->layout, *best[i]->prediction};
  result->num_answers = found;
  result->valid = s->valid;
  result->simulated = s->simulated;
  result->exhaustive = s->request->exhaustive;
  return TRI_OK;
}

tri_status tri_search(const tri_search_request *request, tri_search_result *out) {
  search s = {.begin_s = tri_clock_s(), .request = request, .stores_all = request->exhaustive};
  tri_search_result result = {0};
  candidate **best = NULL;
  int64_t found = 0;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(enumerate(&s), done);
  TRI_TRY_GOTO(tri_alloc("answers", (size_t)request->top, sizeof(candidate *), &best), done);
  const double limit_s = request->limit_s > 0 ? request->limit_s : INFINITY;
  TRI_TRY_GOTO(find(&s, &(query){room_of(request), request->top, NULL, NULL, limit_s}, best, &found), done);
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
  release(&s);
  return status;
}

tri_status tri_search_pareto(const tri_search_request *request, tri_search_result *out) {
  enum { POINTS = 24 };
  search s = {.begin_s = tri_clock_s(), .request = request, .stores_all = request->exhaustive};
  tri_search_result result = {0};
  candidate *front[POINTS];
  int64_t points = 0;
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(enumerate(&s), done);
  for (double room = room_of(request); points < POINTS;) {
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
  release(&s);
  return status;
}

void tri_search_release(tri_search_result *result) {
  tri_free(result->answers);
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
