#include "judge/quality.h"

#include "base/memory.h"
#include "page/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *tri_quality_name(int quality) {
  return quality < TRI_NUM_CHOICE_MEASURES ? tri_choice_measure_name((tri_choice_measure)quality) : "probability";
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

typedef struct ranked {
  double value;
  int64_t index;
} ranked;

static int compare_values(const void *left, const void *right) {
  const double a = ((const ranked *)left)->value, b = ((const ranked *)right)->value;
  return (a > b) - (a < b);
}

/* Sets ranks[count] to the ranks of the values, from 1 on, minus their mean. Equal values share the mean of their
 * ranks. */
static tri_status ranks_of(const double *values, int64_t count, double *ranks) {
  ranked *order = NULL;
  TRI_TRY(tri_alloc("ranks", (size_t)count, sizeof *order, &order));
  for (int64_t i = 0; i < count; i++) order[i] = (ranked){values[i], i};
  qsort(order, (size_t)count, sizeof *order, compare_values);
  for (int64_t first = 0, end = 0; first < count; first = end) {
    while (end < count && order[end].value == order[first].value) end++;
    const double shared = (double)(first + 1 + end) / 2, mean = (double)(count + 1) / 2;
    for (int64_t i = first; i < end; i++) ranks[order[i].index] = shared - mean;
  }
  tri_free(order);
  return TRI_OK;
}

tri_status tri_rank_correlation(const double *a, const double *b, int64_t count, double *out) {
  double *ranks = NULL, both = 0, squares_a = 0, squares_b = 0;
  TRI_TRY(tri_alloc("ranks", (size_t)(2 * count), sizeof *ranks, &ranks));
  const double *ranks_b = ranks + count;
  tri_status status = ranks_of(a, count, ranks);
  if (status == TRI_OK) status = ranks_of(b, count, ranks + count);
  for (int64_t i = 0; i < count && status == TRI_OK; i++) {
    both += ranks[i] * ranks_b[i];
    squares_a += ranks[i] * ranks[i];
    squares_b += ranks_b[i] * ranks_b[i];
  }
  tri_free(ranks);
  *out = squares_a > 0 && squares_b > 0 ? both / sqrt(squares_a * squares_b) : NAN;
  return status;
}

/* ---- points ------------------------------------------------------------------------------------------------------ */

static tri_quality_point point_of(const tri_judgement *judgement, int64_t step) {
  tri_quality_point point = {.step = step, .with_end = NAN};
  for (int m = 0; m < TRI_NUM_CHOICE_MEASURES; m++) {
    point.value[m] = judgement->accuracy[m];
    point.error[m] = judgement->error[m];
  }
  point.value[TRI_NUM_CHOICE_MEASURES] = judgement->probability;
  point.error[TRI_NUM_CHOICE_MEASURES] = judgement->probability_error;
  return point;
}

static tri_status correlate(const tri_judgement *a, const tri_judgement *b, double *out) {
  double *values = NULL;
  TRI_TRY(tri_alloc("probabilities", (size_t)(2 * a->count), sizeof *values, &values));
  for (int64_t i = 0; i < a->count; i++) {
    values[i] = a->questions[i].probability;
    values[a->count + i] = b->questions[i].probability;
  }
  tri_status status = tri_rank_correlation(values, values + a->count, a->count, out);
  tri_free(values);
  return status;
}

static double deviation(const tri_quality *q, int quality) {
  const tri_quality_point *last = q->points + q->count - q->last;
  double sum = 0, squares = 0;
  if (q->last < 2) return NAN;
  for (int64_t i = 0; i < q->last; i++) sum += last[i].value[quality];
  for (int64_t i = 0; i < q->last; i++) {
    const double off = last[i].value[quality] - sum / (double)q->last;
    squares += off * off;
  }
  return sqrt(squares / (double)(q->last - 1));
}

static tri_status follow(tri_quality *q, int quality) {
  double *values = NULL;
  TRI_TRY(tri_alloc("values of checkpoints", (size_t)(2 * q->count), sizeof *values, &values));
  for (int64_t i = 0; i < q->count; i++) {
    values[i] = q->points[i].value[quality];
    values[q->count + i] = (double)q->points[i].step;
  }
  tri_status status = tri_rank_correlation(values, values + q->count, q->count, &q->with_steps[quality]);
  tri_free(values);
  q->noise[quality] = deviation(q, quality);
  return status;
}

