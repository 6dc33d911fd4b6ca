/* Which point to try next. */
#ifndef TRI_TUNE_SUGGEST_H
#define TRI_TUNE_SUGGEST_H

#include "tune/gaussian.h"
#include "tune/study.h"

typedef enum tri_trial_state { TRI_TRIAL_RUNNING, TRI_TRIAL_DONE, TRI_TRIAL_FAILED } tri_trial_state;

typedef struct tri_trial {
  int64_t number;
  tri_point point;
  tri_trial_state state;
  double value; /* done */
  double seconds;
  char reason[256]; /* failed */
} tri_trial;

/* Of one tuner: what it learned so far. {0} begins; release with tri_suggester_release. */
typedef struct tri_suggester {
  tri_gaussian_state value, success;
  tri_point *points; /* of the whole space, as far as they are legal layouts */
  double *prior;     /* what each is expected to be worth beforehand, or NULL */
  int64_t num_points;
} tri_suggester;

tri_status tri_suggester_create(const tri_study *study, tri_suggester *out);
void tri_suggester_release(tri_suggester *suggester);

/* The next point of the study's method, given all trials so far; running ones count as if they had come out as the
 * model expects (the constant liar of Ginsbourger et al. 2010). No point twice. *found is false where none is left. */
tri_status tri_suggest(const tri_study *study, tri_suggester *suggester, const tri_trial *trials, int64_t count,
                       tri_point *out, bool *found);

/* The model of the trials that are done: NULL where there are less than two. For reports; release with
 * tri_gaussian_destroy. */
tri_status tri_suggest_model(const tri_study *study, tri_suggester *suggester, const tri_trial *trials, int64_t count,
                             tri_gaussian **out);

/* A point as the model sees it, x[num_knobs] in [0, 1]. */
void tri_point_place(const tri_study *study, const tri_point *point, double *x);

#endif
