/* Which point to try next. */
#ifndef TRI_TUNE_SUGGEST_H
#define TRI_TUNE_SUGGEST_H

#include "tune/gaussian.h"
#include "tune/space.h"

typedef enum tri_method {
  TRI_METHOD_AUTO, /* a study's, before the tuner has settled which (tuner.c) */
  TRI_METHOD_GAUSSIAN,
  TRI_METHOD_RANDOM,
  TRI_METHOD_GRID,
  TRI_METHOD_EXHAUSTIVE,
  TRI_METHOD_POPULATION, /* no search of points: population.h */
} tri_method;

typedef struct tri_search {
  tri_method method;
  int64_t trials, initial; /* the budget, 0: the method's own; of them at random before the model chooses */
  uint64_t seed;
} tri_point_search;

typedef enum tri_trial_state { TRI_TRIAL_RUNNING, TRI_TRIAL_DONE, TRI_TRIAL_FAILED } tri_trial_state;

/* "running", "done" or "failed". */
const char *tri_trial_state_name(tri_trial_state state);

typedef struct tri_trial {
  int64_t number;
  tri_point point;
  tri_trial_state state;
  bool early;       /* done: stopped before its end, since after as many steps others had been faster */
  double value;     /* done: more is better */
  double memory;    /* what it took of the memory that there is, above 1 if it ran out of it; 0: unknown */
  double seconds;   /* that it took here */
  double node_s;    /* what it cost, or, simulated, would have cost, in seconds of a node */
  char reason[256]; /* failed, or stopped early */
} tri_trial;

/* The best of those that are done, or NULL. One that was stopped early lost to another over as many steps, and is not
 * the best, whatever the machine's noise made of its few. */
const tri_trial *tri_trial_best(const tri_trial *trials, int64_t count);

/* Of one tuner: what it learned so far. Release with tri_suggester_release. */
typedef struct tri_suggester {
  const tri_space *space;
  const tri_point_search *search;
  tri_gaussian_state value, success, memory;
  tri_point *points;           /* that can be tried */
  double *prior;               /* what each is expected to be worth beforehand, or NULL */
  bool *tried;                 /* which of them have a trial, */
  int64_t marked, last_marked; /* by how many trials, and the number of the last */
  int64_t num_points;
} tri_suggester;

/* Takes points over, which are in order (tri_space_points) and released with it; and prior, which may be NULL. */
tri_suggester tri_suggester_create(const tri_space *space, const tri_point_search *search, tri_point *points,
                                   int64_t num_points, double *prior);
void tri_suggester_release(tri_suggester *suggester);

/* The next point by the search's method, given all trials so far; running ones count as if they had come out badly
 * (the constant liar of Ginsbourger et al. 2010). No point twice. *found is false if none is left. */
tri_status tri_suggest(tri_suggester *suggester, const tri_trial *trials, int64_t count, tri_point *out, bool *found);

/* Whether the i-th of `count` is in an even choice of at most `most`: one of each run of neighbours, at random, since
 * lists of points have a rhythm. */
bool tri_suggest_takes(int64_t i, int64_t count, int64_t most);

/* The model of the trials that are done, and, with `failures`, of those that failed as worth nothing: NULL if there
 * are less than two; of very many an even part. For reports; release with tri_gaussian_destroy. */
tri_status tri_suggest_model(const tri_space *space, const tri_trial *trials, int64_t count, bool failures,
                             tri_gaussian **out);

#endif
