/* Two axes with ticks, and words, as SVG: what pictures of a run have in common. */
#ifndef TRI_REPORT_CHART_H
#define TRI_REPORT_CHART_H

#include "base/plot_axis.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Pixels. The plot lies inside the margins. */
enum {
  TRI_CHART_WIDTH = 880,
  TRI_CHART_HEIGHT = 500,
  TRI_CHART_LEFT = 72,
  TRI_CHART_RIGHT = 28,
  TRI_CHART_TOP = 56,
  TRI_CHART_BOTTOM = 58
};

/* Starts as {0}. */
typedef struct tri_chart {
  FILE *svg;
  tri_plot_axis x, y;
  const char *across; /* what is written beneath x */
  char *text;         /* what svg writes to */
  size_t bytes;
} tri_chart;

/* LOCAL. Begins a picture with its title. It is written by tri_chart_close, which comes in any case; `path` is for
 * messages here. */
tri_status tri_chart_open(tri_chart *chart, const char *title, const char *path);
/* LOCAL. Ends the picture and replaces the file at `path` with it; or writes it into a page. */
tri_status tri_chart_close(tri_chart *chart, const char *path);
tri_status tri_chart_close_into(tri_chart *chart, FILE *page);

/* Axes that hold these values: steps from left to right, where one alone is in the middle; values upward, with some
 * room above and below, logarithmic where they span more than a factor of ten and that is allowed. */
void tri_chart_set_steps(tri_chart *chart, double first, double last);
/* The same of another quantity, which is named. */
void tri_chart_set_across(tri_chart *chart, const char *name, double first, double last);
void tri_chart_set_values(tri_chart *chart, double low, double high, bool may_be_logarithmic);

/* Ticks, frame, and the names of the axes. */
void tri_chart_draw_axes(const tri_chart *chart, const char *values);

#endif
