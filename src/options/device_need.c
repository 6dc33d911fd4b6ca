#include "options/device_need.h"

#include "base/format.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* MOST: largest number of devices that is tried, if the cluster's file has none. LONGER: number of rows in succession
 * that do not shorten the run, after which no larger numbers are tried. */
enum { MOST = 1 << 20, LONGER = 8 };

/* The search in progress. */
typedef struct need {
  const tri_plan_options *options;
  const tri_device_range *of;
  double days;
  tri_device_row *rows; /* [count], in the order in which they were tried */
  int64_t count, room;
} need;

static int64_t most_devices(const tri_plan_options *o) {
  return o->cluster.max_devices > 0 ? o->cluster.max_devices : MOST;
}

/* Returns the number after `number` in the series 1, 2, ..., 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ... */
static int64_t next_of_series(int64_t number) {
  int64_t step = 1;
  while (number >= 8 * step) step *= 2;
  return number + step;
}

/* Returns the number of devices that is tried after `devices`: those of the series up to a node, and then whole nodes,
 * whose number is of the series. */
static int64_t next_number(const tri_plan_options *o, int64_t devices) {
  const int64_t node = o->cluster.node_devices;
  if (devices >= node) return next_of_series(devices / node) * node;
  const int64_t next = next_of_series(devices);
  return next < node ? next : node;
}

static bool suffices(const need *n, const tri_device_row *row) { return row->status == TRI_OK && row->days <= n->days; }

/* Adds the row of a number. *out is valid until the next call. */
static tri_status try_number(need *n, int64_t devices, const tri_device_row **out) {
  TRI_TRY(tri_grow("numbers of devices", sizeof *n->rows, n->count, &n->room, &n->rows));
  tri_device_row *row = &n->rows[n->count];
  TRI_TRY(tri_device_range_ask(n->options, n->of, devices, row));
  n->count++;
  *out = row;
  return TRI_OK;
}

/* Returns the number of devices to try after a row that does not suffice. A run with few devices is seldom faster for
 * each device by more than a factor of 1.4, so numbers that would need a larger factor are passed over. */
static int64_t jump(const need *n, const tri_device_row *row) {
  const double least = row->status == TRI_OK ? (double)row->devices * row->days / n->days / 1.4 : 0;
  int64_t next = next_number(n->options, row->devices);
  for (int64_t other = next; (double)other <= least && other <= most_devices(n->options);
       other = next_number(n->options, other))
    next = other;
  return next;
}

/* Tries numbers between `low`, which does not suffice, and `*high`, which does, by halving the list of the numbers in
 * between. */
static tri_status narrow(need *n, int64_t low, int64_t *high) {
  for (;;) {
    int64_t between = 0, middle = low;
    for (int64_t d = low == 0 ? 1 : next_number(n->options, low); d < *high; d = next_number(n->options, d)) between++;
    if (between == 0) return TRI_OK;
    for (int64_t i = 0; i <= between / 2; i++) middle = middle == 0 ? 1 : next_number(n->options, middle);
    const tri_device_row *row = NULL;
    TRI_TRY(try_number(n, middle, &row));
    if (suffices(n, row)) {
      *high = middle;
    } else {
      low = middle;
    }
  }
}

/* Sets *out to the smallest number found; 0 if none suffices. */
static tri_status find_any(need *n, int64_t *out) {
  const int64_t most = most_devices(n->options);
  const tri_device_row *row = NULL;
  int64_t low = 0, at = n->options->cluster.node_devices;
  double shortest = INFINITY;
  bool fitted = false;
  int longer = 0;
  *out = 0;
  if (at > most) at = 1;
  while (at <= most && longer < LONGER) {
    TRI_TRY(try_number(n, at, &row));
    if (suffices(n, row)) {
      *out = at;
      return narrow(n, low, out);
    }
    if (row->status == TRI_BAD_LAYOUT && fitted) return TRI_OK; /* too many devices for the batch and the layers */
    fitted = fitted || row->status == TRI_OK;
    longer = !fitted || (row->status == TRI_OK && row->days < shortest) ? 0 : longer + 1;
    if (row->status == TRI_OK) shortest = fmin(shortest, row->days);
    low = at;
    at = jump(n, row);
  }
  return TRI_OK;
}

static tri_status find_in_range(need *n, int64_t *out) {
  const tri_plan_options *o = n->options;
  const tri_device_row *row = NULL;
  *out = 0;
  TRI_TRY(tri_device_range_check(o));
  for (int64_t at = o->devices; at <= o->devices_to; at = tri_device_range_next(o, at)) {
    TRI_TRY(try_number(n, at, &row));
    if (!suffices(n, row)) continue;
    *out = at;
    return TRI_OK;
  }
  return TRI_OK;
}

static int compare_rows(const void *left, const void *right) {
  const tri_device_row *a = left, *b = right;
  return (a->devices > b->devices) - (a->devices < b->devices);
}

static tri_status none_suffices(const need *n) {
  const tri_device_row *best = NULL, *last = NULL;
  char tokens[32], devices[32];
  tri_format_count(n->options->tokens, tokens, sizeof tokens);
  for (int64_t i = 0; i < n->count; i++) {
    last = &n->rows[i];
    if (last->status == TRI_OK && (best == NULL || last->days < best->days)) best = last;
  }
  if (last == NULL) return tri_fail_internal("--days has tried no number of devices");
  if (best == NULL) {
    return tri_fail(last->status,
                    "no number of devices of %s that was tried trains %s tokens in %g days: with %s, %s: %s",
                    n->options->cluster.name, tokens, n->days,
                    tri_format_grouped(last->devices, devices, sizeof devices), n->of->nothing, last->reason);
  }
  return tri_fail(TRI_BAD_LAYOUT,
                  "no number of devices of %s that was tried trains %s tokens in %g days: the shortest run takes %.1f "
                  "days, on %s devices; give more --days, fewer --tokens or a larger --global-batch",
                  n->options->cluster.name, tokens, n->days, best->days,
                  tri_format_grouped(best->devices, devices, sizeof devices));
}

static tri_status find_and_print(need *n, int64_t *devices) {
  char title[160], tokens[32];
  tri_device_range of = *n->of;
  TRI_TRY(n->options->devices_to > 0 ? find_in_range(n, devices) : find_any(n, devices));
  if (*devices == 0) return none_suffices(n);
  snprintf(title, sizeof title, "the fewest devices that train %s tokens in %g days",
           tri_format_count(n->options->tokens, tokens, sizeof tokens), n->days);
  of.title = title;
  qsort(n->rows, (size_t)n->count, sizeof *n->rows, compare_rows);
  for (int64_t i = 0; i < n->count; i++) n->rows[i].chosen = n->rows[i].devices == *devices;
  return tri_device_range_print_rows(n->options, &of, n->rows, n->count);
}

tri_status tri_device_need(const tri_plan_options *options, const tri_device_range *of, double days, int64_t *devices) {
  need n = {.options = options, .of = of, .days = days};
  const tri_status status = find_and_print(&n, devices);
  tri_free(n.rows);
  return status;
}
