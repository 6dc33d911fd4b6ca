/* The training loop, independent of the kind of data: each step, the progress, and the observers. */
#include "train/train_internal.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/stop.h"
#include "run/learning_rate.h"

const tri_train_task *tri_train_task_of(const tri_run_config *config) {
  switch (tri_objective_kind_of(&config->objective)) {
    case TRI_OBJECTIVE_OF_TEXT: return &tri_task_text;
    case TRI_OBJECTIVE_OF_ROLLOUTS: return &tri_task_reinforcement;
    case TRI_OBJECTIVE_OF_PREFERENCES: break;
  }
  return &tri_task_preferences;
}

/* COLLECTIVE. Stops all ranks if any rank was asked to stop, because a signal may have reached only some ranks, or some
 * ranks a step earlier than others. */
static tri_status agree_to_stop(tri_training *t) {
  int64_t asked = tri_stop_asked() || t->stopping;
  TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &asked));
  t->stopping = asked > 0;
  return TRI_OK;
}

static tri_status make_step(tri_training *t, tri_made_step *made) {
  double begin_s = tri_clock_s();
  *made = (tri_made_step){.lr = tri_run_config_rate(t->config, t->progress.step + 1)};
  tri_recorder_step(t->progress.step);
  tri_timing_step_begins(&t->timing, t->progress.step);
  TRI_TRY(t->task->step(t, made->lr, &made->step));
  made->seconds = tri_clock_s() - begin_s;
  TRI_TRY(agree_to_stop(t));
  tri_recorder_step(-1);
  return TRI_OK;
}

static void move_on(tri_training *t, const tri_made_step *made) {
  tri_progress *progress = &t->progress;
  progress->step++;
  progress->samples += made->step.samples;
  progress->updates += !made->step.skipped;
  progress->highest_lr = tri_engine_averaging(t->engine).highest_lr;
  progress->average_weights = tri_engine_averaging(t->engine).weights;
  progress->averaged = tri_engine_averaging(t->engine).taken;
  progress->tokens += made->step.samples * t->config->data.sequence;
  progress->seconds += made->seconds;
}

static tri_status one_step(tri_training *t) {
  tri_made_step made;
  TRI_TRY(make_step(t, &made));
  if (made.step.samples == 0) return tri_observe_state(t, &made);
  move_on(t, &made);
  TRI_TRY(tri_timing_step_ended(&t->timing, t->progress.step));
  for (tri_observer *const *observer = t->task->observers; *observer != NULL; observer++)
    TRI_TRY((*observer)(t, &made));
  return tri_timing_write_profile(&t->timing, t->stopping);
}

tri_status tri_train_loop_run(tri_training *t) {
  while (!tri_training_is_over(t) && !(t->stopping && tri_training_is_between(t))) TRI_TRY(one_step(t));
  TRI_TRY(tri_timing_end(&t->timing, t->progress.step));
  TRI_TRY(tri_timing_write_profile(&t->timing, t->stopping));
  return tri_training_end(t);
}
