/* A study: which layouts are to be tried, on what, and how one is judged. */
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
  TRI_OBJECTIVE_TIME_TO_LOSS, /* of real trials: how soon the validation loss is as low as trial.target_loss */
} tri_objective;

/* What is expected of points before any is tried. */
typedef enum tri_prior { TRI_PRIOR_PLANNER, TRI_PRIOR_NONE } tri_prior;

/* A layout that somebody has published, to be compared with what the search finds. */
typedef struct tri_recipe {
  char name[64], layout[256];
  int64_t devices, global_batch;
} tri_recipe;

enum { TRI_RECIPES = 8, TRI_STUDY_TEXT_BYTES = 65536 };

typedef struct tri_study {
  char name[64];
  char model_name[4096], cluster_name[256], system_name[64], precision_name[8];
  char run[256]; /* real trials: the run file; "" simulates */
  int64_t devices, global_batch, sequence;
  double expert_imbalance;      /* tri_simulation_request */
  tri_training_options trained; /* of simulated trials what is trained and by what; of real ones the run file's */
  tri_objective objective;
  tri_point_search search;
  double exhaustive_seconds; /* TRI_METHOD_AUTO: all points are tried where simulating them takes no longer */
  tri_prior prior;
  double minutes;
  double node_hours; /* the budget, 0: none */
  int64_t parallel;  /* trials at once */
  struct {
    int64_t warmup, steps;
    double minutes, worse; /* time limit; stopped when in the worse half and `worse` times slower than the best */
    double memory_gib;     /* of a rank; 0: what the node has for each */
    double target_loss;    /* TRI_OBJECTIVE_TIME_TO_LOSS */
    bool random_tokens;    /* in the place of the run file's text */
  } trial;
  tri_space space;
  tri_recipe known[TRI_RECIPES];
  int64_t num_known;
  struct {
    int64_t members, rounds, steps;
    double share, factor; /* of them that give up their weights for better ones'; of changed parameters */
  } population;

  /* Read from what is named. */
  char *text; /* the file, as it is; tri_study_release */
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_dtype precision;
  bool assumed_sequence;              /* not given */
  int64_t warmup;                     /* the run file's, in steps */
  char layout[TRI_LAYOUT_TEXT_BYTES]; /* the run file's: it holds where the space does not say; "" without one */
} tri_study;

/* TRI_BAD_CONFIG names file, line and key; unknown parameters list those there are; a space without a legal point is
 * refused. `ranks`: of each real trial, in the place of what the file says; 0: that. Release with
 * tri_study_release. */
tri_status tri_study_load(const char *path, int64_t ranks, tri_study *out);
/* For reports: the text of such a file, `source` its name for messages. What it names (model, cluster, run) is not
 * read. */
tri_status tri_study_read(const char *source, const char *text, size_t bytes, tri_study *out);
void tri_study_release(tri_study *study);

/* The keys of a study file; offsets into tri_study. */
const tri_config_table *tri_study_table(void);

/* Whether trials are runs of their own rather than simulated. */
bool tri_study_is_real(const tri_study *study);

/* Whether the cluster is to be measured first: `cluster: calibrate` of a real study. */
bool tri_study_calibrates(const tri_study *study);

/* A method by the name that it has in a study file; TRI_BAD_USAGE lists them. */
tri_status tri_study_set_method(tri_study *study, const char *name);

/* The layout of a point with its number of devices, its batch and its optimizer; TRI_BAD_LAYOUT if it is not legal.
 */
typedef struct tri_trial_plan {
  tri_layout layout; /* resolved */
  int64_t devices, global_batch;
  char settings[512]; /* keys of the run file besides, as its --set takes them, a space behind each */
  tri_optimizer_settings optimizer;
} tri_trial_plan;
tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out);
/* The same of a recipe. */
tri_status tri_recipe_plan(const tri_study *study, const tri_recipe *recipe, tri_trial_plan *out);

/* All points that are legal layouts, in order; *out of *count is released with tri_free. TRI_UNSUPPORTED above a
 * million. */
tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count);

/* The plan as the simulator takes it; the study and the plan must outlive it. */
tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan);

/* What a step of that many seconds is worth under the objective: more is better. 0 under TRI_OBJECTIVE_TIME_TO_LOSS,
 * which no step tells. */
double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s);

/* The value of reaching the target loss in that many seconds, above 1; and of not reaching it, with such a loss at the
 * end: above 0 and not above 1. */
double tri_study_value_of_loss(const tri_study *study, bool reached, double seconds, double loss);

/* The word that a parameter has in some settings, if it is a choice of the optimizer's (optimizer.name,
 * optimizer.state); NULL of others. */
const char *tri_study_optimizer_word(const char *knob, const tri_optimizer_settings *settings);

/* Nodes that the plan's devices take. */
double tri_study_nodes(const tri_study *study, const tri_trial_plan *plan);

#endif
