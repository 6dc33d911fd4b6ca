/* Carrying out one trial: the simulator, or a short run of its own. */
#ifndef TRI_TUNE_TRIAL_H
#define TRI_TUNE_TRIAL_H

#include "tune/study.h"

/* Fills in state, value, seconds and reason of a trial whose point is given. A failure of the trial is no failure of
 * this: out of memory, a crash and a time-out are results. `folder` is for what a real trial writes, and is removed
 * afterwards; `best` is the best value so far, or 0: a real trial far below it is stopped early. */
tri_status tri_trial_run(const tri_study *study, const char *folder, double best, tri_trial *trial);

/* What the simulator expects of every point of the space (0: not legal, or it does not fit): a prior for real trials.
 * values[count]. */
tri_status tri_trial_expect(const tri_study *study, const tri_point *points, int64_t count, double *values);

#endif
