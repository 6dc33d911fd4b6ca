/* The parts that all measurements share: the memory of their operands, and the timing of a repeated call. */
#include "base/clock.h"
#include "base/count.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/random.h"
#include "device/kernels.h"
#include "engine/measure_internal.h"

#include <stdlib.h>

/* LEAST and MOST: bounds of the number of repetitions. MOST_SETS: largest number of sets of operands. The result is the
 * lower quartile of the times, because other users of the machine make some calls slower, and none faster. */
enum { LEAST = 4, MOST = 400, MOST_SETS = 16 };

static tri_status do_it(tri_measure *m, tri_measured_call *call, const void *what) {
  m->turn++;
  TRI_TRY(call(m, what));
  return tri_queue_finish(m->device->queue);
}

/* The ranks agree on the number of repetitions, so that they take part in the same calls. */
tri_status tri_measure_time(tri_measure *m, tri_measured_call *call, const void *what, double *out) {
  double times[MOST], once = 0;
  TRI_TRY(do_it(m, call, what)); /* warm-up: compiles, touches memory */
  TRI_TRY(tri_barrier(m->world));
  double begin_s = tri_clock_s();
  TRI_TRY(do_it(m, call, what));
  once = tri_clock_s() - begin_s;
  TRI_TRY(tri_all_maximum(m->world, TRI_FP64, 1, &once));
  double often = once > 0 ? m->each_s / once : MOST;
  int64_t count = often < LEAST ? LEAST : often > MOST ? MOST : (int64_t)often;
  for (int64_t i = 0; i < count; i++) {
    begin_s = tri_clock_s();
    TRI_TRY(do_it(m, call, what));
    times[i] = tri_clock_s() - begin_s;
  }
  qsort(times, (size_t)count, sizeof *times, tri_compare_doubles);
  *out = times[count / 4];
  return tri_all_maximum(m->world, TRI_FP64, 1, out);
}

char *tri_measure_reserve(char **next, size_t bytes) {
  char *at = *next;
  *next += (bytes + TRI_MEASURE_ALIGNMENT - 1) / TRI_MEASURE_ALIGNMENT * TRI_MEASURE_ALIGNMENT;
  return at;
}

int64_t tri_measure_sets(const tri_measure *m, const char *from, size_t bytes) {
  if (!tri_measure_fits(m, from)) return 0;
  size_t sets = (m->pool_bytes - (size_t)(from - m->pool)) / bytes;
  return sets < MOST_SETS ? (int64_t)sets : MOST_SETS;
}

/* Fills the pool with random values, because on zeros a chip needs less power and may run faster than on real data. */
tri_status tri_measure_fill(const tri_measure *m) {
  enum { VALUES = 1 << 18 };
  const tri_random_key key = tri_random_stream(1, TRI_RANDOM_TEST, 0);
  const tri_dtype wide = tri_dtype_wide(m->type);
  const size_t wide_bytes = VALUES * tri_dtype_bytes(wide), bytes = VALUES * tri_dtype_bytes(m->type);
  char *staged = m->pool + bytes;
  tri_queue *queue = m->device->queue;
  void *host = NULL;
  TRI_TRY(tri_alloc("random values", VALUES, tri_dtype_bytes(wide), &host));
  for (int64_t i = 0; i < VALUES; i++) tri_wide_set(wide, host, i, tri_random_normal(key, (uint64_t)i));
  tri_status status = tri_queue_upload_now(queue, staged, host, wide_bytes);
  tri_free(host);
  TRI_TRY(status);
  TRI_TRY(m->device->kernels->convert(queue, VALUES, wide, staged, m->type, m->pool));
  for (size_t at = bytes; at < m->pool_bytes; at *= 2) {
    TRI_TRY(tri_queue_move(queue, m->pool + at, m->pool, at < m->pool_bytes - at ? at : m->pool_bytes - at));
  }
  return tri_queue_finish(queue);
}
