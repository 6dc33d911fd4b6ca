/* Shared by the HTML pages about studies. */
#ifndef TRI_TUNE_PAGE_H
#define TRI_TUNE_PAGE_H

#include "base/plot_axis.h"

#include <stdio.h>

/* Prints horizontal lines at about `wanted` ticks of a vertical axis, from x = left to right (pixels), and their values
 * on the left. */
void tri_page_axis(const tri_plot_axis *axis, int wanted, int left, int right, FILE *to);

#endif
