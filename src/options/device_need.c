#include "options/device_need.h"

#include "base/format.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* MOST: largest number of devices that is tried, if the cluster's file has none. LONGER: number of rows in succession
 * that do not shorten the run, after which no larger numbers are tried. JUMP: largest factor between two numbers that
 * are tried in succession. */
enum { MOST = 1 << 17, LONGER = 8, JUMP = 4 };

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

static bool was_tried(const need *n, int64_t devices) {
  for (int64_t i = 0; i < n->count; i++) {
    if (n->rows[i].devices == devices) return true;
  }
  return false;
}

/* Adds the row of a number. *out is valid until the next call. */
static tri_status try_number(need *n, int64_t devices, const tri_device_row **out) {
  TRI_TRY(tri_grow("numbers of devices", sizeof *n->rows, n->count, &n->room, &n->rows));
  tri_device_row *row = &n->rows[n->count];
  TRI_TRY(tri_device_range_ask(n->options, n->of, devices, row));
  n->count++;
  *out = row;
  return TRI_OK;
}

/* Returns a lower bound of the number of devices that is needed, from a row that fits but does not suffice: more
 * devices are seldom faster for each device by more than a factor of 1.4. */
static double least_devices(const need *n, const tri_device_row *row) {
  return (double)row->devices * row->days / n->days / 1.4;
}

/* Returns the number of devices to try after a row that does not suffice: the largest number of the series that is at
 * most `least` and at most JUMP times the row's, or the next one. The last number is that of the whole machine. */
static int64_t jump(const need *n, int64_t devices, double least) {
  const int64_t most = most_devices(n->options);
  int64_t next = next_number(n->options, devices);
  for (int64_t other = next; (double)other <= least && other <= JUMP * devices; other = next_number(n->options, other))
    next = other;
  return next > most && devices < most ? most : next;
}

/* Tries the numbers of the series from `least` on that are above `low` and below `*high`, which suffices, until one
 * suffices. */
static tri_status narrow(need *n, int64_t low, double least, int64_t *high) {
  for (int64_t at = low == 0 ? 1 : next_number(n->options, low); at < *high; at = next_number(n->options, at)) {
    const tri_device_row *row = NULL;
    if ((double)at < least || was_tried(n, at)) continue;
    TRI_TRY(try_number(n, at, &row));
    if (!suffices(n, row)) continue;
    *high = at;
    return TRI_OK;
  }
  return TRI_OK;
}

/* Sets *out to the smallest number found; 0 if none suffices. Numbers that no layout divides say nothing about smaller
 * and larger ones, so they are only passed over. */
static tri_status find_any(need *n, int64_t *out) {
  const int64_t most = most_devices(n->options);
  int64_t low = 0, at = n->options->cluster.node_devices; /* low: the largest number so far that is too small */
  double shortest = INFINITY, least = 0;
  int longer = 0;
  *out = 0;
  if (at > most) at = most;
  while (at <= most && longer < LONGER) {
    const tri_device_row *row = NULL;
    TRI_TRY(try_number(n, at, &row));
    if (suffices(n, row)) {
      *out = at;
      return narrow(n, low, least, out);
    }
    const bool fits = row->status == TRI_OK;
    if (row->status != TRI_BAD_LAYOUT) low = at;
    least = fits ? least_devices(n, row) : least;
    longer = (fits && row->days < shortest) || isinf(shortest) ? 0 : longer + 1;
    if (fits) shortest = fmin(shortest, row->days);
    at = isinf(shortest) && low > 0 ? jump(n, at, 2 * (double)at) : jump(n, at, least);
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
  const tri_device_row *best = NULL, *first = n->count == 0 ? NULL : &n->rows[0];
  char tokens[32], devices[32], days[TRI_DAYS_BYTES];
  tri_format_count(n->options->tokens, tokens, sizeof tokens);
  for (int64_t i = 0; i < n->count; i++) {
    const tri_device_row *row = &n->rows[i];
    if (row->status == TRI_OK && isfinite(row->days) && (best == NULL || row->days < best->days)) best = row;
    if (row->status == TRI_OK && first->status != TRI_OK) first = row;
  }
  if (first == NULL) return tri_fail_internal("--days has tried no number of devices");
  if (first->status == TRI_OK && best == NULL) {
    return tri_fail(TRI_BAD_LAYOUT,
                    "no number of devices of %s that was tried trains %s tokens: failures are more frequent than "
                    "progress (node_mtbf_hours, --mtbf)",
                    n->options->cluster.name, tokens);
  }
  if (best == NULL) {
    return tri_fail(first->status,
                    "no number of devices of %s that was tried trains %s tokens in %g days: with %s, %s: %s",
                    n->options->cluster.name, tokens, n->days,
                    tri_format_grouped(first->devices, devices, sizeof devices), n->of->nothing, first->reason);
  }
  return tri_fail(TRI_BAD_LAYOUT,
                  "no number of devices of %s that was tried trains %s tokens in %g days: the shortest run takes %s "
                  "days, on %s devices; give more --days, fewer --tokens or a larger --global-batch",
                  n->options->cluster.name, tokens, n->days, tri_format_days(best->days, days),
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
