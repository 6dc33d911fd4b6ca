#include "base/count.h"
#include "base/memory.h"
#include "schedule/memory_plan.h"

#include <stdlib.h>

size_t tri_padded_bytes(size_t bytes) {
  size_t lines = tri_bytes_plus(bytes, 63) / 64;
  return tri_bytes_times(bytes >= 4096 ? lines + 5 : lines, 64);
}

/* Largest first; equals in order of time, then of position, so that the plan is the same everywhere. */
static int intervals_compare(const void *a, const void *b) {
  const tri_interval *x = *(const tri_interval *const *)a;
  const tri_interval *y = *(const tri_interval *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static bool meet(const tri_interval *a, const tri_interval *b) { return a->first <= b->last && b->first <= a->last; }

/* `placed` is in order of offset; the first gap that is free for the interval's whole life takes it. */
static size_t lowest_offset(const tri_interval *const *placed, int64_t count, const tri_interval *interval) {
  size_t offset = 0;
  for (int64_t i = 0; i < count; i++) {
    if (!meet(placed[i], interval)) continue;
    if (tri_bytes_plus(offset, interval->bytes) <= placed[i]->offset) break;
    size_t end = tri_bytes_plus(placed[i]->offset, placed[i]->bytes);
    if (end > offset) offset = end;
  }
  return offset;
}

tri_status tri_intervals_place(tri_interval *intervals, int64_t count, size_t *bytes) {
  tri_interval **order = NULL;
  const tri_interval **placed = NULL;
  tri_status status = TRI_OK;
  size_t region = 0;
  TRI_TRY_GOTO(tri_alloc("the memory plan", (size_t)count, sizeof *order, &order), done);
  TRI_TRY_GOTO(tri_alloc("the memory plan", (size_t)count, sizeof *placed, &placed), done);
  for (int64_t i = 0; i < count; i++) order[i] = &intervals[i];
  qsort(order, (size_t)count, sizeof *order, intervals_compare);
  for (int64_t i = 0; i < count; i++) {
    tri_interval *interval = order[i];
    interval->offset = lowest_offset(placed, i, interval);
    int64_t at = i;
    while (at > 0 && placed[at - 1]->offset > interval->offset) {
      placed[at] = placed[at - 1];
      at--;
    }
    placed[at] = interval;
    size_t end = tri_bytes_plus(interval->offset, interval->bytes);
    if (end > region) region = end;
  }
  *bytes = region;
done:
  tri_free(placed);
  tri_free(order);
  return status;
}
