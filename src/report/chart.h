/* A chart as SVG: two axes with ticks and a grid, a title, a legend, and lines, dots, boxes and words in it. All
 * pictures of a run, of runs beside each other, of checkpoints and of a study are drawn with this.
 *
 * The order: open or begin, the axes, tri_chart_draw_axes, what is in the chart, close or end. Places are values of the
 * two axes unless they are said to be pixels. A `look` is SVG attributes: "fill=\"#1f5fa8\"", or "class=\"best\"" in
 * a page of report/html.h, which has styles for some classes. Texts are escaped here. */
#ifndef TRI_REPORT_CHART_H
#define TRI_REPORT_CHART_H

#include "base/plot_axis.h"
#include "report/html.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Sizes in pixels. The plot lies inside the margins. */
typedef struct tri_chart_form {
  int width, height;
  int left, right, top, bottom;
  int title_px;    /* height of the title's letters; 0: it is only read aloud (aria-label) */
  const char *css; /* class of the whole chart, or NULL */
} tri_chart_form;

/* A picture in a file, and across a page; a plot below a heading of a page; one of several plots beside each other. */
extern const tri_chart_form tri_chart_large, tri_chart_medium, tri_chart_small;

typedef struct tri_chart_axis {
  tri_plot_axis plot;
  const char *name;         /* borrowed: written along it; NULL: nothing */
  const char *const *words; /* [num_words], borrowed: what stands at 0, 1, 2, ...; NULL: numbers, and grid lines */
  int64_t num_words;
} tri_chart_axis;

typedef struct tri_chart {
  FILE *svg;
  tri_chart_form form;
  tri_chart_axis x, y;
  int key_y;     /* pixels: the next line of the legend */
  tri_page file; /* that svg writes to, unless the chart is in a page */
} tri_chart;

/* LOCAL. A chart that becomes a file, which close writes. */
tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path);
tri_status tri_chart_close(tri_chart *chart, const char *path);

/* A chart in a page. */
void tri_chart_begin(tri_chart *chart, const tri_chart_form *form, const char *title, FILE *page);
void tri_chart_end(const tri_chart *chart);

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* The least and the greatest of values: starts as TRI_CHART_NO_SPAN. Values that are not finite are passed over. */
typedef struct tri_chart_span {
  double low, high;
} tri_chart_span;
#define TRI_CHART_NO_SPAN ((tri_chart_span){INFINITY, -INFINITY})
void tri_chart_span_add(tri_chart_span *span, double value);

/* Whether values span more than a factor of ten, so that a logarithmic axis shows them better. */
bool tri_chart_is_wide(tri_chart_span span);

/* From left to right, without a margin: one value alone is in the middle. `whole`: ticks at whole numbers alone. */
void tri_chart_set_across(tri_chart *chart, const char *name, tri_chart_span span, bool whole);
/* The same, logarithmic, with some room on both sides: 0 < span.low. */
void tri_chart_set_across_logarithmic(tri_chart *chart, const char *name, tri_chart_span span);
/* Upward, with some room below and above; from 0 to 1 if the span has no value. */
void tri_chart_set_values(tri_chart *chart, const char *name, tri_chart_span span, bool logarithmic);
/* A word for each of 0, 1, ..., count - 1, from left to right, or from the top down. */
void tri_chart_set_words_across(tri_chart *chart, const char *const *words, int64_t count);
void tri_chart_set_words_down(tri_chart *chart, const char *const *words, int64_t count);

/* Ticks, grid, frame, and the names of the axes. */
void tri_chart_draw_axes(const tri_chart *chart);

/* Pixels of a value. */
double tri_chart_x(const tri_chart *chart, double value);
double tri_chart_y(const tri_chart *chart, double value);

/* ---- what is in it ----------------------------------------------------------------------------------------------- */

/* The looks of a curve and of its dots, in a colour that is a literal: "#1f5fa8". */
#define TRI_CHART_CURVE(colour) "fill=\"none\" stroke-linejoin=\"round\" stroke-width=\"2\" stroke=\"" colour "\""
#define TRI_CHART_DOTS(colour) "fill=\"" colour "\""

/* A line through places one after the other, broken where one is not finite. */
typedef struct tri_chart_line {
  const tri_chart *chart;
  bool down; /* the pen is on the paper */
} tri_chart_line;
tri_chart_line tri_chart_line_begin(const tri_chart *chart, const char *look);
void tri_chart_line_to(tri_chart_line *line, double x, double y);
void tri_chart_line_end(tri_chart_line *line);

void tri_chart_segment(const tri_chart *chart, const char *look, double x1, double y1, double x2, double y2);

/* `title` is shown where one points at it; NULL: nothing. The radius is in pixels. A dot that has no place, of a value
 * that is not finite, is left out. */
void tri_chart_dot(const tri_chart *chart, const char *look, double radius, double x, double y, const char *title);
void tri_chart_diamond(const tri_chart *chart, const char *look, double x, double y, const char *title);

/* All in pixels. `anchor`: which part of the text is at x: start, middle or end. */
void tri_chart_box(const tri_chart *chart, const char *look, double x, double y, double width, double height);
void tri_chart_text(const tri_chart *chart, const char *look, double x, double y, const char *anchor, const char *text);

/* Begins a legend on the right, at the top or at the bottom, for `rows` texts of at most `letters` letters; then its
 * lines: how each series is drawn, with a dot on it if `dot` is not NULL. */
void tri_chart_draw_legend(tri_chart *chart, bool at_the_bottom, int64_t rows, int letters);
void tri_chart_draw_key(tri_chart *chart, const char *look, const char *dot, const char *text);

#endif
