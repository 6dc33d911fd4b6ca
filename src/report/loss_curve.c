#include "report/loss_curve.h"

#include "report/chart.h"

#include <math.h>
#include <stdio.h>

enum { MAX_POINTS = 1400 };

#define TRAIN_COLOUR "#1f5fa8"
#define VALIDATION_COLOUR "#c8501e"

typedef struct plot {
  tri_chart chart;
  const tri_metrics_history *history;
} plot;

/* ---- axes ------------------------------------------------------------------------------------------------------- */

static bool include(double value, double *low, double *high) {
  if (!isfinite(value)) return false;
  if (value < *low) *low = value;
  if (value > *high) *high = value;
  return true;
}

/* Whether there is anything to draw. */
static bool choose_axes(plot *p) {
  double low = INFINITY, high = -INFINITY;
  bool any = false;
  for (int64_t i = 0; i < p->history->count; i++) {
    const tri_step_metrics *s = &p->history->steps[i];
    any |= include(s->loss, &low, &high);
    if (s->evaluated) any |= include(s->validation_loss, &low, &high);
  }
  if (!any) low = 0, high = 1;
  tri_chart_set_values(&p->chart, low, high, true);
  double first = 0, last = 1;
  if (p->history->count > 0) {
    first = (double)p->history->steps[0].step;
    last = (double)p->history->steps[p->history->count - 1].step;
  }
  tri_chart_set_steps(&p->chart, first, last);
  return any;
}

/* ---- curves ----------------------------------------------------------------------------------------------------- */

/* A polyline that is broken where a value is missing. */
typedef struct pen {
  const plot *p;
  bool down;
} pen;

static void pen_to(pen *line, double step, double value) {
  if (!isfinite(value)) {
    line->down = false;
    return;
  }
  fprintf(line->p->chart.svg, "%s%.1f %.1f", line->down ? "L" : "M", tri_plot_place(&line->p->chart.x, step),
          tri_plot_place(&line->p->chart.y, value));
  line->down = true;
}

/* Of many steps that share a pixel, the lowest and the highest are drawn: a spike must not be lost. */
static void draw_raw(const plot *p) {
  const tri_metrics_history *h = p->history;
  int64_t bucket = (2 * h->count + MAX_POINTS - 1) / MAX_POINTS;
  pen line = {.p = p};
  fprintf(p->chart.svg, "<path fill=\"none\" stroke=\"" TRAIN_COLOUR "\" stroke-opacity=\"0.28\" d=\"");
  for (int64_t first = 0; first < h->count; first += bucket) {
    int64_t end = first + bucket < h->count ? first + bucket : h->count;
    int64_t low = -1, high = -1;
    for (int64_t i = first; i < end; i++) {
      if (!isfinite(h->steps[i].loss)) continue;
      if (low < 0 || h->steps[i].loss < h->steps[low].loss) low = i;
      if (high < 0 || h->steps[i].loss > h->steps[high].loss) high = i;
    }
    int64_t a = low < high ? low : high, b = low < high ? high : low;
    if (a < 0) {
      pen_to(&line, 0, NAN);
      continue;
    }
    pen_to(&line, (double)h->steps[a].step, h->steps[a].loss);
    if (b != a) pen_to(&line, (double)h->steps[b].step, h->steps[b].loss);
  }
  fprintf(p->chart.svg, "\"/>\n");
}

/* The mean of the finite losses of the steps within `half` of step i; centred, so that it does not lag. At the
 * beginning the window shrinks on both sides, else the curve would start too flat; at the end, where it is flat, it is
 * cut off. */
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

