/* An axis of a plot: positions of values, and values with a tick. The caller draws the axis. */
#ifndef TRI_BASE_PLOT_AXIS_H
#define TRI_BASE_PLOT_AXIS_H

#include <stdbool.h>

typedef struct tri_plot_axis {
  double low, high;   /* values at the two ends, low < high */
  double start, size; /* position of `low` and length, in pixels; a negative size goes upward */
  bool logarithmic;   /* whether the axis is logarithmic; low must then be above 0 */
  bool whole;         /* whether ticks are only at whole numbers; for a linear axis */
} tri_plot_axis;

enum { TRI_PLOT_TICKS = 64 };

/* Returns the position of a value in pixels; values outside of [low, high] are beyond the ends. */
double tri_plot_place(const tri_plot_axis *axis, double value);

/* Computes the values of ticks, from low to high, and returns their number, at most TRI_PLOT_TICKS; 0 if low and
 * high are not a range. On a linear axis there are about `wanted` ticks, at distances of 1, 2 or 5 times a power of
 * ten. On a logarithmic axis ticks are at 1, 2, 3 and 5 times each power of ten; over more than three decades, only
 * at the powers. If fewer than two of these values are in the range, the ticks are those of a linear axis. */
int tri_plot_ticks(const tri_plot_axis *axis, int wanted, double out[TRI_PLOT_TICKS]);

#endif
