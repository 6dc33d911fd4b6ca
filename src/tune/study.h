/* A study: the layouts or settings to try, the model and the cluster, and the objective. */
#ifndef TRI_TUNE_STUDY_H
#define TRI_TUNE_STUDY_H

#include "plan/simulate.h"
#include "plan/training_options.h"
#include "schedule/layout_config.h"
#include "tune/suggest.h"

typedef enum tri_objective {
  /* Speeds: TFLOP/s of a device, with recomputed products; tokens/s; and tokens per device-second. */
  TRI_OBJECTIVE_TFLOPS,
  TRI_OBJECTIVE_TOKENS,
  TRI_OBJECTIVE_COST,
  TRI_OBJECTIVE_TIME_TO_LOSS,    /* time until the validation loss is at most trial.target_loss; only for real trials */
  TRI_OBJECTIVE_VALIDATION_LOSS, /* validation loss after all steps of a trial; only for real trials */
  TRI_OBJECTIVE_VALIDATION_ACCURACY, /* accuracy on held-out preference pairs after all steps of a trial; only for real
                                        trials. A trial's loss is 1 minus the accuracy */
} tri_objective;

/* Source of the expected values of points before any trial. */
typedef enum tri_prior { TRI_PRIOR_PLANNER, TRI_PRIOR_NONE } tri_prior;

/* A published layout, for comparison with the results of the search. devices, global_batch: 0: those of the study. */
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
  tri_training_options trained; /* options of simulated trials; for real trials the options of the run file */
  tri_objective objective;
  tri_point_search search;
  double exhaustive_seconds; /* TRI_METHOD_AUTO tries all points if their simulation takes at most this long */
  tri_prior prior;
  double minutes;    /* budget in minutes; 0: no limit */
  double node_hours; /* budget in node-hours; 0: no limit */
  int64_t parallel;  /* number of parallel trials */
  struct {
    int64_t warmup, steps; /* warmup: steps at the beginning that do not count; steps: steps after them, which count */
    double minutes, worse; /* minutes: time limit of a trial; INFINITY: no limit; worse: a trial is stopped if it is in
                              the worse half and `worse` times slower than the best trial */
    double memory_gib;  /* memory limit of a rank; 0: no limit, and reports assume that each rank has an equal share of
                           the node's memory */
    double target_loss; /* loss to reach; only for TRI_OBJECTIVE_TIME_TO_LOSS */
    bool random_tokens; /* whether trials train on random tokens in place of the run file's corpora */
  } trial;
  tri_space space;
  tri_recipe known[TRI_RECIPES];
  int64_t num_known;
  struct {
    /* Number of members, number of rounds of each, and number of steps of a round. */
    int64_t members, rounds, steps;
    double share, factor; /* share: share of the members that continue from better members; factor: factor by which
                             their parameters change */
  } population;

  /* tri_study_load sets the members below: the contents of the files that the members above name, and values that
   * follow from them. */
  char *text; /* text of the study file */
  tri_model model;
  tri_cluster cluster;
  tri_system system;
  tri_dtype precision;
  bool assumed_sequence;         /* whether `sequence` was not given */
  int64_t warmup;                /* warm-up of a trial, in steps (tune/trial_schedule.h) */
  int64_t run_warmup, run_steps; /* warm-up and steps of the run file; run_steps 0: the run file has epochs instead */
  char layout[TRI_LAYOUT_TEXT_BYTES]; /* layout of the run file, for keys that are not in the space; "": no run file */
} tri_study;

/* Reads a study file, and the files that it names. `ranks` is the number of ranks of each real trial; 0: as in the
 * file. Fails with TRI_BAD_CONFIG, with the file, the line and the key, if a key is not valid, and with TRI_BAD_LAYOUT
 * if the space has no valid point. Release with tri_study_release. */
tri_status tri_study_load(const char *path, int64_t ranks, tri_study *out);
/* Reads the text of a study file for reports. `source` names the file in messages. Does not read the files that the
 * study names (model, cluster, run). Fails with TRI_BAD_CONFIG as tri_study_load does. */
tri_status tri_study_read(const char *source, const char *text, size_t bytes, tri_study *out);
void tri_study_release(tri_study *study);

/* Returns the keys of a study file; offsets are into tri_study. */
const tri_config_table *tri_study_table(void);

/* Returns whether trials are real runs; otherwise they are simulated. */
static inline bool tri_study_is_real(const tri_study *study) { return study->run[0] != '\0'; }

/* Returns whether the cluster must be measured first, because a real study has `cluster: calibrate`. */
bool tri_study_calibrates(const tri_study *study);

/* Returns the number of steps of a whole trial. */
static inline int64_t tri_study_trial_steps(const tri_study *study) { return study->trial.warmup + study->trial.steps; }

/* Sets the search method by its name in a study file. Fails with TRI_BAD_USAGE if the name is not known; the message
 * lists the names. */
tri_status tri_study_set_method(tri_study *study, const char *name);

/* The layout of a point, with its number of devices, its batch and its optimizer. tri_point_plan computes it, and fails
 * with TRI_BAD_LAYOUT if the layout is not valid. */
typedef struct tri_trial_plan {
  tri_layout layout; /* resolved */
  int64_t devices, global_batch;
  char settings[1024]; /* other keys of the run file as values of --set, with a space after each */
  tri_optimizer_settings optimizer;
} tri_trial_plan;
tri_status tri_point_plan(const tri_study *study, const tri_point *point, tri_trial_plan *out);
/* Computes the plan of a recipe. Fails with TRI_BAD_CONFIG or TRI_BAD_LAYOUT if its layout is not valid for the
 * study. */
tri_status tri_recipe_plan(const tri_study *study, const tri_recipe *recipe, tri_trial_plan *out);

/* Lists all points that are valid layouts, in order. Release *out with tri_free. Fails with TRI_BAD_LAYOUT if there are
 * none, and with TRI_UNSUPPORTED as tri_space_points does. */
tri_status tri_study_points(const tri_study *study, tri_point **out, int64_t *count);

/* Returns the request for simulating a plan. The study and the plan must outlive the request. */
tri_simulation_request tri_study_request(const tri_study *study, const tri_trial_plan *plan);

/* Returns the value of a step of `step_s` seconds under the objective; a higher value is better. Returns 0 for
 * objectives of a loss, which do not depend on the step time alone. */
double tri_study_value(const tri_study *study, const tri_trial_plan *plan, double step_s);

/* Returns the value of a run under TRI_OBJECTIVE_TIME_TO_LOSS. If the run reached the target loss, the value is above 1
 * and falls with `seconds`. If it ended with `loss` above the target, the value is above 0 and at most 1. */
double tri_study_value_of_loss(const tri_study *study, bool reached, double seconds, double loss);

/* Returns the word that the settings have for the parameter `knob`, which is optimizer.name or optimizer.state; NULL
 * for other parameters. */
const char *tri_study_optimizer_word(const char *knob, const tri_optimizer_settings *settings);

/* Returns the number of nodes of the plan's devices. */
double tri_study_nodes(const tri_study *study, const tri_trial_plan *plan);

#endif
