/* Assigns offsets in a shared region to intervals. Each interval gets the lowest offset that is free for its whole
 * life. For this, only intervals that overlap in time matter. They are found with a tree: its leaves are the
 * intervals in the order of their first times, and each node has the latest last time of the intervals below it. n
 * intervals with m overlapping pairs take O((n + m) log n) time. A list of a thousand layers has tens of thousands
 * of intervals, and few of them live for longer than a layer. */
#include "base/count.h"
#include "base/memory.h"
#include "schedule/memory_plan.h"

#include <stdlib.h>

size_t tri_padded_bytes(size_t bytes) {
  size_t lines = tri_bytes_plus(bytes, 63) / 64;
  return tri_bytes_times(bytes >= 4096 ? lines + 5 : lines, 64);
}

typedef struct placing {
  tri_interval **order;     /* all intervals, largest first */
  tri_interval **by_first;  /* all intervals in the order of their first times: the tree's leaves */
  int64_t *place;           /* index of each interval in by_first */
  int64_t leaves;           /* a power of two */
  int64_t *latest;          /* [2 leaves]: latest last time of the placed intervals below a node; 1 is the root, 2n and
                               2n + 1 are the children of n */
  const tri_interval **met; /* placed intervals that overlap with the current one */
  int64_t num_met;
} placing;

/* Orders by size, largest first; equal sizes by time, then by index, so that the plan is the same everywhere. */
static int size_compare(const void *a, const void *b) {
  const tri_interval *x = *(const tri_interval *const *)a;
  const tri_interval *y = *(const tri_interval *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int first_compare(const void *a, const void *b) {
  const tri_interval *x = *(const tri_interval *const *)a;
  const tri_interval *y = *(const tri_interval *const *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int offset_compare(const void *a, const void *b) {
  const tri_interval *x = *(const tri_interval *const *)a;
  const tri_interval *y = *(const tri_interval *const *)b;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* ---- overlapping intervals --------------------------------------------------------------------------------------- */

static void add_to_tree(placing *p, int64_t place) {
  const int64_t last = p->by_first[place]->last;
  for (int64_t node = p->leaves + place; node > 0 && p->latest[node] < last; node /= 2) p->latest[node] = last;
}

/* Collects in p->met the placed intervals below `node` that overlap with `interval`. The node has the leaves [begin,
 * begin + width). */
static void find_met(placing *p, const tri_interval *interval, int64_t node, int64_t begin, int64_t width) {
  if (p->latest[node] < interval->first || p->by_first[begin]->first > interval->last) return;
  if (width == 1) {
    p->met[p->num_met++] = p->by_first[begin];
    return;
  }
  find_met(p, interval, 2 * node, begin, width / 2);
  find_met(p, interval, 2 * node + 1, begin + width / 2, width / 2);
}

/* ---- offsets ----------------------------------------------------------------------------------------------------- */

/* Returns the offset of the first sufficient gap between the overlapping intervals. */
static size_t lowest_offset(const placing *p, const tri_interval *interval) {
  size_t offset = 0;
  qsort(p->met, (size_t)p->num_met, sizeof *p->met, offset_compare);
  for (int64_t i = 0; i < p->num_met; i++) {
    if (tri_bytes_plus(offset, interval->bytes) <= p->met[i]->offset) break;
    size_t end = tri_bytes_plus(p->met[i]->offset, p->met[i]->bytes);
    if (end > offset) offset = end;
  }
  return offset;
}

static tri_status placing_begin(placing *p, tri_interval *intervals, int64_t count) {
  const char *const what = "the memory plan";
  p->leaves = 1;
  while (p->leaves < count) p->leaves *= 2;
  TRI_TRY(tri_alloc(what, (size_t)count, sizeof(void *), &p->order));
  TRI_TRY(tri_alloc(what, (size_t)count, sizeof(void *), &p->by_first));
  TRI_TRY(tri_alloc(what, (size_t)count, sizeof(void *), &p->met));
  TRI_TRY(tri_alloc(what, (size_t)count, sizeof *p->place, &p->place));
  TRI_TRY(tri_alloc(what, (size_t)p->leaves * 2, sizeof *p->latest, &p->latest));
  for (int64_t i = 0; i < count; i++) p->order[i] = p->by_first[i] = &intervals[i];
  qsort(p->order, (size_t)count, sizeof *p->order, size_compare);
  qsort(p->by_first, (size_t)count, sizeof *p->by_first, first_compare);
  for (int64_t i = 0; i < count; i++) p->place[p->by_first[i] - intervals] = i;
  for (int64_t i = 0; i < 2 * p->leaves; i++) p->latest[i] = INT64_MIN;
  return TRI_OK;
}

static void placing_end(placing *p) {
  tri_free(p->order);
  tri_free(p->by_first);
  tri_free(p->met);
  tri_free(p->place);
  tri_free(p->latest);
}

tri_status tri_intervals_place(tri_interval *intervals, int64_t count, size_t *bytes) {
  placing p = {.num_met = 0};
  tri_status status = TRI_OK;
  size_t region = 0;
  TRI_TRY_GOTO(placing_begin(&p, intervals, count), done);
  for (int64_t i = 0; i < count; i++) {
    tri_interval *interval = p.order[i];
    p.num_met = 0;
    find_met(&p, interval, 1, 0, p.leaves);
    interval->offset = lowest_offset(&p, interval);
    add_to_tree(&p, p.place[interval - intervals]);
    size_t end = tri_bytes_plus(interval->offset, interval->bytes);
    if (end > region) region = end;
  }
  *bytes = region;
done:
  placing_end(&p);
  return status;
}
