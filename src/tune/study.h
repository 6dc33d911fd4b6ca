/* A study: which layouts are to be tried, on what, and how one is judged. */
#ifndef TRI_TUNE_STUDY_H
#define TRI_TUNE_STUDY_H

#include "plan/simulate.h"

enum { TRI_KNOBS = 16, TRI_KNOB_VALUES = 64, TRI_RULES = 16 };

/* One parameter of the space: a list of values, or low to high. Words (schedule: 1f1b) are values, too. */
typedef struct tri_knob {
  char name[32];    /* a key of `layout:`, or nodes, or accumulation (micro-batches a step) */
  char values[256]; /* "1 2 4 8", "1f1b interleaved"; or empty and: */
  int64_t low, high, step;
  bool powers;   /* of two from low to high */
  char when[64]; /* "schedule = interleaved": elsewhere the knob has its first value */

  /* Filled in. */
  char words[TRI_KNOB_VALUES][24];
  double numbers[TRI_KNOB_VALUES]; /* a word's is its place in the list */
  int64_t count;
  bool is_category;
} tri_knob;

typedef struct tri_rule {
  char rule[96]; /* "tensor * pipeline <= 64" */
} tri_rule;

typedef enum tri_objective { TRI_OBJECTIVE_TFLOPS, TRI_OBJECTIVE_TOKENS, TRI_OBJECTIVE_COST } tri_objective;
typedef enum tri_method { TRI_METHOD_GAUSSIAN, TRI_METHOD_RANDOM, TRI_METHOD_GRID, TRI_METHOD_EXHAUSTIVE } tri_method;

typedef struct tri_study {
  char name[64];
  char model_name[256], cluster_name[256], system_name[64], precision_name[8];
  char run[256]; /* real trials: the run file; "" simulates */
  int64_t devices, global_batch, sequence;
  tri_objective objective;
  tri_method method;
  int64_t trials, initial;
  double minutes;
  uint64_t seed;
  struct {
    int64_t warmup, steps;
    double minutes, worse; /* time limit; given up when so many times slower than the best */
  } trial;
  tri_knob space[TRI_KNOBS];
  int64_t num_knobs;
  tri_rule rules[TRI_RULES];
  int64_t num_rules;

  /* Read from what is named. */
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_dtype precision;
} tri_study;

/* A value of each knob, by its number in the list. */
typedef struct tri_point {
  int32_t at[TRI_KNOBS];
} tri_point;

/* TRI_BAD_CONFIG names file, line and key; unknown parameters list those there are; a space without a legal point is
 * refused. */
tri_status tri_study_load(const char *path, tri_study *out);

/* A method by the name that it has in a study file; TRI_BAD_USAGE lists them. */
tri_status tri_study_set_method(tri_study *study, const char *name);

/* Knobs whose condition does not hold take their first value. */
void tri_point_settle(const tri_study *study, tri_point *point);
bool tri_point_equal(const tri_study *study, const tri_point *a, const tri_point *b);
/* Whether all rules hold. */
bool tri_point_allowed(const tri_study *study, const tri_point *point);

/* "tensor=4,pipeline=16,nodes=12" and back; TRI_BAD_CONFIG for what is not of the study. Returns buffer. */
enum { TRI_POINT_TEXT_BYTES = 512 };
char *tri_point_text(const tri_study *study, const tri_point *point, char *buffer, size_t bytes);
tri_status tri_point_parse(const tri_study *study, const char *text, tri_point *out);

/* The layout of a point with its number of devices and its batch; TRI_BAD_LAYOUT where it is not legal. */
typedef struct tri_trial_plan {
  tri_layout layout; /* resolved */
  int64_t devices, global_batch;
} tri_trial_plan;
tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out);

/* All allowed points, in order; *out of *count is released with tri_free. TRI_UNSUPPORTED above a million. */
tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count);

/* The plan as the simulator takes it; the study and the plan must outlive it. */
tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan);

/* What a step of so many seconds is worth under the objective: more is better. */
double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s);

#endif
