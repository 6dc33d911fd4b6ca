/* Saves checkpoints and takes snapshots after steps; recovery/save.c decides which. */
#include "train/train_internal.h"

#include "comm/agreement.h"

/* Flushes the metrics, because a checkpoint may only exist together with the line of metrics of its step. Writes
 * outstanding samples, also when the run stops, because the save may remove the checkpoint that these samples need. */
static tri_status before_save(void *context) {
  tri_training *t = context;
  const tri_status status = tri_training_is_rank0(t) ? tri_metrics_sync(t->metrics) : TRI_OK;
  TRI_TRY(tri_first_rank_status(&t->mesh.world, status));
  return tri_training_sample(t);
}

tri_status tri_observe_state(tri_training *t, tri_made_step *made) {
  (void)made;
  const tri_save_moment moment = {.progress = &t->progress,
                                  .last = (t->stopping && tri_training_is_between(t)) || tri_training_is_over(t),
                                  .inside = !tri_training_is_between(t),
                                  .evaluated = t->evaluated_step == t->progress.step,
                                  .before_save = before_save,
                                  .context = t};
  return tri_save_after_step(t->saver, t->snapshots, &moment, &t->pending);
}
