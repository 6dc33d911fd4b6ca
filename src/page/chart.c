#include "page/chart.h"

#include <math.h>

/* Pixels: height of a line of a legend, and width of the sample at its beginning. */
enum { KEY_HEIGHT = 20, KEY_WIDTH = 34 };

const tri_chart_form tri_chart_large = {
    .width = 880, .height = 500, .left = 72, .right = 28, .top = 56, .bottom = 58, .title_px = 17};
const tri_chart_form tri_chart_medium = {.width = 680, .height = 270, .left = 72, .right = 14, .top = 12, .bottom = 54};
const tri_chart_form tri_chart_small = {
    .width = 330, .height = 172, .left = 52, .right = 8, .top = 24, .bottom = 36, .title_px = 12, .css = "panel"};

static int right_edge(const tri_chart *c) { return c->form.width - c->form.right; }
static int lower_edge(const tri_chart *c) { return c->form.height - c->form.bottom; }

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

/* Begins the SVG element, with a white ground and the title. `xmlns`: the namespace attribute, which a file needs; ""
 * in a page. */
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

void tri_chart_end(const tri_chart *chart) { fprintf(chart->svg, "</svg>\n"); }

tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path) {
  *chart = (tri_chart){.form = tri_chart_large};
  TRI_TRY(tri_page_open(&chart->file, path));
  chart->svg = chart->file.to;
  begin(chart, " xmlns=\"http://www.w3.org/2000/svg\"", title);
  return TRI_OK;
}

tri_status tri_chart_close(tri_chart *chart, const char *path) {
  tri_chart_end(chart);
  return tri_page_close(&chart->file, path, TRI_OK);
}

/* ---- axes -------------------------------------------------------------------------------------------------------- */

void tri_chart_span_add(tri_chart_span *span, double value) {
  if (!isfinite(value)) return;
  span->low = fmin(span->low, value);
  span->high = fmax(span->high, value);
}

bool tri_chart_is_wide(tri_chart_span span) { return span.low > 0 && span.high / span.low > 10; }

static tri_chart_axis axis_between(double start, double end, tri_chart_span span, const char *name) {
  return (tri_chart_axis){.plot = {.low = span.low, .high = span.high, .start = start, .size = end - start},
                          .name = name};
}

void tri_chart_set_across(tri_chart *c, const char *name, tri_chart_span span, bool whole) {
  if (!(span.high > span.low)) span.low -= 1, span.high += 1;
  c->x = axis_between(c->form.left, right_edge(c), span, name);
  c->x.plot.whole = whole;
}

void tri_chart_set_across_logarithmic(tri_chart *c, const char *name, tri_chart_span span) {
  const double factor = pow(span.high / span.low, 0.03) * 1.05;
  c->x = axis_between(c->form.left, right_edge(c), (tri_chart_span){span.low / factor, span.high * factor}, name);
  c->x.plot.logarithmic = true;
}

void tri_chart_set_values(tri_chart *c, const char *name, tri_chart_span span, bool logarithmic) {
  if (!(span.high >= span.low)) span = (tri_chart_span){0, 1};
  const double wide = span.high - span.low, factor = logarithmic ? pow(span.high / span.low, 0.05) : 1;
  const double pad = logarithmic ? 0 : wide > 0 ? 0.05 * wide : 0.5;
  span = (tri_chart_span){(span.low - pad) / factor, (span.high + pad) * factor};
  c->y = axis_between(lower_edge(c), c->form.top, span, name);
  c->y.plot.logarithmic = logarithmic;
}

static void set_words(tri_chart_axis *axis, double start, double end, const char *const *words, int64_t count) {
  *axis = axis_between(start, end, (tri_chart_span){-0.5, (double)count - 0.5}, NULL);
  axis->words = words;
  axis->num_words = count;
}

void tri_chart_set_words_across(tri_chart *c, const char *const *words, int64_t count) {
  set_words(&c->x, c->form.left, right_edge(c), words, count);
}

void tri_chart_set_words_down(tri_chart *c, const char *const *words, int64_t count) {
  set_words(&c->y, c->form.top, lower_edge(c), words, count);
}

double tri_chart_x(const tri_chart *chart, double value) { return tri_plot_place(&chart->x.plot, value); }
double tri_chart_y(const tri_chart *chart, double value) { return tri_plot_place(&chart->y.plot, value); }

/* Draws the label of a tick, and a grid line if the axis has numbers. Labels of the x axis are below the axis, or at
 * the lower edge of the picture if the axis has no title. */
static void draw_tick(const tri_chart *c, const tri_chart_axis *axis, double value, const char *text) {
  const tri_chart_form *f = &c->form;
  const bool across = axis == &c->x;
  const double at = tri_plot_place(&axis->plot, value);
  if (axis->words == NULL) {
    fprintf(c->svg, "<line stroke=\"#dde3ea\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
            across ? at : f->left, across ? f->top : at, across ? at : right_edge(c), across ? lower_edge(c) : at);
  }
  if (across) {
    tri_chart_text(c, "", at, axis->name != NULL ? lower_edge(c) + 20 : f->height - 9, "middle", text);
  } else {
    tri_chart_text(c, "", f->left - 8, at + 4.5, "end", text);
  }
}

