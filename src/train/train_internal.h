/* Shared by the files of a training run: trainer.c begins and ends it, a loop (pretrain.c) makes its steps, and
 * observers look at each step that was made: one file, one concern. */
#ifndef TRI_TRAIN_TRAIN_INTERNAL_H
#define TRI_TRAIN_TRAIN_INTERNAL_H

#include "base/folder_lock.h"
#include "engine/engine.h"
#include "engine/generator.h"
#include "recovery/save.h"
#include "recovery/snapshot.h"
#include "recovery/watchdog.h"
#include "report/metrics.h"
#include "report/timing.h"
#include "run/identity.h"
#include "run/progress.h"
#include "run/run_config.h"
#include "run/run_data.h"

/* A run under way. Where it is stands in `progress` alone; a run that is killed anywhere and resumed makes the same
 * steps as one that was not. */
typedef struct tri_training {
  tri_run_config *config; /* its layout gets resolved */
  tri_mesh mesh;
  tri_device *device;
  tri_engine *engine;
  tri_expert_metrics *experts; /* [layers]: scratch for a line of the metrics */
  tri_saver *saver;
  tri_snapshots *snapshots; /* or NULL */
  tri_folder_lock *lock;    /* of the output; on the first rank */
  tri_identity identity;
  tri_run_data data;
  tri_metrics *metrics;
  tri_progress progress;
  double peak_flops, measured_flops; /* of this rank's device: the best that is known, and that of this process */
  bool peak_doubted;                 /* a step was faster than that, and it was measured again */
  double load_s;                     /* of the state that it began with */
  double loss;                       /* of the last step; on the first rank */
  double first_losses, last_losses;  /* means of a tenth of all steps: the first and the last; NaN of short runs */
  double validation_loss;            /* the last one; NaN before the first */
  bool unjudged;                     /* it was told that no label of the held-out text counts */
  int64_t evaluated_step;            /* whose state the last evaluation found finite, or -1 */
  size_t predicted_bytes;
  int64_t sampled_step; /* of the newest checkpoint that there are samples of, or -1 */
  tri_watchdog *watchdog;
  char flight[TRI_PATH_BYTES]; /* the folder in which ranks say what they were doing */
  tri_timing timing;
  bool stopping; /* some rank was asked to */
  tri_save_pending pending;
} tri_training;

static inline bool tri_training_is_rank0(const tri_training *t) { return t->mesh.world.rank == 0; }

/* Whether something that is done every few steps, and after the last, is due. */
static inline bool tri_training_is_due(int64_t step, int64_t every, int64_t steps) {
  return step == steps || (every > 0 && step % every == 0);
}

/* The validation loss has not become better for as many looks as the run waits (evaluation.stop_after). */
static inline bool tri_training_stops_early(const tri_training *t) {
  const int64_t after = t->config->evaluation.stop_after;
  return after > 0 && t->progress.not_better >= after;
}

/* There is no step to make any more. */
static inline bool tri_training_is_over(const tri_training *t) {
  return t->progress.step >= t->config->optimizer.steps || tri_training_stops_early(t);
}

/* ---- before and after the steps ---------------------------------------------------------------------------------- */

/* The layout of a run on that many ranks: an elastic one makes do with those that there are (elastic.c). */
tri_status tri_training_choose_layout(tri_run_config *config, int64_t ranks);

tri_engine_options tri_training_engine_options(const tri_run_config *config, const tri_mesh *mesh);

/* COLLECTIVE. Opens what the configuration names, makes the engine and resumes the run (setup.c). */
tri_status tri_training_open(tri_training *t, const char *resume);

void tri_training_announce(const tri_training *t);

/* What is left to do for a rank, of an even share. */
double tri_training_work_flops(const tri_training *t);

/* LOCAL. Finds the device's peak: the best of what is measured now and was before, on machines of this kind (peak.c).
 */
tri_status tri_training_measure_peak(tri_training *t);
/* LOCAL. Where a step reached more than all of it, the peak is measured again, once in a run, and the better one stays.
 * `mfu` is of the step that has just been made. */
tri_status tri_training_doubt_peak(tri_training *t, double mfu);

/* COLLECTIVE. From now on somebody notices when a rank is lost or hangs; and what such a failure is called
 * (failure.c). */
tri_status tri_training_watch(tri_training *t);
tri_status tri_training_name_failure(const tri_training *t, tri_status status);

/* How the loop ends that a signal stopped, or whose last steps were bad; and what the first rank leaves behind
 * (run_end.c). */
tri_status tri_training_end(tri_training *t);
tri_status tri_training_remove_summary(const tri_training *t);
tri_status tri_training_write_summary(tri_training *t);
void tri_training_tell_end(const tri_training *t);
tri_status tri_training_finish_ended(tri_training *t);

/* ---- samples (samples.c) ----------------------------------------------------------------------------------------- */

/* LOCAL. Whether the prompts can be written on from: by a tokenizer that is there, within the model's positions. */
tri_status tri_training_check_samples(const tri_run_config *config, const char *tokenizer);
/* LOCAL. The memory that the first rank takes while it writes them, at most; {0} without samples. */
tri_status tri_training_plan_samples(const tri_run_config *config, const tri_device *device, tri_generator_need *out);
/* COLLECTIVE. Writes those of the newest checkpoint that is whole, unless that has been done. */
tri_status tri_training_sample(tri_training *t);
/* LOCAL, on the first rank. Takes the lines of steps that are to be made again out of the file, and adds those of
 * checkpoints that a run which was killed or stopped has not come to write. */
tri_status tri_training_resume_samples(tri_training *t);

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* COLLECTIVE. Steps to the end of the run, or until a signal. Fine-tuning is the same loop: its source differs alone.
 */
tri_status tri_pretrain(tri_training *t);

/* ---- observers --------------------------------------------------------------------------------------------------- */

/* A step that was made; `progress` counts it already. */
typedef struct tri_made_step {
  tri_step step;
  double lr, seconds;
  bool evaluated; /* behind it */
} tri_made_step;

/* COLLECTIVE. Looks at a step; a loop has a list of them, and the first that fails ends it. */
typedef tri_status tri_observer(tri_training *t, tri_made_step *made);

tri_observer tri_observe_bad_steps;  /* counts steps without an update, and warns */
tri_observer tri_observe_validation; /* the validation loss, now and then */
tri_observer tri_observe_metrics;    /* a line of metrics */
tri_observer tri_observe_divergence; /* too many bad steps in a row end the run */
tri_observer tri_observe_state;      /* checkpoints and snapshots */
tri_observer tri_observe_samples;    /* texts of a checkpoint that is there now (samples.c) */

/* Where to go back to, in words: the newest checkpoint that later steps have proven (bad_steps.c). */
void tri_training_describe_proven(const tri_training *t, char *out, size_t out_bytes);
/* The run ends here, since too many steps in a row were bad. */
bool tri_training_diverges(const tri_training *t);

/* What has been read of each source when that many steps are made; nothing of one that is alone. Returns their number
 * (step_metrics.c). */
int64_t tri_training_sources(const tri_training *t, tri_source_metrics out[TRI_MOST_SOURCES]);

#endif
