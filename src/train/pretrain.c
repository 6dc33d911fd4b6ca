/* Training on text: pretraining and fine-tuning. */
#include "train/train_internal.h"

static tri_status text_step(tri_training *t, double lr, tri_step *out) {
  const tri_feed feed = tri_sampler_feed(&t->data.train);
  const tri_global_batch batch = tri_training_next_batch(t);
  return tri_engine_step(t->engine, &feed, &batch, t->progress.updates, lr, out);
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
