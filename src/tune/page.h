/* What the pages about studies have in common. */
#ifndef TRI_TUNE_PAGE_H
#define TRI_TUNE_PAGE_H

#include "base/plot_axis.h"

#include <stdio.h>

/* Lines across the plot at the ticks of an axis that goes upward, about `wanted` of them, from x = left to right
 * (pixels), and their values at the left. */
void tri_page_axis(const tri_plot_axis *axis, int wanted, int left, int right, FILE *to);

#endif
