/* The loop of a run that learns from a source of tokens, whatever that is: one step of the engine, the progress that
 * it makes, and its observers. */
#include "train/train_internal.h"

#include "base/clock.h"
#include "base/flight_recorder.h"
#include "base/stop.h"
#include "run/learning_rate.h"

/* A signal may have reached some ranks only, or one of them a step earlier: any one's wish is everybody's. */
static tri_status agree_to_stop(tri_training *t) {
  int64_t asked = tri_stop_asked();
  TRI_TRY(tri_all_sum_int64(&t->mesh.world, 1, &asked));
  t->stopping = asked > 0;
  return TRI_OK;
}

static tri_status make_step(tri_training *t, tri_made_step *made) {
  const tri_progress *progress = &t->progress;
  /* Steps before may have been of another global_batch. */
  const int64_t expected = progress->step * t->config->optimizer.global_batch;
  const tri_sampler_shift shift = {&t->data.train, progress->samples - expected};
  const tri_feed feed = tri_sampler_shifted_feed(&shift);
  double begin_s = tri_clock_s();
  *made = (tri_made_step){.lr = tri_run_config_rate(t->config, progress->step + 1)};
  tri_recorder_step(progress->step);
  tri_timing_step_begins(&t->timing, progress->step);
  TRI_TRY(tri_engine_step(t->engine, &feed, progress->step, progress->updates, made->lr, &made->step));
  made->seconds = tri_clock_s() - begin_s;
  TRI_TRY(agree_to_stop(t));
  tri_recorder_step(-1);
  return TRI_OK;
}

static void move_on(tri_training *t, const tri_made_step *made) {
  const tri_run_config *config = t->config;
  tri_progress *progress = &t->progress;
  progress->step++;
  progress->samples += config->optimizer.global_batch;
  progress->updates += !made->step.skipped;
  progress->highest_lr = tri_engine_averaging(t->engine).highest_lr;
  progress->average_weights = tri_engine_averaging(t->engine).weights;
  progress->averaged = tri_engine_averaging(t->engine).taken;
  progress->tokens += config->optimizer.global_batch * config->data.sequence;
  progress->seconds += made->seconds;
}

/* In this order: a line of metrics tells of the evaluation, and is there before a run is given up; what is saved has
 * been looked at. */
static tri_observer *const observers[] = {
    tri_observe_bad_steps,  tri_observe_validation, tri_observe_metrics,
    tri_observe_divergence, tri_observe_state,      tri_observe_samples,
};

static tri_status one_step(tri_training *t) {
  tri_made_step made;
  TRI_TRY(make_step(t, &made));
  move_on(t, &made);
  TRI_TRY(tri_timing_step_ended(&t->timing, t->progress.step, t->stopping));
  for (size_t i = 0; i < sizeof observers / sizeof observers[0]; i++) TRI_TRY(observers[i](t, &made));
  return TRI_OK;
}

tri_status tri_pretrain(tri_training *t) {
  while (!tri_training_is_over(t) && !t->stopping) TRI_TRY(one_step(t));
  return tri_training_end(t);
}
