/* Reduces a series to as many values as a picture has columns of pixels. Each column of pixels has the lowest value,
 * the highest value and the mean of its steps, so that a single spike among a thousand steps is visible. */
#include "board/series.h"

#include <math.h>
#include <string.h>

double tri_series_place(const tri_series *s, tri_board_axis axis, int64_t i) {
  switch (axis) {
    case TRI_BOARD_AXIS_STEP: return (double)s->steps[i];
    case TRI_BOARD_AXIS_TOKENS: return (double)s->tokens[i];
    case TRI_BOARD_AXIS_TIME: return s->seconds[i];
  }
  return NAN;
}

/* Exponential mean of the values so far: sum / weight. */
typedef struct mean {
  double sum, weight;
} mean;

static double mean_after(mean *m, double keep, double value) {
  m->sum = keep * m->sum + value;
  m->weight = keep * m->weight + 1;
  return m->sum / m->weight;
}

static void bucket_add(tri_bucket *b, double value, double shown, bool smoothed) {
  b->low = b->count == 0 || value < b->low ? value : b->low;
  b->high = b->count == 0 || value > b->high ? value : b->high;
  b->count++;
  b->middle = smoothed ? shown : b->middle + (value - b->middle) / (double)b->count;
}

static void bucket_place_add(tri_bucket_place *p, double x) {
  if (p->count++ == 0) p->first = x;
  p->last = x;
}

/* Returns the column of pixels at the position x on the axis; -1 if x is outside. */
static int64_t bucket_of(const tri_bucket_request *r, double x) {
  if (!(x >= r->from && x <= r->to)) return -1;
  if (r->to == r->from) return 0;
  int64_t at = (int64_t)((x - r->from) / (r->to - r->from) * (double)r->points);
  return at < r->points ? at : r->points - 1;
}

void tri_series_buckets(const tri_series *s, const tri_bucket_request *request, tri_bucket_place *places,
                        tri_bucket *buckets) {
  tri_bucket_request r = *request;
  enum { MOST_COLUMNS = TRI_BOARD_COLUMNS + TRI_MOST_NAMED_METRICS };
  const float *values[MOST_COLUMNS];
  bool smoothed[MOST_COLUMNS];
  mean means[MOST_COLUMNS] = {{0}};
  const int64_t columns = TRI_BOARD_COLUMNS + s->num_named;
  memset(places, 0, (size_t)r.points * sizeof *places);
  memset(buckets, 0, (size_t)(r.points * columns) * sizeof *buckets);
  if (s->count == 0) return;
  if (isnan(r.from)) r.from = tri_series_place(s, r.axis, 0);
  if (isnan(r.to)) r.to = tri_series_place(s, r.axis, s->count - 1);
  const double keep = r.smoothing > 1 ? 1 - 1 / r.smoothing : 0;
  for (int64_t c = 0; c < columns; c++) {
    values[c] = tri_series_values(s, c);
    smoothed[c] = keep > 0 && tri_series_is_noisy(s, c);
  }
  for (int64_t i = 0; i < s->count; i++) {
    double x = tri_series_place(s, r.axis, i);
    int64_t at = bucket_of(&r, x);
    if (at >= 0) bucket_place_add(&places[at], x);
    for (int64_t c = 0; c < columns; c++) {
      if (values[c] == NULL) continue;
      double value = (double)values[c][i];
      if (!isfinite(value)) continue;
      double shown = smoothed[c] ? mean_after(&means[c], keep, value) : value;
      if (at >= 0) bucket_add(&buckets[c * r.points + at], value, shown, smoothed[c]);
    }
  }
}
