/* Training on text: pretraining and fine-tuning. */
#include "train/train_internal.h"

/* Trains on the next samples. Earlier steps may have had another global_batch, so the feed is shifted by the difference
 * between the samples read and step * batch. */
static tri_status text_step(tri_training *t, double lr, tri_step *out) {
  const tri_progress *progress = &t->progress;
  const int64_t expected = progress->step * t->config->optimizer.global_batch;
  const tri_sampler_shift shift = {&t->data.train, progress->samples - expected};
  const tri_feed feed = tri_sampler_shifted_feed(&shift);
  return tri_engine_step(t->engine, &feed, progress->step, progress->updates, lr, out);
}

static tri_observer *const observers[] = {
    tri_observe_bad_steps,
    tri_observe_validation,
    tri_observe_metrics,
    tri_observe_divergence,
    tri_observe_state,
    tri_observe_samples,
    NULL,
};

const tri_train_task tri_task_text = {.name = "text",
                                      .data = &tri_run_data_text,
                                      .held_out_key = "data.validation",
                                      .suggests_eval = true,
                                      .announce = tri_training_announce_text,
                                      .step = text_step,
                                      .observers = observers};
