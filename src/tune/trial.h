/* Carrying out one trial: the simulator, or a short run of its own. */
#ifndef TRI_TUNE_TRIAL_H
#define TRI_TUNE_TRIAL_H

#include "tune/study.h"

/* The prefix of the corpus for `trial.random_tokens`, in the folder above that of a trial; it must lie there. */
#define TRI_RANDOM_TOKENS "random-tokens"

typedef struct tri_attempt tri_attempt;

/* Begins with a trial of such a plan. A simulated one ends at once; a real one runs as a program of its own, writes
 * into `folder`, which is removed afterwards, and takes part `part` of the cores where several run at once. Release
 * with tri_attempt_destroy, which also ends what still runs. */
tri_status tri_attempt_start(const tri_study *study, const tri_trial_plan *plan, const char *folder, int part,
                             tri_attempt **out);
void tri_attempt_destroy(tri_attempt *attempt);

/* Whether it has come to an end; does not wait. What became of it is then in state, value, memory, seconds, node_s and
 * reason of *trial. A failure of the trial is not a failure of this: out of memory, a crash, and a time-out are
 * results.
 */
bool tri_attempt_ended(tri_attempt *attempt, tri_trial *trial);

/* How many steps it has measured, and what they are worth so far (0: none). */
double tri_attempt_value(const tri_attempt *attempt, int64_t *steps);
/* Ends it: what it has measured is its result. */
void tri_attempt_stop_early(tri_attempt *attempt, tri_trial *trial);

/* What is expected of every point of a space beforehand, values[count]; 0: it is not legal, or does not fit. Either the
 * simulator's word, or, for spaces too large for that, the most that the planner's bounds allow: no step takes less. */
tri_status tri_trial_expect(const tri_study *study, const tri_point *points, int64_t count, double *values);
tri_status tri_trial_bound(const tri_study *study, const tri_point *points, int64_t count, double *values);

/* Seconds that simulating all points will take, by some of them. */
tri_status tri_trial_seconds(const tri_study *study, const tri_point *points, int64_t count, double *out);

#endif
