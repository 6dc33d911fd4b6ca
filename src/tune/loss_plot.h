/* A plot of the loss (tri_objective_loss_name) over one parameter, for the page of a study. */
#ifndef TRI_TUNE_LOSS_PLOT_H
#define TRI_TUNE_LOSS_PLOT_H

#include "tune/study.h"

#include <stdio.h>

/* A trial's loss after `steps` steps. */
typedef struct tri_loss_mark {
  const tri_point *point;
  int64_t number, steps;
  double loss;
} tri_loss_mark;

/* Draws marks[count], which are sorted by their steps, below a heading. Each number of steps has its own colour. If
 * `knob` is the study's only parameter and is not a category, a line connects the marks of a colour. */
void tri_loss_plot(const tri_study *study, int64_t knob, const tri_loss_mark *marks, int64_t count, FILE *to);

#endif
