/* Shared by the files of a training run: trainer.c begins and ends it, the training loop is in loop.c, and
 * observers, one file each, are called after each step. */
#ifndef TRI_TRAIN_TRAIN_INTERNAL_H
#define TRI_TRAIN_TRAIN_INTERNAL_H

#include "engine/engine.h"
#include "generation/replicas.h"
#include "generation/runner.h"
#include "recovery/save.h"
#include "recovery/snapshot.h"
#include "recovery/watchdog.h"
#include "report/metrics.h"
#include "report/timing.h"
#include "run/identity.h"
#include "run/output.h"
#include "run/progress.h"
#include "run/run_config.h"
#include "run/run_data.h"

typedef struct tri_train_task tri_train_task;

/* A run. Its state is only in the engine and in `progress`, so that a run that is killed and resumed does the same
 * steps as one that was not. */
typedef struct tri_training {
  tri_run_config *config; /* copy of tri_train_options.config, with the layout resolved */
  const tri_train_task *task;
  void *task_state; /* state that the task owns and releases; NULL: the task has no state */
  tri_mesh mesh;
  tri_device *device;
  tri_engine *engine;
  tri_expert_metrics *experts; /* [layers], scratch memory for a line of metrics */
  tri_saver *saver;
  tri_snapshots *snapshots; /* NULL: the run takes no snapshots */
  tri_run_output output;    /* locked by this run */
  tri_identity identity;
  tri_run_data data;
  tri_metrics *metrics;
  tri_named_metrics named; /* metrics of the task: values for the next line */
  tri_progress progress;
  double peak_flops, measured_flops; /* FLOP/s of this rank's device: the best known peak; the peak that this process
                                        measured */
  bool peak_doubted;                 /* whether a step was faster than the peak, so that the peak was measured again */
  double load_s;                     /* seconds for loading the state at the start */
  double loss;                       /* loss of the last step; only on the first rank */
  double first_losses, last_losses;  /* mean loss of the first and of the last tenth of all steps; NaN: too few steps */
  double first_chosen, last_chosen;  /* TRI_CHOSEN_LOGP of the first step, and the mean of the last tenth; NaN: none */
  char answers[200];                 /* text of the last step's metrics of preferences; "": the run has no such
                                        metrics */
  int64_t first_bad_step;            /* the first of the bad steps in a row (progress.bad_in_row) */
  int64_t first_steps;    /* number of steps over which first_losses is the mean: a tenth of all steps, or 1 */
  double validation_loss; /* loss of the last evaluation; NaN before the first */
  double reward, validation_reward; /* mean rewards of the last batch and of the last evaluation; NaN: none */
  bool unjudged;                    /* whether the warning that no label of the validation corpus counts was given */
  int64_t evaluated_step;   /* step of the last evaluation, if its loss (or its reward, by evaluation.metric) was
                               finite; else -1 */
  tri_runner_need rollouts; /* memory for sampling completions, in reinforcement learning */
  size_t predicted_bytes;   /* memory of this rank by its plan: device and host, the engine and rollouts */
  tri_group sampling; /* only if samples.tensor is above 1: the group of the ranks that generate samples if this rank is
                         one of them, else of the other ranks */
  tri_replicas samplers;       /* the ranks that generate samples (samples.tensor); unused on other ranks */
  bool samples_here;           /* whether this rank generates samples */
  struct tri_samples *samples; /* on the first rank: the generator of samples, open between checkpoints while it reads
                                  the weights in place; NULL: none is open */
  int64_t sampled_step;        /* step of the newest checkpoint that has samples, or -1 */
  tri_watchdog *watchdog;
  char flight[TRI_PATH_BYTES]; /* folder of the ranks' flight reports */
  tri_timing timing;
  int64_t stop_at;          /* tri_train_options.stop_at */
  bool stopping;            /* whether a rank was asked to stop, or the first rank stops the run by itself */
  tri_status stop_status;   /* on the first rank: status of the run if this rank stops it by itself; TRI_OK: it does
                               not */
  tri_save_pending pending; /* state of saving between steps */
} tri_training;

static inline bool tri_training_is_rank0(const tri_training *t) { return t->mesh.world.rank == 0; }

/* Returns the last step that this process makes. */
static inline int64_t tri_training_last_step(const tri_training *t) {
  const int64_t steps = t->config->optimizer.steps;
  return t->stop_at > 0 && t->stop_at < steps ? t->stop_at : steps;
}

/* Returns the batch of the next step: optimizer.global_batch samples after those that the run has read. */
static inline tri_global_batch tri_training_next_batch(const tri_training *t) {
  return (tri_global_batch){t->progress.step, t->progress.samples, t->config->optimizer.global_batch};
}

/* Returns whether work that is done every `every` steps, and after the last step, is due after the current step. */
static inline bool tri_training_is_due(const tri_training *t, int64_t every) {
  const int64_t step = t->progress.step;
  return step == tri_training_last_step(t) || (every > 0 && step % every == 0);
}

