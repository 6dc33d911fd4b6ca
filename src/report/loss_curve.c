#include "report/loss_curve.h"

#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pixels. The plot lies inside the margins. */
enum { WIDTH = 880, HEIGHT = 500, LEFT = 72, RIGHT = 28, TOP = 56, BOTTOM = 58, MAX_POINTS = 1400 };

#define TRAIN_COLOUR "#1f5fa8"
#define VALIDATION_COLOUR "#c8501e"
#define GRID_COLOUR "#e2e2e2"
#define TEXT_COLOUR "#222222"

typedef struct axis {
  double low, high;   /* values at the two ends */
  double start, size; /* pixels; a negative size goes upward */
  bool logarithmic;
} axis;

typedef struct plot {
  FILE *svg;
  const tri_metrics_history *history;
  axis x, y;
} plot;

static double place(const axis *a, double value) {
  double share = a->logarithmic ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
  return a->start + a->size * share;
}

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
  bool logarithmic = low > 0 && high / low > 10;
  double pad = logarithmic ? pow(high / low, 0.05) : high > low ? 0.05 * (high - low) : 0.5;
  p->y = (axis){.low = logarithmic ? low / pad : low - pad,
                .high = logarithmic ? high * pad : high + pad,
                .start = HEIGHT - BOTTOM,
                .size = -(HEIGHT - BOTTOM - TOP),
                .logarithmic = logarithmic};
  double first = 0, last = 1;
  if (p->history->count > 0) {
    first = (double)p->history->steps[0].step;
    last = (double)p->history->steps[p->history->count - 1].step;
  }
  if (last == first) first -= 1, last += 1;
  p->x = (axis){.low = first, .high = last, .start = LEFT, .size = WIDTH - LEFT - RIGHT};
  return any;
}

