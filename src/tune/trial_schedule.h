/* The learning-rate schedule of trials that are judged by a loss. It is the schedule of `trireme train` for the run
 * file with the trial's number of steps. A warm-up that is too long for these steps is shortened as train shortens it
 * (run/run_config.c). A trial that is stopped early follows the schedule of all its steps. */
#ifndef TRI_TUNE_TRIAL_SCHEDULE_H
#define TRI_TUNE_TRIAL_SCHEDULE_H

#include "run/run_config.h"
#include "tune/study.h"

#include <stdio.h>

/* Returns the steps of a whole trial; with `method: pbt` the steps of all rounds together. */
int64_t tri_trial_schedule_steps(const tri_study *study);

/* Sets the warm-up of a trial, and the warm-up and the steps of the run, from the run file. study->trial.steps must be
 * set. Fails with TRI_BAD_CONFIG if the first round of the study ends within the warm-up, because the highest rate
 * always has the lowest loss there, and with TRI_UNSUPPORTED if the run learns from rewards. */
tri_status tri_trial_schedule_read(tri_study *study, const tri_run_config *run);

/* Logs the steps and the warm-up of trials if they are not those of the run. */
void tri_trial_schedule_announce(const tri_study *study);

/* Prints the command that trains the study's run with the values of `point`. Also prints a line for each parameter of
 * the optimizer whose value is the highest or the lowest of the space. */
void tri_trial_schedule_print_use(const tri_study *study, const tri_point *point, FILE *to);
/* Prints a line for each of values[num_knobs] that is within 1 % of an end of its parameter's range; for `method:
 * pbt`. */
void tri_trial_schedule_print_range_ends(const tri_study *study, const double *values, FILE *to);

#endif