/* Returns whether the last evaluation.stop_after evaluations have not improved on the best one. */
static inline bool tri_training_stops_early(const tri_training *t) {
  const int64_t after = t->config->evaluation.stop_after;
  return after > 0 && t->progress.not_better >= after;
}

/* Returns whether this process has no more steps to make. */
static inline bool tri_training_is_over(const tri_training *t) {
  return t->progress.step >= tri_training_last_step(t) || tri_training_stops_early(t);
}

/* ---- before and after the steps ---------------------------------------------------------------------------------- */

/* Sets the layout of a run on `ranks` ranks; an elastic run may change its layout (elastic.c). In reinforcement
 * learning it also sets optimizer.global_batch. */
tri_status tri_training_choose_layout(tri_run_config *config, int64_t ranks);

tri_engine_options tri_training_engine_options(const tri_run_config *config, const tri_mesh *mesh);

/* COLLECTIVE. Opens the files that the configuration names, creates the engine and resumes the run (setup.c). */
tri_status tri_training_open(tri_training *t, const char *resume);

void tri_training_announce(const tri_training *t);

/* Writes the dimensions of the layout, such as "4 ranks: tensor 2 x pipeline 1 x ...", and returns buffer. */
char *tri_training_describe_layout(const tri_run_config *config, int64_t ranks, char *buffer, size_t bytes);

void tri_training_announce_text(const tri_training *t);          /* tri_task_text.announce */
void tri_training_announce_preferences(const tri_training *t);   /* tri_task_preferences.announce */
void tri_training_announce_reinforcement(const tri_training *t); /* tri_task_reinforcement.announce */

/* Returns the FLOPs of the remaining steps for one rank, if all ranks have equal work. */
double tri_training_work_flops(const tri_training *t);

/* LOCAL. Finds the device's peak: the best of a measurement now and earlier ones on machines of this kind (peak.c). */
tri_status tri_training_measure_peak(tri_training *t);
/* Returns whether a matrix product of a layer is too small to reach the peak, so that the MFU is not meaningful. */
bool tri_training_has_small_products(const tri_training *t);
/* LOCAL. If `mfu`, the MFU of the last step, is above 1, measures the peak again, once per process, and keeps the
 * larger one. */
tri_status tri_training_doubt_peak(tri_training *t, double mfu);

/* COLLECTIVE. Names the ranks to their parent processes, plans the steps to time, and starts the watchdog, which
 * detects ranks that are lost or hang (failure.c). */
tri_status tri_training_watch(tri_training *t);
/* LOCAL. In a job of several ranks, adds the name of this rank to the message of a failure, and writes its flight
 * report, unless the output is locked by another run (TRI_BUSY). Returns status. */
tri_status tri_training_name_failure(const tri_training *t, tri_status status);

/* The end of a run (run_end.c). All of these are LOCAL; removing and writing the summary is for the first rank. */

/* Returns the status of a run whose loop has ended: TRI_INTERRUPTED after a signal, TRI_DIVERGED after bad steps,
 * t->stop_status if the run stops by itself, else TRI_OK. Only the first rank has the message. */
tri_status tri_training_end(tri_training *t);
/* Removes the summary, which describes an ended run, before the run continues. */
tri_status tri_training_remove_summary(const tri_training *t);
/* Writes the curve of the losses and the summary. */
tri_status tri_training_write_summary(tri_training *t);
/* Logs the results of the run, and suggests the next commands. */
void tri_training_announce_end(const tri_training *t);
/* Logs that the run has no more steps to make, removes its snapshots and, on the first rank, writes the summary if it
 * is missing, because the run was killed before it was written. */
tri_status tri_training_finish_ended(tri_training *t);
/* LOCAL. Removes the rank's snapshots at the end of a run. Keeps them if --stop-at has ended it and its state is not in
 * a checkpoint, because the run may go on from them. */
void tri_training_drop_snapshots(const tri_training *t);

/* ---- samples (samples.c) ----------------------------------------------------------------------------------------- */

/* LOCAL. Checks that samples can be generated: there is a tokenizer, and prompts and texts fit the model's positions.
 */
tri_status tri_training_check_samples(const tri_run_config *config, const char *tokenizer);
/* COLLECTIVE. Groups the ranks that generate samples. Fails if samples.tensor does not fit the job or the model. */
tri_status tri_training_group_samplers(tri_training *t);
/* LOCAL. Computes the most memory that a rank needs for generating samples; {0} without samples. */
tri_status tri_training_plan_samples(const tri_run_config *config, const tri_engine_options *options,
                                     tri_device *device, tri_runner_need *out);
/* COLLECTIVE. Writes samples of the newest complete checkpoint, unless it already has samples. */
tri_status tri_training_sample(tri_training *t);
/* LOCAL. Closes the generator of samples. Must be called before the engine is destroyed, because the generator may read
 * its weights. */
void tri_training_close_samples(tri_training *t);
/* COLLECTIVE over the ranks that generate samples. Removes the lines of steps that the run will repeat from
 * samples.jsonl, and adds the samples that a killed or stopped run had not written yet. */
