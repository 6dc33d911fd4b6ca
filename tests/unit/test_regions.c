/* Loops that end when their chunks have run (device/cpu/regions.h): each chunk runs once, also if a helper is late, and
 * from any thread. */
#include "device/cpu/regions.h"

#include "base/clock.h"
#include "check.h"
#include "draws.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { MOST_CHUNKS = 300, MOST_THREADS = 9 };

/* Settings and results of a loop. */
typedef struct loop {
  int64_t *runs;          /* [chunks] how often each ran; not atomic, because the end of the loop orders all writes */
  atomic_bool *occupied;  /* [threads] whether the worker is running a chunk */
  _Atomic int64_t strays; /* invalid chunks or workers, or two chunks at once of one worker */
  int64_t chunks;
  int threads;
  double pause_s;     /* seconds that each chunk of a helper pauses */
  tri_regions *inner; /* each chunk begins a loop on it; NULL: none */
} loop;

/* Creates a loop with its own memory, so that a chunk that runs after the end of the loop is a use after free. */
static loop *loop_create(int64_t chunks, int threads) {
  loop *l = calloc(1, sizeof *l);
  l->runs = calloc((size_t)chunks + 1, sizeof *l->runs);
  l->occupied = calloc((size_t)threads, sizeof *l->occupied);
  l->chunks = chunks;
  l->threads = threads;
  return l;
}

static void loop_end(loop *l) {
  assert_int_equal(atomic_load(&l->strays), 0);
  for (int64_t i = 0; i < l->chunks; i++) assert_int_equal(l->runs[i], 1);
  free(l->occupied);
  free(l->runs);
  free(l);
}

static void count_inner(const void *context, int64_t chunk, int worker) {
  int64_t *counts = *(int64_t *const *)context;
  counts[chunk] += worker == 0 ? 1 : 100; /* only the caller runs a loop in a loop */
}

static void run_chunk(const void *context, int64_t chunk, int worker) {
  loop *l = *(loop *const *)context;
  if (chunk < 0 || chunk >= l->chunks || worker < 0 || worker >= l->threads ||
      atomic_exchange(&l->occupied[worker], true)) {
    atomic_fetch_add(&l->strays, 1);
    return;
  }
  l->runs[chunk]++;
  if (worker > 0 && l->pause_s > 0) tri_pause_s(l->pause_s);
  if (l->inner != NULL) {
    int64_t counts[5] = {0}, *at = counts;
    tri_regions_run(l->inner, 5, count_inner, &at);
    for (int i = 0; i < 5; i++)
      if (counts[i] != 1) atomic_fetch_add(&l->strays, 1);
  }
  atomic_store(&l->occupied[worker], false);
}

static void run_loop(tri_regions *regions, int64_t chunks, double pause_s, tri_regions *inner) {
  loop *l = loop_create(chunks, regions == NULL ? 1 : tri_regions_threads(regions));
  l->pause_s = pause_s;
  l->inner = inner;
  tri_regions_run(regions, chunks, run_chunk, &l);
  loop_end(l);
}

static void each_chunk_runs_once(void **unused) {
  (void)unused;
  draws d = {.key = tri_random_stream(7, TRI_RANDOM_TEST, 0)};
  for (int turn = 0; turn < 30; turn++) {
    tri_regions *regions = NULL;
    const int threads = (int)pick(&d, 1, MOST_THREADS);
    CHECK_OK(tri_regions_create(threads, &regions));
    assert_int_equal(tri_regions_threads(regions), threads);
    for (int64_t i = pick(&d, 0, 40); i > 0; i--) run_loop(regions, pick(&d, 0, MOST_CHUNKS), 0, NULL);
    tri_regions_destroy(regions);
  }
  run_loop(NULL, MOST_CHUNKS, 0, NULL);
  tri_regions_destroy(NULL);
}

/* Helpers spin before some loops, and sleep before others. */
static void many_short_loops(void **unused) {
  (void)unused;
  tri_regions *regions = NULL;
  CHECK_OK(tri_regions_create(3, &regions));
  for (int i = 0; i < 20000; i++) {
    run_loop(regions, 1 + i % 7, 0, NULL);
    if (i % 500 == 0) tri_pause_s(1e-3);
  }
  tri_regions_destroy(regions);
}

/* The caller waits for chunks that helpers have begun, for longer than it spins. */
static void late_helpers(void **unused) {
  (void)unused;
  tri_regions *regions = NULL;
  CHECK_OK(tri_regions_create(4, &regions));
  for (int i = 0; i < 60; i++) {
    run_loop(regions, 4 + i % 3, 1e-3, NULL);
    run_loop(regions, 2, 0, NULL);
  }
  tri_regions_destroy(regions);
}

static void loops_in_loops(void **unused) {
  (void)unused;
  tri_regions *regions = NULL, *others = NULL;
  CHECK_OK(tri_regions_create(3, &regions));
  for (int i = 0; i < 200; i++) run_loop(regions, 20, 0, regions);
  CHECK_OK(tri_regions_create(1, &others));
  for (int i = 0; i < 200; i++) run_loop(regions, 20, 0, others);
  tri_regions_destroy(others);
  tri_regions_destroy(regions);
}

static void *call_often(void *context) {
  for (int i = 0; i < 2000; i++) {
    loop *l = loop_create(1 + i % 9, tri_regions_threads(context));
    tri_regions_run(context, l->chunks, run_chunk, &l);
    int64_t wrong = atomic_load(&l->strays);
    for (int64_t c = 0; c < l->chunks; c++) wrong += l->runs[c] != 1;
    if (wrong != 0) return context;
    free(l->occupied);
    free(l->runs);
    free(l);
  }
  return NULL;
}

static void two_callers(void **unused) {
  (void)unused;
  tri_regions *regions = NULL;
  pthread_t other;
  void *failed = NULL;
  CHECK_OK(tri_regions_create(3, &regions));
  assert_int_equal(pthread_create(&other, NULL, call_often, regions), 0);
  assert_null(call_often(regions));
  assert_int_equal(pthread_join(other, &failed), 0);
  assert_null(failed);
  tri_regions_destroy(regions);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_chunk_runs_once), cmocka_unit_test(many_short_loops), cmocka_unit_test(late_helpers),
      cmocka_unit_test(loops_in_loops),       cmocka_unit_test(two_callers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
