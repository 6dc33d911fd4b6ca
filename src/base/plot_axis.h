/* An axis of a picture: where values lie, and which of them have a tick. How it is drawn is the picture's. */
#ifndef TRI_BASE_PLOT_AXIS_H
#define TRI_BASE_PLOT_AXIS_H

#include <stdbool.h>

typedef struct tri_plot_axis {
  double low, high;   /* values at the two ends, low < high */
  double start, size; /* pixels; a negative size goes upward */
  bool logarithmic;   /* 0 < low */
  bool whole;         /* ticks at whole numbers alone */
} tri_plot_axis;

enum { TRI_PLOT_TICKS = 64 };

/* In pixels; outside of them for values outside. */
double tri_plot_place(const tri_plot_axis *axis, double value);

/* Values at which ticks stand, from low to high, about `wanted` of them at distances of 1, 2 or 5 times a power of ten;
 * on a logarithmic axis 1, 2, 3 and 5 times each power of ten, over more than three decades the powers alone, and where
 * those are fewer than two as on another. Returns how many; 0 if the ends are not a range. */
int tri_plot_ticks(const tri_plot_axis *axis, int wanted, double out[TRI_PLOT_TICKS]);

#endif
