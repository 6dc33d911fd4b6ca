/* A chart as SVG: two axes with ticks and a grid, a title, a legend, lines, dots, boxes and texts. All pictures of
 * runs, comparisons, checkpoints and studies are drawn with it.
 *
 * Call order: open or begin, the axes, tri_chart_draw_axes, the contents, close or end. Positions are values of the two
 * axes, if not described as pixels. A `look` is SVG attributes: "fill=\"#1f5fa8\"", or "class=\"best\"" in a page of
 * page/html.h, which has styles for some classes. The functions escape texts. */
#ifndef TRI_PAGE_CHART_H
#define TRI_PAGE_CHART_H

#include "base/plot_axis.h"
#include "page/html.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* Sizes in pixels. The plot is inside the margins. */
typedef struct tri_chart_form {
  int width, height;
  int left, right, top, bottom;
  int title_px;    /* font size of the title; 0: only for screen readers (aria-label) */
  const char *css; /* class of the whole chart, or NULL */
} tri_chart_form;

/* tri_chart_large: form of a picture in a file, or of one as wide as a page. tri_chart_medium: form of a plot below a
 * heading of a page. tri_chart_small: form of one of several small plots. */
extern const tri_chart_form tri_chart_large, tri_chart_medium, tri_chart_small;

typedef struct tri_chart_axis {
  tri_plot_axis plot;
  const char *name;         /* title of the axis, borrowed; NULL: none */
  const char *const *words; /* [num_words], borrowed: labels at 0, 1, 2, ...; NULL: numbers, and grid lines */
  int64_t num_words;
} tri_chart_axis;

typedef struct tri_chart {
  FILE *svg;
  tri_chart_form form;
  tri_chart_axis x, y;
  int key_y;     /* pixels: position of the next line of the legend */
  tri_page file; /* output of `svg`, unless the chart is in a page */
} tri_chart;

/* LOCAL. Begins a chart of the form tri_chart_large in its own file; tri_chart_close writes the file. Call
 * tri_chart_close after each successful tri_chart_open. */
tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path);
tri_status tri_chart_close(tri_chart *chart, const char *path);

/* Begins and ends a chart in a page. */
void tri_chart_begin(tri_chart *chart, const tri_chart_form *form, const char *title, FILE *page);
void tri_chart_end(const tri_chart *chart);

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* Lowest and highest of the values added so far; starts as TRI_CHART_NO_SPAN. Values that are not finite are
 * ignored. */
typedef struct tri_chart_span {
  double low, high;
} tri_chart_span;
#define TRI_CHART_NO_SPAN ((tri_chart_span){INFINITY, -INFINITY})
void tri_chart_span_add(tri_chart_span *span, double value);

/* Returns whether the values span more than a factor of ten, so that a logarithmic axis is better. */
bool tri_chart_is_wide(tri_chart_span span);

/* Sets the x axis, without margins; a single value is in the middle. `whole`: ticks only at integers. */
void tri_chart_set_across(tri_chart *chart, const char *name, tri_chart_span span, bool whole);
/* Sets a logarithmic x axis with margins on both sides: 0 < span.low. */
void tri_chart_set_across_logarithmic(tri_chart *chart, const char *name, tri_chart_span span);
/* Sets the y axis with margins; from 0 to 1 if the span is empty. `logarithmic` needs span.low > 0. */
void tri_chart_set_values(tri_chart *chart, const char *name, tri_chart_span span, bool logarithmic);
/* Set an axis with a label for each of 0, 1, ..., count - 1: from left to right, or from top to bottom. */
void tri_chart_set_words_across(tri_chart *chart, const char *const *words, int64_t count);
void tri_chart_set_words_down(tri_chart *chart, const char *const *words, int64_t count);

/* Draws ticks, grid, frame, and the titles of the axes. */
void tri_chart_draw_axes(const tri_chart *chart);

/* Return the pixel position of a value. */
double tri_chart_x(const tri_chart *chart, double value);
double tri_chart_y(const tri_chart *chart, double value);

/* ---- contents ---------------------------------------------------------------------------------------------------- */

/* Looks of a curve and of its dots. The colour is a string literal: "#1f5fa8". */
#define TRI_CHART_CURVE(colour) "fill=\"none\" stroke-linejoin=\"round\" stroke-width=\"2\" stroke=\"" colour "\""
#define TRI_CHART_DOTS(colour) "fill=\"" colour "\""

/* A curve through points, with gaps at points that are not finite. */
typedef struct tri_chart_line {
  const tri_chart *chart;
  bool down; /* whether the previous point was drawn */
} tri_chart_line;
/* Call order: begin, any number of points, end. */
tri_chart_line tri_chart_line_begin(const tri_chart *chart, const char *look);
void tri_chart_line_to(tri_chart_line *line, double x, double y);
void tri_chart_line_end(tri_chart_line *line);

void tri_chart_segment(const tri_chart *chart, const char *look, double x1, double y1, double x2, double y2);

/* Draw a dot or a diamond. `title` is a tooltip; NULL: none. The radius is in pixels. A mark at a position that is not
 * finite is not drawn. */
void tri_chart_dot(const tri_chart *chart, const char *look, double radius, double x, double y, const char *title);
void tri_chart_diamond(const tri_chart *chart, const char *look, double x, double y, const char *title);

/* Draw a rectangle or a text. Positions and sizes are in pixels. `anchor`: the part of the text that is at x: start,
 * middle or end. */
void tri_chart_box(const tri_chart *chart, const char *look, double x, double y, double width, double height);
void tri_chart_text(const tri_chart *chart, const char *look, double x, double y, const char *anchor, const char *text);

/* Begins a legend at the right, at the top or the bottom, for `rows` texts of at most `letters` letters.
 * tri_chart_draw_key adds a line with the look of a series, and a dot if `dot` is not NULL. */
void tri_chart_draw_legend(tri_chart *chart, bool at_the_bottom, int64_t rows, int letters);
void tri_chart_draw_key(tri_chart *chart, const char *look, const char *dot, const char *text);

#endif
