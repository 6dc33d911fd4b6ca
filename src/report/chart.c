#include "report/chart.h"

#include "base/file.h"
#include "report/html.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GRID_LOOK "stroke=\"#dde3ea\""

/* Pixels. The wanted distance of ticks on each axis, the height of a legend's line and the width of its sample. */
enum { TICK_WIDTH = 100, WORD_WIDTH = 34, TICK_HEIGHT = 50, KEY_HEIGHT = 20, KEY_WIDTH = 34 };

const tri_chart_form tri_chart_large = {
    .width = 880, .height = 500, .left = 72, .right = 28, .top = 56, .bottom = 58, .title_px = 17};
const tri_chart_form tri_chart_medium = {.width = 680, .height = 270, .left = 72, .right = 14, .top = 12, .bottom = 54};
const tri_chart_form tri_chart_small = {
    .width = 330, .height = 172, .left = 52, .right = 8, .top = 24, .bottom = 36, .title_px = 12, .css = "panel"};

static int right_edge(const tri_chart *c) { return c->form.width - c->form.right; }
static int lower_edge(const tri_chart *c) { return c->form.height - c->form.bottom; }

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

/* A file says that it is SVG by `xmlns`; in a page that goes without saying. */
static void begin(tri_chart *c, const char *xmlns, const char *title) {
  const tri_chart_form *f = &c->form;
  fprintf(c->svg, "<svg");
  if (f->css != NULL) fprintf(c->svg, " class=\"%s\"", f->css);
  fprintf(c->svg,
          "%s width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, 'DejaVu Sans', "
          "sans-serif\" font-size=\"13\" fill=\"#222222\" role=\"img\" aria-label=\"",
          xmlns, f->width, f->height, f->width, f->height);
  tri_html_text(title, c->svg);
  fprintf(c->svg, "\">\n");
  tri_chart_box(c, "fill=\"white\"", 0, 0, f->width, f->height);
  if (f->title_px == 0) return;
  char look[48];
  snprintf(look, sizeof look, "font-size=\"%d\"%s", f->title_px, f->title_px < 16 ? " font-weight=\"bold\"" : "");
  tri_chart_text(c, look, f->left, f->top * 4 / 7.0, "start", title);
}

void tri_chart_begin(tri_chart *chart, const tri_chart_form *form, const char *title, FILE *page) {
  *chart = (tri_chart){.svg = page, .form = *form};
  begin(chart, "", title);
}

void tri_chart_end(tri_chart *chart) {
  fprintf(chart->svg, "</svg>\n");
  chart->svg = NULL;
}

tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path) {
  *chart = (tri_chart){.form = tri_chart_large};
  chart->svg = open_memstream(&chart->text, &chart->bytes);
  if (chart->svg == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", path, strerror(errno));
  begin(chart, " xmlns=\"http://www.w3.org/2000/svg\"", title);
  return TRI_OK;
}

tri_status tri_chart_close(tri_chart *chart, const char *path) {
  FILE *svg = chart->svg;
  if (svg == NULL) return TRI_OK;
  tri_chart_end(chart);
  tri_status status = TRI_OK;
  if (fclose(svg) != 0) status = tri_fail(TRI_OUT_OF_MEMORY, "no memory to draw %s: %s", path, strerror(errno));
  if (status == TRI_OK) status = tri_file_replace(path, chart->text, chart->bytes);
  free(chart->text);
  *chart = (tri_chart){0};
  return status;
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

void tri_chart_span_add(tri_chart_span *span, double value) {
  if (!isfinite(value)) return;
  span->low = fmin(span->low, value);
  span->high = fmax(span->high, value);
}

bool tri_chart_is_wide(tri_chart_span span) { return span.low > 0 && span.high / span.low > 10; }

void tri_chart_set_across(tri_chart *chart, const char *name, tri_chart_span span, bool whole) {
  if (!(span.high > span.low)) span.low -= 1, span.high += 1;
  chart->x = (tri_chart_axis){.plot = {.low = span.low,
                                       .high = span.high,
                                       .start = chart->form.left,
                                       .size = right_edge(chart) - chart->form.left,
                                       .whole = whole},
                              .name = name};
}

void tri_chart_set_values(tri_chart *chart, const char *name, tri_chart_span span, bool logarithmic) {
  if (!(span.high >= span.low)) span = (tri_chart_span){0, 1};
  const double pad = logarithmic            ? pow(span.high / span.low, 0.05)
                     : span.high > span.low ? 0.05 * (span.high - span.low)
                                            : 0.5;
  chart->y = (tri_chart_axis){.plot = {.low = logarithmic ? span.low / pad : span.low - pad,
                                       .high = logarithmic ? span.high * pad : span.high + pad,
                                       .start = lower_edge(chart),
                                       .size = chart->form.top - lower_edge(chart),
                                       .logarithmic = logarithmic},
                              .name = name};
}

void tri_chart_set_words_across(tri_chart *chart, const char *const *words, int64_t count) {
  tri_chart_set_across(chart, NULL, (tri_chart_span){-0.5, (double)count - 0.5}, true);
  chart->x.words = words;
  chart->x.num_words = count;
}

void tri_chart_set_words_down(tri_chart *chart, const char *const *words, int64_t count) {
  chart->y = (tri_chart_axis){.plot = {.low = -0.5,
                                       .high = (double)count - 0.5,
                                       .start = chart->form.top,
                                       .size = lower_edge(chart) - chart->form.top},
                              .words = words,
                              .num_words = count};
}

double tri_chart_x(const tri_chart *chart, double value) { return tri_plot_place(&chart->x.plot, value); }
double tri_chart_y(const tri_chart *chart, double value) { return tri_plot_place(&chart->y.plot, value); }

/* Below the axis; where that has no name, above the lower edge of the picture. */
static void draw_tick_x(const tri_chart *c, double value, const char *text) {
  tri_chart_text(c, "", tri_chart_x(c, value), c->x.name != NULL ? lower_edge(c) + 20 : c->form.height - 9, "middle",
                 text);
}

static void draw_ticks_x(const tri_chart *c) {
  double ticks[TRI_PLOT_TICKS];
  char text[32];
  const int width = right_edge(c) - c->form.left;
  const int64_t apart = 1 + c->x.num_words * WORD_WIDTH / width;
  for (int64_t i = 0; i < c->x.num_words; i += apart) draw_tick_x(c, (double)i, c->x.words[i]);
  const int count = c->x.words != NULL ? 0 : tri_plot_ticks(&c->x.plot, width / TICK_WIDTH, ticks);
  for (int i = 0; i < count; i++) {
    const double x = tri_chart_x(c, ticks[i]);
    fprintf(c->svg, "<line " GRID_LOOK " x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x, c->form.top, x,
            lower_edge(c));
    snprintf(text, sizeof text, "%.12g", ticks[i]);
    draw_tick_x(c, ticks[i], text);
  }
}

static void draw_ticks_y(const tri_chart *c) {
  double ticks[TRI_PLOT_TICKS];
  char text[32];
  const int left = c->form.left;
  for (int64_t i = 0; i < c->y.num_words; i++) {
    tri_chart_text(c, "", left - 8, tri_chart_y(c, (double)i) + 4.5, "end", c->y.words[i]);
  }
  const int count =
      c->y.words != NULL ? 0 : tri_plot_ticks(&c->y.plot, (lower_edge(c) - c->form.top) / TICK_HEIGHT, ticks);
  for (int i = 0; i < count; i++) {
    const double y = tri_chart_y(c, ticks[i]);
    fprintf(c->svg, "<line " GRID_LOOK " x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", left, y, right_edge(c), y);
    snprintf(text, sizeof text, "%.6g", ticks[i]);
    tri_chart_text(c, "", left - 8, y + 4.5, "end", text);
  }
}

void tri_chart_draw_axes(const tri_chart *c) {
  const tri_chart_form *f = &c->form;
  const int width = right_edge(c) - f->left, height = lower_edge(c) - f->top;
  draw_ticks_x(c);
  draw_ticks_y(c);
  tri_chart_box(c, "fill=\"none\" stroke=\"#8a949e\"", f->left, f->top, width, height);
  if (c->x.name != NULL) tri_chart_text(c, "", f->left + width / 2.0, f->height - 10, "middle", c->x.name);
  if (c->y.name == NULL) return;
  char look[64], name[96];
  const int middle = f->top + height / 2;
  snprintf(look, sizeof look, "transform=\"rotate(-90 18 %d)\"", middle);
  snprintf(name, sizeof name, "%s%s", c->y.name, c->y.plot.logarithmic ? " (logarithmic)" : "");
  tri_chart_text(c, look, 18, middle, "middle", name);
}

/* ---- what is in it ----------------------------------------------------------------------------------------------- */

tri_chart_line tri_chart_line_begin(const tri_chart *chart, const char *look) {
  fprintf(chart->svg, "<path %s d=\"", look);
  return (tri_chart_line){.chart = chart};
}

void tri_chart_line_to(tri_chart_line *line, double x, double y) {
  const bool drawn = isfinite(x) && isfinite(y);
  if (drawn) {
    fprintf(line->chart->svg, "%s%.1f %.1f", line->down ? "L" : "M", tri_chart_x(line->chart, x),
            tri_chart_y(line->chart, y));
  }
  line->down = drawn;
}

void tri_chart_line_end(tri_chart_line *line) { fprintf(line->chart->svg, "\"/>\n"); }

void tri_chart_segment(const tri_chart *c, const char *look, double x1, double y1, double x2, double y2) {
  fprintf(c->svg, "<line %s x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", look, tri_chart_x(c, x1),
          tri_chart_y(c, y1), tri_chart_x(c, x2), tri_chart_y(c, y2));
}

/* Of an element that is open up to its last attribute. */
static void end_mark(const tri_chart *c, const char *tag, const char *title) {
  fputs(title == NULL ? "/>\n" : "><title>", c->svg);
  if (title == NULL) return;
  tri_html_text(title, c->svg);
  fprintf(c->svg, "</title></%s>\n", tag);
}

void tri_chart_dot(const tri_chart *c, const char *look, double radius, double x, double y, const char *title) {
  fprintf(c->svg, "<circle %s cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"", look, tri_chart_x(c, x), tri_chart_y(c, y), radius);
  end_mark(c, "circle", title);
}

void tri_chart_diamond(const tri_chart *c, const char *look, double x, double y, const char *title) {
  fprintf(c->svg, "<path %s d=\"M%.1f %.1fl6 6 -6 6 -6 -6z\"", look, tri_chart_x(c, x), tri_chart_y(c, y) - 6);
  end_mark(c, "path", title);
}

void tri_chart_box(const tri_chart *c, const char *look, double x, double y, double width, double height) {
  fprintf(c->svg, "<rect %s x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", look, x, y, width, height);
}

void tri_chart_text(const tri_chart *c, const char *look, double x, double y, const char *anchor, const char *text) {
  fprintf(c->svg, "<text %s x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", look, x, y, anchor);
  tri_html_text(text, c->svg);
  fprintf(c->svg, "</text>\n");
}

void tri_chart_draw_legend(tri_chart *c, bool at_the_bottom, int64_t rows, int letters) {
  const int width = KEY_WIDTH + (int)(7.4 * letters), height = KEY_HEIGHT * (int)rows + 6;
  c->key_x = right_edge(c) - 8 - width;
  c->key_y = at_the_bottom ? lower_edge(c) - height - 6 : c->form.top + 6;
  tri_chart_box(c, "fill=\"white\" fill-opacity=\"0.85\"", c->key_x - 4, c->key_y, width + 4, height);
  c->key_y += 16;
}

void tri_chart_draw_key(tri_chart *c, const char *look, const char *dot, const char *text) {
  const int y = c->key_y - 4;
  fprintf(c->svg, "<line %s x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", look, c->key_x, y, c->key_x + KEY_WIDTH - 8,
          y);
  if (dot != NULL) fprintf(c->svg, "<circle %s cx=\"%d\" cy=\"%d\" r=\"3\"/>\n", dot, c->key_x + KEY_WIDTH / 2 - 4, y);
  tri_chart_text(c, "", c->key_x + KEY_WIDTH, c->key_y, "start", text);
  c->key_y += KEY_HEIGHT;
}