tri_status tri_training_resume_samples(tri_training *t);

/* ---- observers --------------------------------------------------------------------------------------------------- */

/* A completed step; `progress` includes it. */
typedef struct tri_made_step {
  tri_step step;
  double lr, seconds;
  bool evaluated; /* whether an evaluation that computes a validation loss followed the step */
} tri_made_step;

/* COLLECTIVE. Called after each step; the first observer that fails ends the loop. */
typedef tri_status tri_observer(tri_training *t, tri_made_step *made);

tri_observer tri_observe_bad_steps;  /* warns of steps without an update, and counts the bad ones (bad_steps.c) */
tri_observer tri_observe_validation; /* evaluates every few steps */
tri_observer tri_observe_metrics;    /* writes a line of metrics */
tri_observer tri_observe_divergence; /* ends the run after too many bad, or only empty, steps */
tri_observer tri_observe_state;      /* saves checkpoints and takes snapshots */
tri_observer tri_observe_samples;    /* writes samples of a new checkpoint (samples.c) */

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

/* A task: the data that a run learns from, and the work around its steps. The kind of the objective chooses one of them
 * (tri_train_task_of); docs/architecture.md has the steps to add one. */
struct tri_train_task {
  const char *name;
  const tri_run_data_kind *data; /* opens the samples of the task */
  const char *held_out_key;      /* key of a run file that names the held-out samples */
  bool suggests_eval;            /* whether `trireme eval RUN DATA` is suggested at the end of a run */
  /* LOCAL, on the first rank, before the data are opened. Makes the files that `data` opens. NULL: nothing to do. */
  tri_status (*prepare)(const tri_run_config *config);
  /* COLLECTIVE, after the run's state is loaded, before the files of the output are opened and the first step is made.
   * NULL: nothing to do. */
  tri_status (*begin)(tri_training *t);
  /* LOCAL, on the first rank. Logs facts about the data before the first step. */
  void (*announce)(const tri_training *t);
  /* COLLECTIVE. Runs one step of the engine on the next samples. A step without samples was not made, because the run
   * was asked to stop (`stopping`). */
  tri_status (*step)(tri_training *t, double lr, tri_step *out);
  /* Returns whether the state can be saved, and the run can stop; NULL: always, between two steps. */
  bool (*is_between)(const tri_training *t);
  /* Observers in order, up to NULL. The evaluation comes before the line of metrics that contains it, the line is
   * written before the run is given up, and a state is evaluated before it is saved. */
  tri_observer *const *observers;
  void (*release)(tri_training *t); /* NULL: nothing to release */
};
extern const tri_train_task tri_task_text;          /* text: pretraining and fine-tuning (pretrain.c) */
extern const tri_train_task tri_task_preferences;   /* preferences (preference.c) */
extern const tri_train_task tri_task_reinforcement; /* completions with rewards (reinforcement.c) */

const tri_train_task *tri_train_task_of(const tri_run_config *config);

/* Returns whether the state between the last step and the next one can be saved. */
static inline bool tri_training_is_between(const tri_training *t) {
  return t->task->is_between == NULL || t->task->is_between(t);
}

/* COLLECTIVE. Does steps until the end of the run or a signal. */
tri_status tri_train_loop_run(tri_training *t);

/* ---- preferences ------------------------------------------------------------------------------------------------- */

/* Makes a corpus of preferences that are JSON lines, as tri_train_task.prepare (preference_data.c). */
tri_status tri_training_prepare_preferences(const tri_run_config *config);

tri_observer tri_observe_preference_validation; /* evaluates on held-out preferences every few steps */

/* LOCAL. Records that the current state was evaluated and, unless it follows a bad step, whether it is the best so far
 * by evaluation.metric (validation.c). Reads validation_loss, and the metric of `named` that evaluation.metric names.
 */
void tri_training_judged(tri_training *t);

/* COLLECTIVE. Opens the log-probabilities of a source's answers under the reference, which is the model as the run
 * begins: reads them from OUTPUT/NAME or, before the first update or if the reference is an adapter's base, computes
 * them and stores them there. *out is mapped memory; release it with tri_reference_close (reference.c). */
tri_status tri_reference_open(tri_training *t, const tri_preference_source *source, const char *name,
                              const char *fingerprint, const double **out);
void tri_reference_close(const tri_preference_source *source, const double *reference);

/* Describes the newest proven checkpoint, from which the user can resume (bad_steps.c). */
void tri_training_describe_proven(const tri_training *t, char *out, size_t out_bytes);
/* Returns whether the run ends because too many steps in a row were bad. */
bool tri_training_diverges(const tri_training *t);

/* Sets out[] to the share, tokens and epochs that the run has read from each source so far. Returns the number of
 * sources; 0 if there is only one (step_metrics.c). */
int64_t tri_training_sources(const tri_training *t, tri_source_metrics out[TRI_MOST_SOURCES]);

#endif