static void draw_smoothed(const plot *p) {
  const tri_metrics_history *h = p->history;
  int64_t stride = (h->count + MAX_POINTS / 2 - 1) / (MAX_POINTS / 2);
  pen line = {.p = p};
  fprintf(p->chart.svg,
          "<path fill=\"none\" stroke=\"" TRAIN_COLOUR "\" stroke-width=\"2\" stroke-linejoin=\"round\" d=\"");
  for (int64_t i = 0; i < h->count; i += stride) pen_to(&line, (double)h->steps[i].step, tri_loss_smoothed(h, i));
  if (h->count > 0) pen_to(&line, (double)h->steps[h->count - 1].step, tri_loss_smoothed(h, h->count - 1));
  fprintf(p->chart.svg, "\"/>\n");
}

static void draw_validation(const plot *p) {
  const tri_metrics_history *h = p->history;
  pen line = {.p = p};
  fprintf(p->chart.svg, "<path fill=\"none\" stroke=\"" VALIDATION_COLOUR "\" stroke-width=\"1.5\" d=\"");
  for (int64_t i = 0; i < h->count; i++) {
    if (h->steps[i].evaluated) pen_to(&line, (double)h->steps[i].step, h->steps[i].validation_loss);
  }
  fprintf(p->chart.svg, "\"/>\n");
  for (int64_t i = 0; i < h->count; i++) {
    const tri_step_metrics *s = &h->steps[i];
    if (!s->evaluated || !isfinite(s->validation_loss)) continue;
    fprintf(p->chart.svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"" VALIDATION_COLOUR "\"/>\n",
            tri_plot_place(&p->chart.x, (double)s->step), tri_plot_place(&p->chart.y, s->validation_loss));
  }
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* In the upper right corner, which a falling curve leaves free. */
static void draw_legend(const plot *p) {
  const tri_metrics_history *h = p->history;
  int64_t last = 0;
  double validation = NAN;
  for (int64_t i = 0; i < h->count; i++) {
    if (isfinite(h->steps[i].loss)) last = i;
    if (h->steps[i].evaluated && isfinite(h->steps[i].validation_loss)) validation = h->steps[i].validation_loss;
  }
  int x = TRI_CHART_WIDTH - TRI_CHART_RIGHT - 214, y = TRI_CHART_TOP + 22;
  fprintf(p->chart.svg, "<rect x=\"%d\" y=\"%d\" width=\"206\" height=\"%d\" fill=\"white\" fill-opacity=\"0.85\"/>\n",
          x - 4, y - 16, isnan(validation) ? 26 : 46);
  fprintf(p->chart.svg,
          "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"" TRAIN_COLOUR "\" stroke-width=\"2\"/>\n", x, y - 4,
          x + 26, y - 4);
  fprintf(p->chart.svg, "<text x=\"%d\" y=\"%d\">training, now %.4f</text>\n", x + 34, y, tri_loss_smoothed(h, last));
  if (isnan(validation)) return;
  y += 20;
  fprintf(p->chart.svg, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"" VALIDATION_COLOUR "\"/>\n", x, y - 4,
          x + 26, y - 4);
  fprintf(p->chart.svg, "<circle cx=\"%d\" cy=\"%d\" r=\"3.2\" fill=\"" VALIDATION_COLOUR "\"/>\n", x + 13, y - 4);
  fprintf(p->chart.svg, "<text x=\"%d\" y=\"%d\">validation, now %.4f</text>\n", x + 34, y, validation);
}

static void draw(plot *p) {
  const bool any = choose_axes(p);
  tri_chart_draw_axes(&p->chart, "loss");
  if (any) {
    draw_raw(p);
    draw_smoothed(p);
    draw_validation(p);
    draw_legend(p);
  } else {
    fprintf(p->chart.svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">no finite loss yet</text>\n",
            TRI_CHART_WIDTH / 2, TRI_CHART_HEIGHT / 2);
  }
}

tri_status tri_loss_curve_write(const tri_metrics_history *history, const char *title, const char *svg_path) {
  plot p = {.history = history};
  TRI_TRY(tri_chart_open(&p.chart, title, svg_path));
  draw(&p);
  return tri_chart_close(&p.chart, svg_path);
}
