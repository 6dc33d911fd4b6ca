#include "report/loss_curve.h"

#include "page/chart.h"

#include <math.h>
#include <stdio.h>

enum { MAX_POINTS = 1400 };

#define TRAIN_COLOUR "#1f5fa8"
#define VALIDATION_COLOUR "#c8501e"
#define RAW_LOOK "fill=\"none\" stroke=\"" TRAIN_COLOUR "\" stroke-opacity=\"0.28\""

/* ---- curves ------------------------------------------------------------------------------------------------------ */

/* Draws the lowest and the highest loss of each group of adjacent steps (at most MAX_POINTS / 2 groups, about one for
 * each pixel), so that a spike is not lost. */
static void draw_raw(const tri_chart *c, const tri_metrics_history *h) {
  int64_t bucket = (2 * h->count + MAX_POINTS - 1) / MAX_POINTS;
  tri_chart_line line = tri_chart_line_begin(c, RAW_LOOK);
  for (int64_t first = 0; first < h->count; first += bucket) {
    int64_t end = first + bucket < h->count ? first + bucket : h->count;
    int64_t low = -1, high = -1;
    for (int64_t i = first; i < end; i++) {
      if (!isfinite(h->steps[i].loss)) continue;
      if (low < 0 || h->steps[i].loss < h->steps[low].loss) low = i;
      if (high < 0 || h->steps[i].loss > h->steps[high].loss) high = i;
    }
    int64_t a = low < high ? low : high, b = low < high ? high : low;
    if (a < 0) tri_chart_line_to(&line, 0, NAN);
    if (a >= 0) tri_chart_line_to(&line, (double)h->steps[a].step, h->steps[a].loss);
    if (b > a) tri_chart_line_to(&line, (double)h->steps[b].step, h->steps[b].loss);
  }
  tri_chart_line_end(&line);
}

/* Returns the mean of the finite losses within `half` steps of step i, centred, so that it does not lag. At the
 * beginning the window shrinks on both sides, otherwise the curve would start too flat; at the end, where the curve is
 * flat, the window is cut off. */
double tri_loss_smoothed(const tri_metrics_history *h, int64_t i) {
  int64_t half = h->count / 80 < i ? h->count / 80 : i;
  int64_t last = i + half < h->count ? i + half : h->count - 1;
  double sum = 0;
  int64_t count = 0;
  for (int64_t j = i - half; j <= last; j++) {
    if (!isfinite(h->steps[j].loss)) continue;
    sum += h->steps[j].loss;
    count++;
  }
  return count > 0 ? sum / (double)count : NAN;
}

int64_t tri_loss_next(const tri_metrics_history *h, int64_t i) {
  const int64_t stride = (h->count + MAX_POINTS / 2 - 1) / (MAX_POINTS / 2);
  return i + stride < h->count || i + 1 == h->count ? i + stride : h->count - 1;
}

static void draw_smoothed(const tri_chart *c, const tri_metrics_history *h) {
  tri_chart_line line = tri_chart_line_begin(c, TRI_CHART_CURVE(TRAIN_COLOUR));
  for (int64_t i = 0; i < h->count; i = tri_loss_next(h, i)) {
    tri_chart_line_to(&line, (double)h->steps[i].step, tri_loss_smoothed(h, i));
  }
  tri_chart_line_end(&line);
}

static void draw_validation(const tri_chart *c, const tri_metrics_history *h) {
  tri_chart_line line = tri_chart_line_begin(c, TRI_CHART_CURVE(VALIDATION_COLOUR));
  for (int64_t i = 0; i < h->count; i++) {
    if (h->steps[i].evaluated) tri_chart_line_to(&line, (double)h->steps[i].step, h->steps[i].validation_loss);
  }
  tri_chart_line_end(&line);
  for (int64_t i = 0; i < h->count; i++) {
    const tri_step_metrics *s = &h->steps[i];
    if (s->evaluated)
      tri_chart_dot(c, TRI_CHART_DOTS(VALIDATION_COLOUR), 3.2, (double)s->step, s->validation_loss, NULL);
  }
}

/* Draws the legend at the top, where a falling curve leaves room. */
static void draw_legend(tri_chart *c, const tri_metrics_history *h) {
  int64_t last = 0;
  double validation = NAN;
  char text[40];
  for (int64_t i = 0; i < h->count; i++) {
    if (isfinite(h->steps[i].loss)) last = i;
    if (h->steps[i].evaluated && isfinite(h->steps[i].validation_loss)) validation = h->steps[i].validation_loss;
  }
  tri_chart_draw_legend(c, false, isnan(validation) ? 1 : 2, 23);
  snprintf(text, sizeof text, "training, now %.4f", tri_loss_smoothed(h, last));
  tri_chart_draw_key(c, TRI_CHART_CURVE(TRAIN_COLOUR), NULL, text);
  snprintf(text, sizeof text, "validation, now %.4f", validation);
  if (!isnan(validation))
    tri_chart_draw_key(c, TRI_CHART_CURVE(VALIDATION_COLOUR), TRI_CHART_DOTS(VALIDATION_COLOUR), text);
}

tri_status tri_loss_curve_write(const tri_metrics_history *h, const char *title, const char *svg_path) {
  tri_chart chart;
  tri_chart_span loss = TRI_CHART_NO_SPAN, steps = {0, 1};
  TRI_TRY(tri_chart_open(&chart, title, svg_path));
  for (int64_t i = 0; i < h->count; i++) {
    tri_chart_span_add(&loss, h->steps[i].loss);
    if (h->steps[i].evaluated) tri_chart_span_add(&loss, h->steps[i].validation_loss);
  }
  if (h->count > 0) steps = (tri_chart_span){(double)h->steps[0].step, (double)h->steps[h->count - 1].step};
  tri_chart_set_across(&chart, "step", steps, true);
  tri_chart_set_values(&chart, "loss", loss, tri_chart_is_wide(loss));
  tri_chart_draw_axes(&chart);
  if (loss.high >= loss.low) {
    draw_raw(&chart, h);
    draw_smoothed(&chart, h);
    draw_validation(&chart, h);
    draw_legend(&chart, h);
  } else {
    tri_chart_text(&chart, "", chart.form.width / 2.0, chart.form.height / 2.0, "middle", "no finite loss yet");
  }
  return tri_chart_close(&chart, svg_path);
}
