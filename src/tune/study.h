/* A study: which layouts to try, for which model and cluster, and by which objective. */
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
  TRI_OBJECTIVE_VALIDATION_LOSS, /* only real trials: after all steps of a trial */
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
  char run[256]; /* real trials: the run file; "": trials are simulated */
  int64_t devices, global_batch, sequence;
  double expert_imbalance;      /* tri_simulation_request */
  tri_training_options trained; /* for simulated trials; of real ones that of the run file */
  tri_objective objective;
  tri_point_search search;
  double exhaustive_seconds; /* TRI_METHOD_AUTO: all points are tried if simulating them takes at most this long */
  tri_prior prior;
  double minutes;
  double node_hours; /* the budget of minutes and of node hours; 0: no limit */
  int64_t parallel;  /* trials at once */
  struct {
    int64_t warmup, steps;
    double minutes,
        worse; /* time limit, INFINITY: none; one in the worse half and `worse` times slower than the best is stopped */
    double memory_gib;  /* limit of a rank; 0: an equal share of the node's memory */
    double target_loss; /* TRI_OBJECTIVE_TIME_TO_LOSS */
    bool random_tokens; /* train on random tokens, not on the run file's corpora */
  } trial;
  tri_space space;
  tri_recipe known[TRI_RECIPES];
  int64_t num_known;
  struct {
    int64_t members, rounds, steps;
    double share, factor; /* share of members that continue from better ones; by which their parameters change */
  } population;

  /* Read from the files that the members above name. */
  char *text; /* of the study file */
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_dtype precision;
  bool assumed_sequence;              /* `sequence` was not given */
  int64_t warmup;                     /* of a trial, in steps (tune/trial_schedule.h) */
  int64_t run_warmup, run_steps;      /* of the run file, in steps; run_steps 0: it has epochs */
  char layout[TRI_LAYOUT_TEXT_BYTES]; /* of the run file, for keys that are not in the space; "": no run file */
} tri_study;

/* Reads a study file. TRI_BAD_CONFIG has file, line and key; also for a space without a valid point. `ranks`: number of
 * ranks of each real trial; 0: as in the file. Release with tri_study_release. */
tri_status tri_study_load(const char *path, int64_t ranks, tri_study *out);
/* For reports: reads the text of a study file; `source` is its name for messages. The files that it names (model,
 * cluster, run) are not read. */
tri_status tri_study_read(const char *source, const char *text, size_t bytes, tri_study *out);
void tri_study_release(tri_study *study);

/* The keys of a study file; offsets into tri_study. */
const tri_config_table *tri_study_table(void);

/* Whether trials are real runs, not simulations. */
bool tri_study_is_real(const tri_study *study);

/* Whether the cluster must be measured first: `cluster: calibrate` of a real study. */
bool tri_study_calibrates(const tri_study *study);

/* The steps that a trial makes in all. */
int64_t tri_study_trial_steps(const tri_study *study);

/* Sets the search method by its name in a study file; TRI_BAD_USAGE lists the names. */
tri_status tri_study_set_method(tri_study *study, const char *name);

/* The layout of a point with its number of devices, its batch and its optimizer; TRI_BAD_LAYOUT if it is not valid.
 */
typedef struct tri_trial_plan {
  tri_layout layout; /* resolved */
  int64_t devices, global_batch;
  char settings[512]; /* other keys of the run file as values of --set, with a space after each */
  tri_optimizer_settings optimizer;
} tri_trial_plan;
tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out);
/* The same for a recipe. */
tri_status tri_recipe_plan(const tri_study *study, const tri_recipe *recipe, tri_trial_plan *out);

/* All points that are valid layouts, in order; release *out with tri_free. TRI_UNSUPPORTED above a million. */
tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count);

/* The request for simulating a plan; the study and the plan must outlive it. */
tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan);

/* The value of a step time under the objective: higher is better. 0 for objectives of a loss, which do not depend on
 * the step time alone. */
double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s);

/* TRI_OBJECTIVE_TIME_TO_LOSS: the value of reaching the target loss in that many seconds, above 1; and of not reaching
 * it, with such a loss at the end: above 0 and not above 1. */
double tri_study_value_of_loss(const tri_study *study, bool reached, double seconds, double loss);

/* The word that a parameter (optimizer.name, optimizer.state) has in some settings; NULL for other parameters. */
const char *tri_study_optimizer_word(const char *knob, const tri_optimizer_settings *settings);

/* The number of nodes of the plan's devices. */
double tri_study_nodes(const tri_study *study, const tri_trial_plan *plan);

#endif
