#include "plan/search_candidates.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/loop_threads.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "schedule/layout_config.h"
#include "schedule/layout_values.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* BATCH: number of layouts whose bounds are computed in parallel, after the prices of layers that they lack. A thread
 * takes BLOCK consecutive ones at once. SILENT_S: seconds before the first message of progress. */
enum { BATCH = 1 << 15, BLOCK = BATCH / TRI_SEARCH_AT_ONCE, SILENT_S = 2 };

double tri_search_room(const tri_search_request *request) { return tri_system_room(request->system, request->cluster); }

bool tri_search_shows_progress(const tri_searching *s, double *seconds) {
  *seconds = tri_clock_s() - s->begin_s;
  return s->request->progress && *seconds >= SILENT_S;
}

/* Logs the progress of a search whose candidates are not all known. */
static void log_candidates(const tri_searching *s) {
  double seconds = 0;
  char valid[32];
  if (!tri_search_shows_progress(s, &seconds)) return;
  tri_log_progress("searching: %s valid layouts so far, %.0f s", tri_format_grouped(s->valid, valid, sizeof valid),
                   seconds);
}

typedef struct adding {
  tri_searching *to;
  tri_bounds *bounds[TRI_SEARCH_AT_ONCE]; /* those of each thread [num_threads] */
  int num_threads;
  tri_layout *layouts;     /* valid layouts whose bounds are not computed yet [count] */
  tri_price_place *places; /* memory for their places in the cache of prices [BATCH] */
  tri_bound *found;        /* memory for their bounds [BATCH] */
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
static void find_alike(tri_searching *s, const tri_layout *layout) {
  if (s->valid == 0) {
    s->first = *layout;
    s->num_alike = 0;
    for (size_t k = 0; k < tri_layout_table.num_keys; k++) {
      const tri_config_key *key = &tri_layout_table.keys[k];
      if (tri_layout_search_of(key) == NULL) continue;
      assert(s->num_alike < TRI_SEARCH_KEYS);
      s->alike[s->num_alike++] = key;
    }
  }
  for (int i = s->num_alike - 1; i >= 0; i--) {
    if (tri_layout_value(layout, s->alike[i]) == tri_layout_value(&s->first, s->alike[i])) continue;
    s->alike[i] = s->alike[--s->num_alike];
  }
}

/* Counts a candidate, and stores it if it may be an answer. */
static tri_status store(tri_searching *s, const tri_layout *layout, tri_bound bound) {
  const tri_search_request *request = s->request;
  const bool fits = bound.bytes <= tri_search_room(request);
  find_alike(s, layout);
  s->valid++;
  if (!s->stores_all) {
    if (request->limit_s > 0 && !request->explain && bound.step_s > request->limit_s) return TRI_OK;
    if (!fits && s->some_fit) return TRI_OK;
    if (fits && !s->some_fit) s->count = 0;
  }
  s->some_fit = s->some_fit || fits;
  TRI_TRY(tri_grow("candidates", sizeof *s->all, s->count, &s->room, &s->all));
  s->all[s->count++] = (tri_candidate){.layout = *layout, .bound = bound};
  return TRI_OK;
}

/* Computes the bounds of a block of layouts. */
static tri_status find_bounds(void *context, int64_t block, int thread) {
  const adding *at = context;
  for (int64_t i = block * BLOCK; i < at->count && i < (block + 1) * BLOCK; i++) {
    at->found[i] = tri_bounds_at(at->bounds[thread], &at->layouts[i], &at->places[i]);
  }
  return TRI_OK;
}

/* Computes the bounds of at->layouts in parallel, and empties the list. */
static tri_status bound_batch(adding *at) {
  tri_price_cache *prices = at->to->request->prices;
  for (int64_t i = 0; i < at->count; i++) {
    at->places[i] = i == 0 ? (tri_price_place){0} : at->places[i - 1];
    TRI_TRY(tri_price_cache_find(prices, &at->layouts[i], &at->places[i]));
  }
  TRI_TRY(tri_price_cache_fill(prices, at->num_threads));
  TRI_TRY(tri_parallel_for((at->count + BLOCK - 1) / BLOCK, at->num_threads, find_bounds, at));
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
static tri_status add_all(tri_searching *s, const tri_layout_space *space) {
  adding at = {.to = s};
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("candidates", BATCH, sizeof *at.layouts, &at.layouts), done);
  TRI_TRY_GOTO(tri_alloc("candidates", BATCH, sizeof *at.places, &at.places), done);
  TRI_TRY_GOTO(tri_alloc("candidates", BATCH, sizeof *at.found, &at.found), done);
  const int threads = tri_loop_threads();
  for (; at.num_threads < threads && at.num_threads < TRI_SEARCH_AT_ONCE; at.num_threads++) {
    TRI_TRY_GOTO(tri_bounds_create(s->request, &at.bounds[at.num_threads]), done);
  }
  TRI_TRY_GOTO(tri_layouts_each(space, add, &at), done);
  TRI_TRY_GOTO(bound_batch(&at), done);
done:
  for (int i = 0; i < at.num_threads; i++) tri_bounds_destroy(at.bounds[i]);
  tri_free(at.found);
  tri_free(at.places);
  tri_free(at.layouts);
  return status;
}

void tri_search_forget(tri_searching *s) {
  for (int64_t i = 0; i < s->count; i++) tri_free(s->all[i].prediction);
  tri_free(s->all);
}

static int compare_bounds(const void *left, const void *right) {
  const tri_candidate *a = left, *b = right;
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

tri_status tri_search_enumerate(tri_searching *s) {
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
