/* Suggests the point to try next. */
#ifndef TRI_TUNE_SUGGEST_H
#define TRI_TUNE_SUGGEST_H

#include "tune/gaussian.h"
#include "tune/space.h"

typedef enum tri_method {
  TRI_METHOD_AUTO, /* the tuner chooses the method (tuner.c) */
  TRI_METHOD_GAUSSIAN,
  TRI_METHOD_RANDOM,
  TRI_METHOD_GRID,
  TRI_METHOD_EXHAUSTIVE,
  TRI_METHOD_POPULATION, /* this method and the next one do not suggest single points (rounds.h) */
  TRI_METHOD_HALVING,
} tri_method;

typedef struct tri_search {
  tri_method method;
  int64_t trials, initial; /* trials: maximum number of trials; 0: the default of the method; initial: number of trials
                              at the beginning that are chosen at random */
  uint64_t seed;
} tri_point_search;

typedef enum tri_trial_state { TRI_TRIAL_RUNNING, TRI_TRIAL_DONE, TRI_TRIAL_FAILED } tri_trial_state;

/* Returns "running", "done" or "failed". */
const char *tri_trial_state_name(tri_trial_state state);

typedef struct tri_trial {
  int64_t number;
  tri_point point;
  tri_trial_state state;
  bool early;   /* whether the trial was stopped early, because other trials were faster after the same number of steps;
                   only if it is done */
  double value; /* value under the objective, higher is better; only if the trial is done */
  double memory;  /* memory that the trial needed, relative to the available memory; above 1 if it ran out of memory; 0:
                     not known */
  double seconds; /* duration of the trial */
  double node_s;  /* cost of the trial in node-seconds; for a simulated trial the cost of the real run */
  char reason[256]; /* reason of a failure or of an early stop; for TRI_OBJECTIVE_TIME_TO_LOSS a finished trial has one,
                       too */
} tri_trial;

/* Returns the best finished trial; NULL if there is none. A trial that was stopped early is never the best: it was
 * slower over the same number of steps, and the values of its few steps may look good by noise. */
const tri_trial *tri_trial_best(const tri_trial *trials, int64_t count);

/* The state of a search method. Release with tri_suggester_release. */
typedef struct tri_suggester {
  const tri_space *space;
  const tri_point_search *search;
  tri_gaussian_state value, success,
      memory;        /* fitted hyperparameters of the three models, which are kept between calls */
  tri_point *points; /* [num_points]: all valid points, in order */
  double *prior;     /* [num_points]: expected value of each point before any trial; NULL: no expected values */
  bool *tried;       /* [num_points]: whether the point has a trial */
  int64_t marked, last_marked; /* number of trials that are marked in `tried`, and the number of the last of them */
  int64_t num_points;
} tri_suggester;

/* Creates a suggester. It takes ownership of `points`, which are in the order of tri_space_points, and of `prior`,
 * which may be NULL. */
tri_suggester tri_suggester_create(const tri_space *space, const tri_point_search *search, tri_point *points,
                                   int64_t num_points, double *prior);
void tri_suggester_release(tri_suggester *suggester);

/* Suggests the next point by the search's method, from all trials so far. Running trials count as bad ones (the
 * constant liar of Ginsbourger et al. 2010). Never suggests a point twice. Sets *found to false if no point is left.
 * Fails with TRI_INTERNAL for a method that suggests no points. */
tri_status tri_suggest(tri_suggester *suggester, const tri_trial *trials, int64_t count, tri_point *out, bool *found);

/* Returns whether element i of `count` elements is in an even sample of at most `most` elements. The sample has a
 * random element of each block of adjacent elements, because lists of points are periodic. */
bool tri_suggest_is_sampled(int64_t i, int64_t count, int64_t most);

/* Creates a model of the finished trials for reports. With `failures` the model includes failed trials with the value
 * 0. If there are very many trials, it uses an even sample. Sets *out to NULL if there are fewer than two trials.
 * Release with tri_gaussian_destroy. */
tri_status tri_suggest_model(const tri_space *space, const tri_trial *trials, int64_t count, bool failures,
                             tri_gaussian **out);

#endif