tri_status tri_quality_of(const tri_judgement *judgements, const int64_t *steps, int64_t count, tri_quality *out) {
  out->count = count;
  out->last = count < TRI_QUALITY_LAST ? count : TRI_QUALITY_LAST;
  TRI_TRY(tri_alloc("points of quality", (size_t)count, sizeof *out->points, &out->points));
  for (int64_t i = 0; i < count; i++) {
    out->points[i] = point_of(&judgements[i], steps[i]);
    TRI_TRY(correlate(&judgements[i], &judgements[count - 1], &out->points[i].with_end));
  }
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) TRI_TRY(follow(out, quality));
  return TRI_OK;
}

void tri_quality_release(tri_quality *quality) {
  tri_free(quality->points);
  *quality = (tri_quality){0};
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

typedef struct look {
  const char *line, *dots, *band;
} look;
#define LOOK(colour)                                                                                                   \
  { TRI_CHART_CURVE(colour), TRI_CHART_DOTS(colour), TRI_CHART_DOTS(colour) " fill-opacity=\"0.10\"" }
static const look looks[TRI_NUM_QUALITIES] = {LOOK("#1f5fa8"), LOOK("#c8501e"), LOOK("#7a4fa0"), LOOK("#3a8a4d")};

static void draw_band(const tri_chart *c, const tri_quality *q, int quality) {
  bool any = false;
  /* The band of acc_norm or acc_bytes would cover that of acc, because it is as wide. */
  if (quality == TRI_CHOICE_ACC_NORM || quality == TRI_CHOICE_ACC_BYTES) return;
  for (int64_t i = 0; i < q->count; i++) any = any || isfinite(q->points[i].error[quality]);
  if (!any) return;
  tri_chart_line line = tri_chart_line_begin(c, looks[quality].band);
  for (int64_t i = 0; i < 2 * q->count; i++) { /* along the upper side of the band, and back along the lower side */
    const bool back = i >= q->count;
    const tri_quality_point *p = &q->points[back ? 2 * q->count - 1 - i : i];
    tri_chart_line_to(&line, (double)p->step, p->value[quality] + (back ? -1 : 1) * p->error[quality]);
  }
  tri_chart_line_end(&line);
}

static void draw_line(const tri_chart *c, const tri_quality *q, int quality) {
  tri_chart_line line = tri_chart_line_begin(c, looks[quality].line);
  for (int64_t i = 0; i < q->count; i++) {
    tri_chart_line_to(&line, (double)q->points[i].step, q->points[i].value[quality]);
  }
  tri_chart_line_end(&line);
  for (int64_t i = 0; i < q->count; i++) {
    tri_chart_dot(c, looks[quality].dots, 3, (double)q->points[i].step, q->points[i].value[quality], NULL);
  }
}

tri_status tri_quality_draw(const tri_quality *q, const char *title, const char *path) {
  tri_chart chart;
  tri_chart_span values = TRI_CHART_NO_SPAN;
  TRI_TRY(tri_chart_open(&chart, title, path));
  for (int64_t i = 0; i < q->count * TRI_NUM_QUALITIES; i++) {
    const tri_quality_point *p = &q->points[i / TRI_NUM_QUALITIES];
    const int quality = (int)(i % TRI_NUM_QUALITIES);
    tri_chart_span_add(&values, p->value[quality]);
    tri_chart_span_add(&values, p->value[quality] - p->error[quality]);
    tri_chart_span_add(&values, p->value[quality] + p->error[quality]);
  }
  const tri_chart_span steps = {(double)q->points[0].step, (double)q->points[q->count - 1].step};
  tri_chart_set_across(&chart, "step", steps, true);
  tri_chart_set_values(&chart, "share of the questions; probability", values, false);
  tri_chart_draw_axes(&chart);
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) draw_band(&chart, q, quality);
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) draw_line(&chart, q, quality);
  tri_chart_draw_legend(&chart, true, TRI_NUM_QUALITIES,
                        24); /* the legend is at the bottom, where rising curves leave space */
  for (int quality = 0; quality < TRI_NUM_QUALITIES; quality++) {
    char text[64];
    snprintf(text, sizeof text, "%s, now %.4f", tri_quality_name(quality), q->points[q->count - 1].value[quality]);
    tri_chart_draw_key(&chart, looks[quality].line, NULL, text);
  }
  return tri_chart_close(&chart, path);
}
