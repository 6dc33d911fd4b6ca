/* A study: the layouts or settings to try, the model and cluster, and the objective. */
#ifndef TRI_TUNE_STUDY_H
#define TRI_TUNE_STUDY_H

#include "plan/simulate.h"
#include "plan/training_options.h"
#include "schedule/layout_config.h"
#include "tune/suggest.h"

typedef enum tri_objective {
  TRI_OBJECTIVE_TFLOPS,
  TRI_OBJECTIVE_TOKENS,
  TRI_OBJECTIVE_COST,
  TRI_OBJECTIVE_TIME_TO_LOSS,    /* only real trials: time until the validation loss is at most trial.target_loss */
  TRI_OBJECTIVE_VALIDATION_LOSS, /* only real trials: validation loss after all steps of a trial */
} tri_objective;

/* Expected values of points before any trial. */
typedef enum tri_prior { TRI_PRIOR_PLANNER, TRI_PRIOR_NONE } tri_prior;

/* A published layout, for comparison with the results of the search. */
typedef struct tri_recipe {
  char name[64], layout[256];
  int64_t devices, global_batch;
} tri_recipe;

enum { TRI_RECIPES = 8, TRI_STUDY_TEXT_BYTES = 65536 };

typedef struct tri_study {
  char name[64];
  char model_name[4096], cluster_name[256], system_name[64], precision_name[8];
  char run[256]; /* run file of real trials; "": trials are simulated */
  int64_t devices, global_batch, sequence;
  double expert_imbalance;      /* as in tri_simulation_request */
  tri_training_options trained; /* options of simulated trials; for real trials those of the run file */
  tri_objective objective;
  tri_point_search search;
  double exhaustive_seconds; /* TRI_METHOD_AUTO: all points are tried if simulating them takes at most this long */
  tri_prior prior;
  double minutes;    /* budget in minutes; 0: no limit */
  double node_hours; /* budget in node-hours; 0: no limit */
  int64_t parallel;  /* number of parallel trials */
  struct {
    int64_t warmup, steps; /* steps that do not count, before those that do; steps that count */
    double minutes, worse; /* time limit, INFINITY: none; a trial in the worse half that is `worse` times slower than
                              the best is stopped */
    double memory_gib;     /* memory limit of a rank; 0: none, and reports assume an equal share of the node's memory */
    double target_loss;    /* TRI_OBJECTIVE_TIME_TO_LOSS */
    bool random_tokens;    /* train on random tokens in place of the run file's corpora */
  } trial;
  tri_space space;
  tri_recipe known[TRI_RECIPES];
  int64_t num_known;
  struct {
    int64_t members, rounds, steps;
    double share, factor; /* share of members that continue from better ones; factor by which their parameters change */
  } population;

  /* Set by tri_study_load: contents of the files that the members above name, and values that follow from them. */
  char *text; /* text of the study file */
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_dtype precision;
  bool assumed_sequence;              /* `sequence` was not given */
  int64_t warmup;                     /* warm-up of a trial, in steps (tune/trial_schedule.h) */
  int64_t run_warmup, run_steps;      /* warm-up and steps of the run file; run_steps 0: it has epochs */
  char layout[TRI_LAYOUT_TEXT_BYTES]; /* layout of the run file, for keys that are not in the space; "": no run file */
} tri_study;

/* Reads a study file. TRI_BAD_CONFIG with file, line and key; TRI_BAD_LAYOUT for a space without a valid point.
 * `ranks`: number of ranks of each real trial; 0: as in the file. Release with tri_study_release. */
tri_status tri_study_load(const char *path, int64_t ranks, tri_study *out);
/* Reads the text of a study file for reports; `source` is its name in messages. The files that it names (model,
 * cluster, run) are not read. */
tri_status tri_study_read(const char *source, const char *text, size_t bytes, tri_study *out);
void tri_study_release(tri_study *study);

/* Returns the keys of a study file; offsets are into tri_study. */
const tri_config_table *tri_study_table(void);

/* Returns whether trials are real runs; otherwise they are simulated. */
static inline bool tri_study_is_real(const tri_study *study) { return study->run[0] != '\0'; }

/* Returns whether the cluster must be measured first: `cluster: calibrate` of a real study. */
bool tri_study_calibrates(const tri_study *study);

/* Returns the number of steps of a whole trial. */
int64_t tri_study_trial_steps(const tri_study *study);

/* Sets the search method by its name in a study file; TRI_BAD_USAGE lists the names. */
tri_status tri_study_set_method(tri_study *study, const char *name);

/* The layout of a point with its number of devices, its batch and its optimizer. tri_point_plan returns TRI_BAD_LAYOUT
 * if it is not valid. */
typedef struct tri_trial_plan {
  tri_layout layout; /* resolved */
  int64_t devices, global_batch;
  char settings[512]; /* other keys of the run file as values of --set, with a space after each */
  tri_optimizer_settings optimizer;
} tri_trial_plan;
tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out);
/* Computes the plan of a recipe. */
tri_status tri_recipe_plan(const tri_study *study, const tri_recipe *recipe, tri_trial_plan *out);

/* Lists all points that are valid layouts, in order; release *out with tri_free. TRI_BAD_LAYOUT if there are none,
 * TRI_UNSUPPORTED as in tri_space_points. */
tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count);

/* Returns the request for simulating a plan; the study and the plan must outlive it. */
tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan);

/* Returns the value of a step time under the objective; higher is better. 0 for objectives of a loss, which do not
 * depend on the step time alone. */
double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s);

/* TRI_OBJECTIVE_TIME_TO_LOSS: returns the value of a run. A run that reached the target loss has a value above 1, which
 * falls with `seconds`; a run that ended with `loss` above the target has a value above 0 and at most 1. */
double tri_study_value_of_loss(const tri_study *study, bool reached, double seconds, double loss);

/* Returns the word of a parameter (optimizer.name, optimizer.state) in the settings; NULL for other parameters. */
const char *tri_study_optimizer_word(const char *knob, const tri_optimizer_settings *settings);

/* Returns the number of nodes of the plan's devices. */
double tri_study_nodes(const tri_study *study, const tri_trial_plan *plan);

#endif
