/* What is kept of a run while it goes on: checkpoints, and snapshots in the memory of the nodes. */
#include "train/train_internal.h"

#include "comm/agreement.h"

static tri_status prepare_save(tri_training *t) {
  if (!tri_training_is_first(t)) return TRI_OK;
  TRI_TRY(tri_folder_lock_check(t->lock));
  return tri_metrics_sync(t->metrics);
}

static tri_status save(tri_training *t) {
  TRI_TRY(tri_first_rank_status(&t->mesh.world, prepare_save(t)));
  bool last = t->stopping || tri_training_is_over(t);
  t->save_waits = false;
  TRI_TRY(tri_saver_finish(t->saver));
  TRI_TRY(tri_training_sample(t)); /* of the one before, also when the run stops: the next save may remove it */
  TRI_TRY(tri_saver_save(t->saver, &t->progress));
  if (t->evaluated_step == t->progress.step) tri_saver_prove(t->saver);
  return last ? tri_saver_finish(t->saver) : TRI_OK;
}

/* What there is to keep after a step. Among bad steps there is nothing: their state may be ruined, and what it would
 * push out is not. */
static tri_status keep_state(tri_training *t) {
  const tri_run_config *config = t->config;
  bool ends = t->stopping || tri_training_is_over(t);
  bool best = config->checkpoint.best && t->progress.best_step == t->progress.step;
  bool due = best || t->save_waits || tri_training_is_due(t->progress.step, config->checkpoint.every, -1);
  if (t->progress.bad_in_row > 0) {
    t->save_waits = due;
    return ends ? tri_saver_finish(t->saver) : TRI_OK;
  }
  if (due || (ends && config->checkpoint.at_end)) return save(t);
  if (ends) return tri_saver_finish(t->saver);
  if (t->snapshots == NULL || t->progress.step % config->checkpoint.snapshot_every != 0) return TRI_OK;
  TRI_TRY(tri_saver_finish_best(t->saver)); /* a run that begins with the snapshot counts on it */
  t->snapshot_unproven = true;
  return tri_snapshots_take(t->snapshots, &t->progress);
}

tri_status tri_observe_state(tri_training *t, tri_made_step *made) {
  (void)made;
  TRI_TRY(tri_saver_look(t->saver));
  return keep_state(t);
}
