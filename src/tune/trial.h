/* Executes one trial: a simulation, or a short run. */
#ifndef TRI_TUNE_TRIAL_H
#define TRI_TUNE_TRIAL_H

#include "tune/study.h"

/* Prefix of the corpus for `trial.random_tokens`. The corpus must exist in the parent of a trial's folder. */
#define TRI_RANDOM_TOKENS "random-tokens"

typedef struct tri_attempt tri_attempt;

/* Starts a trial of a plan. A simulated trial is finished at once. A real trial runs as a subprocess; it writes to
 * `folder`, which is removed afterwards, and uses part `part` of the cores if several trials run in parallel. Release
 * with tri_attempt_destroy, which also ends a running subprocess. */
tri_status tri_attempt_start(const tri_study *study, const tri_trial_plan *plan, const char *folder, int part,
                             tri_attempt **out);
void tri_attempt_destroy(tri_attempt *attempt);

/* Returns whether a real trial failed because of a file that it could not read or write. */
bool tri_attempt_lacks_file(const tri_attempt *attempt);

/* Returns whether the trial has ended; does not wait. If the trial has ended, sets state, value, memory, seconds,
 * node_s and reason of *trial. Running out of memory, a crash and a time-out are results, too. Ends the subprocess if
 * the trial has reached its target or its time is over. */
bool tri_attempt_ended(tri_attempt *attempt, tri_trial *trial);

/* Returns the value of the steps that were measured so far, and sets *steps to their number. Returns 0 if there are
 * none. */
double tri_attempt_value(const tri_attempt *attempt, int64_t *steps);
/* Ends the trial, and sets *trial to the result that follows from the steps measured so far. */
void tri_attempt_stop_early(tri_attempt *attempt, tri_trial *trial);

/* These functions compute values[count]: the expected value of every point before any trial; 0 if the point is not
 * valid, or does not fit in memory. tri_trial_expect simulates the points. tri_trial_bound is for spaces that are too
 * large for simulation: it computes upper bounds of the values from the planner's lower bounds of the step time. */
tri_status tri_trial_expect(const tri_study *study, const tri_point *points, int64_t count, double *values);
tri_status tri_trial_bound(const tri_study *study, const tri_point *points, int64_t count, double *values);

/* Estimates how many seconds the simulation of all points takes, from a simulation of some of them. */
tri_status tri_trial_seconds(const tri_study *study, const tri_point *points, int64_t count, double *out);

#endif
