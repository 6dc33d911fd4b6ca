/* Evaluates the model every few steps, and after the last step, on text that is not trained on. */
#include "train/train_internal.h"

#include "base/log.h"

#include <math.h>

static tri_status trainer_evaluate(tri_training *t) {
  tri_evaluation sums = {0};
  TRI_TRY(tri_engine_evaluate(t->engine, &t->data.validation, t->config->evaluation.sequences, &sums));
  t->validation_loss = sums.counted == 0 ? NAN : sums.loss_sum / sums.counted;
  if (sums.counted == 0 && !t->unjudged) {
    tri_warn(
        "none of the labels of the held-out text counts, so there is no validation loss; check data.sequence, "
        "data.too_long and data.ignore_token");
    t->unjudged = true;
  }
  return TRI_OK;
}

/* Returns the accuracy or the reward that evaluation.metric names; NaN if it names the loss. */
static double score_of(const tri_training *t) {
  const char *name = NULL;
  switch (t->config->evaluation.metric) {
    case TRI_BEST_BY_LOSS: return NAN;
    case TRI_BEST_BY_ACCURACY: name = TRI_HELD_OUT_ACCURACY; break;
    case TRI_BEST_BY_REWARD: name = TRI_HELD_OUT_REWARD; break;
  }
  const tri_named_metric *metric = tri_named_metrics_find(&t->named, name);
  return metric == NULL ? NAN : metric->value;
}

/* Returns the value of an evaluation that must be finite. */
static double judged_value(const tri_training *t) {
  switch (t->config->evaluation.metric) {
    case TRI_BEST_BY_LOSS:
    case TRI_BEST_BY_ACCURACY: break;
    case TRI_BEST_BY_REWARD: return score_of(t);
  }
  return t->validation_loss;
}

static bool is_better(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  if (progress->best_step == 0) return true;
  switch (t->config->evaluation.metric) {
    case TRI_BEST_BY_LOSS: break;
    case TRI_BEST_BY_ACCURACY:
    case TRI_BEST_BY_REWARD: return score_of(t) > progress->best_accuracy;
  }
  return t->validation_loss < progress->best_loss;
}

/* Compares the evaluation with the best so far, and updates the progress. During bad steps nothing is saved and the
 * weights do not change, so there is nothing to compare. */
static void compare_with_best(tri_training *t) {
  tri_progress *progress = &t->progress;
  if (progress->bad_in_row > 0) return;
  progress->not_better++;
  if (!isfinite(judged_value(t))) return;
  if (!is_better(t)) return;
  progress->best_step = progress->step;
  progress->best_loss = isfinite(t->validation_loss) ? t->validation_loss : 0;
  if (isfinite(score_of(t))) progress->best_accuracy = score_of(t);
  progress->not_better = 0;
}

void tri_training_judged(tri_training *t) {
  t->evaluated_step = isfinite(judged_value(t)) ? t->progress.step : -1;
  compare_with_best(t);
}

tri_status tri_observe_validation(tri_training *t, tri_made_step *made) {
  const tri_run_config *config = t->config;
  made->evaluated =
      !tri_training_diverges(t) && t->data.validation.per_epoch > 0 && tri_training_is_due(t, config->evaluation.every);
  if (!made->evaluated) return TRI_OK;
  TRI_TRY(trainer_evaluate(t));
  tri_training_judged(t);
  return TRI_OK;
}
