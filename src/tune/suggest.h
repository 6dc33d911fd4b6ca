/* Suggests the point to try next. */
#ifndef TRI_TUNE_SUGGEST_H
#define TRI_TUNE_SUGGEST_H

#include "tune/gaussian.h"
#include "tune/space.h"

typedef enum tri_method {
  TRI_METHOD_AUTO, /* not decided; the tuner decides (tuner.c) */
  TRI_METHOD_GAUSSIAN,
  TRI_METHOD_RANDOM,
  TRI_METHOD_GRID,
  TRI_METHOD_EXHAUSTIVE,
  TRI_METHOD_POPULATION, /* this and the next method do not suggest single points: rounds.h */
  TRI_METHOD_HALVING,
} tri_method;

typedef struct tri_search {
  tri_method method;
  int64_t trials,
      initial; /* maximum number of trials, 0: the default of the method; number of first trials at random */
  uint64_t seed;
} tri_point_search;

typedef enum tri_trial_state { TRI_TRIAL_RUNNING, TRI_TRIAL_DONE, TRI_TRIAL_FAILED } tri_trial_state;

/* Returns "running", "done" or "failed". */
const char *tri_trial_state_name(tri_trial_state state);

typedef struct tri_trial {
  int64_t number;
  tri_point point;
  tri_trial_state state;
  bool early;     /* if done: stopped early, because others were faster after the same number of steps */
  double value;   /* if done: higher is better */
  double memory;  /* share of the available memory that the trial needed, above 1 if it ran out of memory; 0: unknown */
  double seconds; /* duration of the trial */
  double node_s;  /* cost in seconds of a node; for a simulated trial that of the real run */
  char reason[256]; /* if failed or stopped early; for TRI_OBJECTIVE_TIME_TO_LOSS also if done */
} tri_trial;

/* Returns the best finished trial, or NULL. A trial that was stopped early is never the best: it was slower over the
 * same number of steps, and its few steps may look good by noise. */
const tri_trial *tri_trial_best(const tri_trial *trials, int64_t count);

/* The state of a search method. Release with tri_suggester_release. */
typedef struct tri_suggester {
  const tri_space *space;
  const tri_point_search *search;
  tri_gaussian_state value, success, memory; /* fitted hyperparameters of the three models, kept between calls */
  tri_point *points;                         /* [num_points]: all valid points, in order */
  double *prior;               /* [num_points]: expected value of each point before any trial; NULL: none */
  bool *tried;                 /* [num_points]: the point has a trial */
  int64_t marked, last_marked; /* number of trials that are marked in `tried`; number of the last one */
  int64_t num_points;
} tri_suggester;

/* Creates a suggester. It takes ownership of `points`, in order (tri_space_points), and of `prior`, which may be NULL.
 */
tri_suggester tri_suggester_create(const tri_space *space, const tri_point_search *search, tri_point *points,
                                   int64_t num_points, double *prior);
void tri_suggester_release(tri_suggester *suggester);

/* Suggests the next point by the search's method, given all trials so far; running trials count as bad ones (the
 * constant liar of Ginsbourger et al. 2010). No point is suggested twice. *found is false if no point is left. */
tri_status tri_suggest(tri_suggester *suggester, const tri_trial *trials, int64_t count, tri_point *out, bool *found);

/* Returns whether element i of `count` is in an even sample of at most `most` elements: a random one of each block of
 * adjacent elements, since lists of points are periodic. */
bool tri_suggest_is_sampled(int64_t i, int64_t count, int64_t most);

/* Creates a model of the finished trials, and with `failures` also of the failed ones with value 0; NULL if there are
 * fewer than two. It uses an even sample if there are very many. For reports; release with tri_gaussian_destroy. */
tri_status tri_suggest_model(const tri_space *space, const tri_trial *trials, int64_t count, bool failures,
                             tri_gaussian **out);

#endif