static void draw_tick_x(const plot *p, double value) {
  double x = place(&p->x, value);
  fprintf(p->svg, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"" GRID_COLOUR "\"/>\n", x, TOP, x,
          HEIGHT - BOTTOM);
  fprintf(p->svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.12g</text>\n", x, HEIGHT - BOTTOM + 20, value);
}

static void draw_tick_y(const plot *p, double value) {
  double y = place(&p->y, value);
  fprintf(p->svg, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"" GRID_COLOUR "\"/>\n", LEFT, y,
          WIDTH - RIGHT, y);
  fprintf(p->svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", LEFT - 8, y + 4.5, value);
}

/* 1, 2 or 5 times a power of ten, so that about `wanted` ticks fit the range. */
static double tick_distance(double range, int wanted) {
  double rough = range / wanted, power = pow(10, floor(log10(rough)));
  double lead = rough / power;
  return power * (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10);
}

static void draw_even_ticks(const plot *p, const axis *a, int wanted, double least,
                            void (*draw)(const plot *p, double value)) {
  double distance = fmax(tick_distance(a->high - a->low, wanted), least);
  int64_t last = llround(floor(a->high / distance));
  for (int64_t i = llround(ceil(a->low / distance)); i <= last; i++) draw(p, (double)i * distance);
}

/* 1, 2, 3 and 5 times each power of ten; over more than three decades the powers alone. */
static void draw_log_ticks(const plot *p) {
  static const double leads[] = {1, 2, 3, 5};
  int count = p->y.high / p->y.low > 1000 ? 1 : 4;
  int last = (int)floor(log10(p->y.high));
  for (int power = (int)floor(log10(p->y.low)); power <= last; power++) {
    for (int i = 0; i < count; i++) {
      double value = leads[i] * pow(10, power);
      if (value >= p->y.low && value <= p->y.high) draw_tick_y(p, value);
    }
  }
}

static void draw_axes(const plot *p) {
  draw_even_ticks(p, &p->x, 8, 1, draw_tick_x);
  if (p->y.logarithmic) {
    draw_log_ticks(p);
  } else {
    draw_even_ticks(p, &p->y, 6, 0, draw_tick_y);
  }
  fprintf(p->svg, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#777777\"/>\n", LEFT, TOP,
          WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
  fprintf(p->svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", LEFT + (WIDTH - LEFT - RIGHT) / 2,
          HEIGHT - 14);
  fprintf(p->svg, "<text x=\"18\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 18 %d)\">loss%s</text>\n",
          TOP + (HEIGHT - TOP - BOTTOM) / 2, TOP + (HEIGHT - TOP - BOTTOM) / 2,
          p->y.logarithmic ? " (logarithmic)" : "");
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
  fprintf(line->p->svg, "%s%.1f %.1f", line->down ? "L" : "M", place(&line->p->x, step), place(&line->p->y, value));
  line->down = true;
}

/* Of many steps that share a pixel, the lowest and the highest are drawn: a spike must not be lost. */
static void draw_raw(const plot *p) {
  const tri_metrics_history *h = p->history;
  int64_t bucket = (2 * h->count + MAX_POINTS - 1) / MAX_POINTS;
  pen line = {.p = p};
  fprintf(p->svg, "<path fill=\"none\" stroke=\"" TRAIN_COLOUR "\" stroke-opacity=\"0.28\" d=\"");
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
  fprintf(p->svg, "\"/>\n");
}

/* The mean of the finite losses of the steps within `half` of step i; centred, so that it does not lag. At the
 * beginning the window shrinks on both sides, else the curve would start too flat; at the end, where it is flat, it is
 * cut off. */
static double smoothed(const tri_metrics_history *h, int64_t i) {
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
  fprintf(p->svg, "<path fill=\"none\" stroke=\"" TRAIN_COLOUR "\" stroke-width=\"2\" stroke-linejoin=\"round\" d=\"");
  for (int64_t i = 0; i < h->count; i += stride) pen_to(&line, (double)h->steps[i].step, smoothed(h, i));
  if (h->count > 0) pen_to(&line, (double)h->steps[h->count - 1].step, smoothed(h, h->count - 1));
  fprintf(p->svg, "\"/>\n");
}

static void draw_validation(const plot *p) {
  const tri_metrics_history *h = p->history;
  pen line = {.p = p};
  fprintf(p->svg, "<path fill=\"none\" stroke=\"" VALIDATION_COLOUR "\" stroke-width=\"1.5\" d=\"");
  for (int64_t i = 0; i < h->count; i++) {
    if (h->steps[i].evaluated) pen_to(&line, (double)h->steps[i].step, h->steps[i].validation_loss);
  }
  fprintf(p->svg, "\"/>\n");
  for (int64_t i = 0; i < h->count; i++) {
    const tri_step_metrics *s = &h->steps[i];
    if (!s->evaluated || !isfinite(s->validation_loss)) continue;
    fprintf(p->svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"" VALIDATION_COLOUR "\"/>\n",
            place(&p->x, (double)s->step), place(&p->y, s->validation_loss));
  }
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

static void print_escaped(FILE *to, const char *text) {
  for (const char *c = text; *c != '\0'; c++) {
    switch (*c) {
      case '<': fputs("&lt;", to); break;
      case '>': fputs("&gt;", to); break;
      case '&': fputs("&amp;", to); break;
      case '"': fputs("&quot;", to); break;
      default:
        if ((unsigned char)*c >= 0x20) fputc(*c, to); /* XML has no control characters */
    }
  }
}

/* In the upper right corner, which a falling curve leaves free. */
static void draw_legend(const plot *p) {
  const tri_metrics_history *h = p->history;
  int64_t last = 0;
  double validation = NAN;
  for (int64_t i = 0; i < h->count; i++) {
    if (isfinite(h->steps[i].loss)) last = i;
    if (h->steps[i].evaluated && isfinite(h->steps[i].validation_loss)) validation = h->steps[i].validation_loss;
  }
  int x = WIDTH - RIGHT - 214, y = TOP + 22;
  fprintf(p->svg, "<rect x=\"%d\" y=\"%d\" width=\"206\" height=\"%d\" fill=\"white\" fill-opacity=\"0.85\"/>\n", x - 4,
          y - 16, isnan(validation) ? 26 : 46);
  fprintf(p->svg, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"" TRAIN_COLOUR "\" stroke-width=\"2\"/>\n", x,
          y - 4, x + 26, y - 4);
  fprintf(p->svg, "<text x=\"%d\" y=\"%d\">training, now %.4f</text>\n", x + 34, y, smoothed(h, last));
  if (isnan(validation)) return;
  y += 20;
  fprintf(p->svg, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"" VALIDATION_COLOUR "\"/>\n", x, y - 4,
          x + 26, y - 4);
  fprintf(p->svg, "<circle cx=\"%d\" cy=\"%d\" r=\"3.2\" fill=\"" VALIDATION_COLOUR "\"/>\n", x + 13, y - 4);
  fprintf(p->svg, "<text x=\"%d\" y=\"%d\">validation, now %.4f</text>\n", x + 34, y, validation);
}

static void draw(plot *p, const char *title) {
  fprintf(p->svg,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"" TEXT_COLOUR "\">\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT);
  fprintf(p->svg, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", WIDTH, HEIGHT);
  fprintf(p->svg, "<text x=\"%d\" y=\"32\" font-size=\"17\">", LEFT);
  print_escaped(p->svg, title);
  fprintf(p->svg, "</text>\n");
  bool any = choose_axes(p);
  draw_axes(p);
  if (any) {
    draw_raw(p);
    draw_smoothed(p);
    draw_validation(p);
    draw_legend(p);
  } else {
    fprintf(p->svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">no finite loss yet</text>\n", WIDTH / 2,
            HEIGHT / 2);
  }
  fprintf(p->svg, "</svg>\n");
}

tri_status tri_loss_curve_write(const tri_metrics_history *history, const char *title, const char *svg_path) {
  char *text = NULL;
  size_t bytes = 0;
  plot p = {.history = history, .svg = open_memstream(&text, &bytes)};
  if (p.svg == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", svg_path, strerror(errno));
  draw(&p, title);
  tri_status status = TRI_OK;
  if (fclose(p.svg) != 0) status = tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", svg_path, strerror(errno));
  if (status == TRI_OK) status = tri_file_replace(svg_path, text, bytes);
  free(text);
  return status;
}