static void draw_ticks(const tri_chart *c, const tri_chart_axis *axis, int tick_px, int word_px) {
  double ticks[TRI_PLOT_TICKS];
  char text[32];
  const int length = (int)fabs(axis->plot.size);
  const int64_t every = 1 + axis->num_words * word_px / length;
  for (int64_t i = 0; i < axis->num_words; i += every) draw_tick(c, axis, (double)i, axis->words[i]);
  const int count = axis->words != NULL ? 0 : tri_plot_ticks(&axis->plot, length / tick_px, ticks);
  for (int i = 0; i < count; i++) {
    snprintf(text, sizeof text, "%.12g", ticks[i]);
    draw_tick(c, axis, ticks[i], text);
  }
}

void tri_chart_draw_axes(const tri_chart *c) {
  const tri_chart_form *f = &c->form;
  const int width = right_edge(c) - f->left, height = lower_edge(c) - f->top;
  draw_ticks(c, &c->x, 100, 34);
  draw_ticks(c, &c->y, 50, 18);
  tri_chart_box(c, "fill=\"none\" stroke=\"#8a949e\"", f->left, f->top, width, height);
  if (c->x.name != NULL) tri_chart_text(c, "", f->left + width / 2.0, f->height - 10, "middle", c->x.name);
  if (c->y.name == NULL) return;
  char look[64], name[96];
  const int middle = f->top + height / 2;
  snprintf(look, sizeof look, "transform=\"rotate(-90 18 %d)\"", middle);
  snprintf(name, sizeof name, "%s%s", c->y.name, c->y.plot.logarithmic ? " (logarithmic)" : "");
  tri_chart_text(c, look, 18, middle, "middle", name);
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

tri_chart_line tri_chart_line_begin(const tri_chart *chart, const char *look) {
  fprintf(chart->svg, "<path %s d=\"", look);
  return (tri_chart_line){.chart = chart};
}

void tri_chart_line_to(tri_chart_line *line, double x, double y) {
  const double at_x = tri_chart_x(line->chart, x), at_y = tri_chart_y(line->chart, y);
  const bool drawn = isfinite(at_x) && isfinite(at_y);
  if (drawn) fprintf(line->chart->svg, "%s%.1f %.1f", line->down ? "L" : "M", at_x, at_y);
  line->down = drawn;
}

void tri_chart_line_end(tri_chart_line *line) { fprintf(line->chart->svg, "\"/>\n"); }

void tri_chart_segment(const tri_chart *c, const char *look, double x1, double y1, double x2, double y2) {
  fprintf(c->svg, "<line %s x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", look, tri_chart_x(c, x1),
          tri_chart_y(c, y1), tri_chart_x(c, x2), tri_chart_y(c, y2));
}

/* Ends an element that is open up to its last attribute, with an optional tooltip. */
static void end_mark(const tri_chart *c, const char *tag, const char *title) {
  fputs(title == NULL ? "/>\n" : "><title>", c->svg);
  if (title == NULL) return;
  tri_html_text(title, c->svg);
  fprintf(c->svg, "</title></%s>\n", tag);
}

void tri_chart_dot(const tri_chart *c, const char *look, double radius, double x, double y, const char *title) {
  const double at_x = tri_chart_x(c, x), at_y = tri_chart_y(c, y);
  if (!isfinite(at_x) || !isfinite(at_y)) return;
  fprintf(c->svg, "<circle %s cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"", look, at_x, at_y, radius);
  end_mark(c, "circle", title);
}

void tri_chart_diamond(const tri_chart *c, const char *look, double x, double y, const char *title) {
  const double at_x = tri_chart_x(c, x), at_y = tri_chart_y(c, y);
  if (!isfinite(at_x) || !isfinite(at_y)) return;
  fprintf(c->svg, "<path %s d=\"M%.1f %.1fl6 6 -6 6 -6 -6z\"", look, at_x, at_y - 6);
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
  c->key_y = at_the_bottom ? lower_edge(c) - height - 6 : c->form.top + 6;
  tri_chart_box(c, "fill=\"white\" fill-opacity=\"0.85\"", right_edge(c) - 12 - width, c->key_y, width + 4, height);
  c->key_y += 16;
}

void tri_chart_draw_key(tri_chart *c, const char *look, const char *dot, const char *text) {
  /* The text ends at the sample, so that it stays in the chart if a page on a narrow screen has larger letters. */
  const int x = right_edge(c) - KEY_WIDTH, y = c->key_y - 4;
  fprintf(c->svg, "<line %s x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n", look, x, y, x + KEY_WIDTH - 8, y);
  if (dot != NULL) fprintf(c->svg, "<circle %s cx=\"%d\" cy=\"%d\" r=\"3\"/>\n", dot, x + KEY_WIDTH / 2 - 4, y);
  tri_chart_text(c, "", x - 8, c->key_y, "end", text);
  c->key_y += KEY_HEIGHT;
}
