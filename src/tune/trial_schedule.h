/* The learning-rate schedule of trials that are judged by a loss. It is the schedule of `trireme train` for the run
 * file with the trial's number of steps: a longer warm-up is shortened as train shortens it (run/run_config.c). Trials
 * that are stopped early follow the schedule of all their steps. */
#ifndef TRI_TUNE_TRIAL_SCHEDULE_H
#define TRI_TUNE_TRIAL_SCHEDULE_H

#include "run/run_config.h"
#include "tune/study.h"

#include <stdio.h>

/* Returns the steps of a whole trial; with `method: pbt` those of all rounds. */
int64_t tri_trial_schedule_steps(const tri_study *study);

/* Reads from the run file the warm-up of a trial and of the run, and refuses a study whose first round ends within the
 * warm-up, where the highest rate always has the lowest loss. study->trial.steps must be set. */
tri_status tri_trial_schedule_read(tri_study *study, const tri_run_config *run);

/* Logs the steps and the warm-up of trials if they are not those of the run. */
void tri_trial_schedule_announce(const tri_study *study);

/* Prints the command that trains the study's run with the values of `point`, and a line for each of the optimizer's
 * parameters whose value is the highest or lowest of the space. */
void tri_trial_schedule_print_use(const tri_study *study, const tri_point *point, FILE *to);
/* Prints a line for each of values[num_knobs] within 1 % of an end of its parameter's range (`method: pbt`). */
void tri_trial_schedule_print_range_ends(const tri_study *study, const double *values, FILE *to);

#endif
