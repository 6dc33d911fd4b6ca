/* Handles steps without an update. A step is *bad* if its loss or gradient is not finite: it is reported, its state is
 * not saved, and too many bad steps in a row end the run. A step is *empty* if none of its labels counts: the weights
 * stay the same and the run continues, unless its first steps are all empty. */
#include "train/train_internal.h"

#include "base/format.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "files/file.h"

/* Describes the checkpoint to resume from: the newest one that later steps have proven. */
void tri_training_describe_proven(const tri_training *t, char *out, size_t out_bytes) {
  char root[TRI_PATH_BYTES], path[TRI_PATH_BYTES] = "";
  bool known = tri_path_join(root, t->config->output, "checkpoints") == TRI_OK &&
               tri_checkpoint_newest_proven(root, path) == TRI_OK && path[0] != '\0';
  if (known) snprintf(out, out_bytes, "the last good checkpoint is %.1000s", path);
  if (!known) snprintf(out, out_bytes, "no good checkpoint has been saved");
}

/* Warns of the first layer whose router computed weights that are not finite, since routers often fail first. */
static void warn_of_routers(const tri_training *t) {
  const tri_router_loads loads = tri_engine_router_loads(t->engine);
  for (int64_t layer = 0; layer < loads.num_layers; layer++) {
    const int64_t bad = loads.counts[layer * (loads.experts + 1) + loads.experts];
    if (bad == 0) continue;
    tri_warn("step %ld: the router of layer %ld gave %ld tokens weights that are not finite; it is the first that did",
             (long)t->progress.step, (long)layer, (long)bad);
    return;
  }
}

static bool is_empty(const tri_step *step) { return step->skipped && step->counted == 0; }

tri_status tri_observe_bad_steps(tri_training *t, tri_made_step *made) {
  const tri_step *step = &made->step;
  if (is_empty(step)) {
    if (tri_training_is_rank0(t)) tri_warn("step %ld is skipped: none of its labels counts", (long)t->progress.step);
    return TRI_OK;
  }
  if (!step->skipped) {
    t->progress.bad_in_row = 0;
    t->pending.snapshot_unproven = false;
    tri_saver_prove(t->saver);
    return TRI_OK;
  }
  t->progress.bad_steps++;
  if (t->progress.bad_in_row++ == 0) t->first_bad_step = t->progress.step;
  if (tri_training_is_rank0(t)) {
    tri_warn("step %ld is skipped: its loss is %g and its gradient norm %g", (long)t->progress.step, step->loss,
             step->grad_norm);
    warn_of_routers(t);
  }
  return TRI_OK;
}

bool tri_training_diverges(const tri_training *t) {
  return t->progress.bad_in_row > 0 && t->progress.bad_in_row >= t->config->optimizer.max_bad_steps;
}

/* Formats the bad steps in a row, such as "steps 2 to 11"; steps without a label that counts may be among them. */
static char *describe_bad_steps(const tri_training *t, char *buffer, size_t bytes) {
  const long last = (long)t->progress.step, first = (long)t->first_bad_step;
  if (first == last) snprintf(buffer, bytes, "step %ld", last);
  if (first < last) snprintf(buffer, bytes, "steps %ld to %ld", first, last);
  return buffer;
}

/* COLLECTIVE. Fails because of bad steps, and removes the state that they may have spoiled; only the first rank has a
 * message. The board recognizes these messages by "so the run stops". */
static tri_status give_up(tri_training *t) {
  char proven[1100], steps[64];
  (void)tri_saver_finish(
      t->saver); /* a checkpoint of the spoiled state may be in progress; a failed save leaves none */
  tri_saver_disprove(t->saver);
  if (t->snapshots != NULL && t->pending.snapshot_unproven) tri_snapshots_remove(t->snapshots);
  if (!tri_training_is_rank0(t)) return tri_fail(TRI_DIVERGED, "%s", "");
  tri_training_describe_proven(t, proven, sizeof proven);
  describe_bad_steps(t, steps, sizeof steps);
  return tri_fail(TRI_DIVERGED,
                  "the loss or gradient was NaN or infinite in %s, so the run stops; nothing was saved in them; %s; "
                  "try a lower optimizer.lr or a longer optimizer.warmup, or look at the data there",
                  steps, proven);
}

/* Returns whether the run has made only empty steps, as many as max_bad_steps or all of its steps. */
static bool has_learnt_nothing(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  const bool enough = progress->step >= t->config->optimizer.max_bad_steps || tri_training_is_over(t);
  return enough && progress->updates == 0 && progress->bad_steps == 0;
}

/* Describes a reason why no label counts, and the remedy. */
static void describe_empty_steps(const tri_run_config *config, char *out, size_t bytes) {
  const long token = (long)config->data.ignore_token, most = (long)config->rollout.max_completion_length;
  char ignored[96] = "";
  if (config->objective.policy.mask_truncated_completions) {
    snprintf(out, bytes,
             "; completions of rollout.max_completion_length %ld tokens do not count "
             "(objective.mask_truncated_completions): raise it, or look at rollouts.jsonl",
             most);
    return;
  }
  if (token >= 0) snprintf(ignored, sizeof ignored, "; data.ignore_token is %ld: the corpus has little else", token);
  snprintf(out, bytes, "%s; look at data.train (trireme inspect): are its answers within data.sequence?", ignored);
}

static tri_status give_up_empty(const tri_training *t) {
  char reason[256] = "";
  const long steps = (long)t->progress.step;
  if (!tri_training_is_rank0(t)) return tri_fail(TRI_DIVERGED, "%s", "");
  describe_empty_steps(t->config, reason, sizeof reason);
  return tri_fail(TRI_DIVERGED, "no label counted in the first %ld step%s, so the run stops%s", steps,
                  TRI_PLURAL(steps), reason);
}

tri_status tri_observe_divergence(tri_training *t, tri_made_step *made) {
  if (tri_training_diverges(t)) return give_up(t);
  return is_empty(&made->step) && has_learnt_nothing(t) ? give_up_empty(t) : TRI_OK;
}
