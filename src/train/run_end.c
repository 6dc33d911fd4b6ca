/* Ends a run: its last messages, its summary, and the curve of its losses. */
#include "train/train_internal.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "chat/format.h"
#include "checkpoint/checkpoint.h"
#include "comm/comm.h"
#include "files/file.h"
#include "files/shell_word.h"
#include "report/loss_curve.h"
#include "report/summary.h"
#include "run/learning_rate.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FEWEST_STEPS = 20 }; /* with fewer steps, losses are not compared, because a tenth of the steps is too few */

/* A loss is too high if it is above ABOVE_RANDOM times that of a model that has learned nothing, ln(vocabulary); it has
 * risen if it is above RISEN times the mean of the first losses. */
static const double ABOVE_RANDOM = 1.05, RISEN = 1.02;

/* Returns the name of the value of an evaluation that must be finite. */
static const char *judged_name(tri_best_by metric) {
  switch (metric) {
    case TRI_BEST_BY_LOSS:
    case TRI_BEST_BY_ACCURACY: break;
    case TRI_BEST_BY_REWARD: return "reward";
  }
  return "loss";
}

static void log_early_end(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  if (!tri_training_is_rank0(t)) return;
  if (progress->best_step == 0) {
    tri_log(
        "ended early, after step %ld: none of %ld evaluation%s had a finite validation %s "
        "(evaluation.stop_after)",
        (long)progress->step, (long)progress->not_better, TRI_PLURAL(progress->not_better),
        judged_name(t->config->evaluation.metric));
    return;
  }
  switch (t->config->evaluation.metric) {
    case TRI_BEST_BY_LOSS: break;
    case TRI_BEST_BY_ACCURACY:
      tri_log(
          "ended early, after step %ld: the accuracy of %ld evaluation%s on held-out pairs has not been better than "
          "the "
          "%.2f %% of step %ld (evaluation.stop_after)",
          (long)progress->step, (long)progress->not_better, TRI_PLURAL(progress->not_better),
          100 * progress->best_accuracy, (long)progress->best_step);
      return;
    case TRI_BEST_BY_REWARD:
      tri_log(
          "ended early, after step %ld: the validation reward of %ld evaluation%s has not been above the %.4f of step "
          "%ld (evaluation.stop_after)",
          (long)progress->step, (long)progress->not_better, TRI_PLURAL(progress->not_better), progress->best_accuracy,
          (long)progress->best_step);
      return;
  }
  tri_log(
      "ended early, after step %ld: the validation loss of %ld evaluation%s has not been below the %.4f of step %ld "
      "(evaluation.stop_after)",
      (long)progress->step, (long)progress->not_better, TRI_PLURAL(progress->not_better), progress->best_loss,
      (long)progress->best_step);
}

/* On the first rank: fails because the evaluation after the last step of this process has failed. The same command does
 * not repeat the evaluation. */
static tri_status fail_after_last_step(const tri_training *t) {
  return tri_fail(t->stop_status,
                  "the run has made %s, but the evaluation after step %ld failed, so its weights have no "
                  "validation reward; %s",
                  t->progress.step < t->config->optimizer.steps ? "the steps up to --stop-at" : "all steps",
                  (long)t->progress.step,
                  t->config->checkpoint.at_end ? "its checkpoint is written"
                                               : "it is not saved, since `checkpoint.at_end` is false");
}

/* Returns the status of a run whose loop has ended, with a message: TRI_INTERRUPTED after a signal, TRI_DIVERGED after
 * bad steps, t->stop_status if the run stops by itself, else TRI_OK. */
tri_status tri_training_end(tri_training *t) {
  const tri_progress *progress = &t->progress;
  char proven[1100];
  if (progress->bad_in_row > 0) {
    tri_status status = t->stopping ? TRI_INTERRUPTED : TRI_DIVERGED;
    if (!tri_training_is_rank0(t)) return tri_fail(status, "%s", "");
    tri_training_describe_proven(t, proven, sizeof proven);
    return tri_fail(status,
                    "%s after step %ld, among %ld bad steps in a row, whose state is not saved; %s; the same command "
                    "continues from the newest one",
                    t->stopping ? "interrupted" : "the run ends", (long)progress->step, (long)progress->bad_in_row,
                    proven);
  }
  if (tri_training_stops_early(t)) log_early_end(t);
  if (t->stop_status == TRI_OK && (tri_training_is_over(t) || !t->stopping)) return TRI_OK;
  if (t->progress.step >= tri_training_last_step(t)) return fail_after_last_step(t);
  if (!tri_training_is_rank0(t)) return tri_fail(TRI_INTERRUPTED, "%s", "");
  const char *saved = !t->config->checkpoint.at_end && t->snapshots != NULL
                          ? "it has no checkpoint, since `checkpoint.at_end` is false; the same command continues from "
                            "the newest snapshot or checkpoint"
                      : !t->config->checkpoint.at_end ? "it is not saved, since `checkpoint.at_end` is false"
                      : progress->updates == 0        ? "it is not saved, since no step has changed the weights"
                                               : "its checkpoint is written, and the same command continues from there";
  if (t->stop_status != TRI_OK)
    return tri_fail(t->stop_status, "stopped after step %ld; %s", (long)progress->step, saved);
  return tri_fail(TRI_INTERRUPTED, "interrupted after step %ld; %s", (long)progress->step, saved);
}

static double loss_of(const tri_step_metrics *step) { return step->loss; }
static double chosen_of(const tri_step_metrics *step) { return step->chosen_logp; }

/* Returns the mean of the finite values of the steps after `after`, up to `last`. */
static double mean_of(const tri_metrics_history *history, double (*value_of)(const tri_step_metrics *step),
                      int64_t after, int64_t last) {
  double sum = 0;
  int64_t count = 0;
  for (int64_t i = 0; i < history->count; i++) {
    const tri_step_metrics *step = &history->steps[i];
    if (step->step <= after || step->step > last || !isfinite(value_of(step))) continue;
    sum += value_of(step);
    count++;
  }
  return count == 0 ? NAN : sum / (double)count;
}

/* Sets the mean losses and log-probabilities of chosen answers at the beginning and at the end of the run (first_losses
 * to last_chosen of tri_training). Does nothing for a run of fewer than FEWEST_STEPS steps. */
static void compare_losses(tri_training *t, const tri_metrics_history *history) {
  const int64_t steps = t->progress.step, tenth = steps / 10;
  if (steps < FEWEST_STEPS) return;
  t->first_steps = tenth;
  t->first_losses = mean_of(history, loss_of, 0, tenth);
  t->last_losses = mean_of(history, loss_of, steps - tenth, steps);
  t->first_chosen = mean_of(history, chosen_of, 0, 1);
  t->last_chosen = mean_of(history, chosen_of, steps - tenth, steps);
  /* A loss that rose within the first tenth may have fallen since; then it is compared with the first step. */
  const double begin = mean_of(history, loss_of, 0, 1), random = log((double)t->config->model.vocab_size);
  if (t->last_losses <= begin || t->last_losses <= ABOVE_RANDOM * random) return;
  if (begin >= t->first_losses) return;
  t->first_steps = 1;
  t->first_losses = begin;
}

/* Writes the curve of the losses and the summary. The summary is the last file of a run: an ended run without one was
 * killed before all its files were written. */
tri_status tri_training_write_summary(tri_training *t) {
  const tri_run_config *config = t->config;
  char path[TRI_PATH_BYTES], title[TRI_RUN_TITLE_BYTES];
  tri_metrics_history history = {0};
  tri_source_metrics sources[TRI_MOST_SOURCES];
  tri_run_config_title(config, title, sizeof title);
  TRI_TRY(tri_path_join(path, config->output, "metrics.jsonl"));
  TRI_TRY(tri_metrics_history_read(path, t->progress.step + 1, &history));
  tri_run_summary summary = {
      .seconds = t->progress.seconds,
      .peak_bytes_predicted = t->predicted_bytes,
      .peak_bytes_measured = tri_engine_measured_bytes(t->engine),
      .model = title,
      .device = t->device->info.name,
      .precision = tri_dtype_name(config->precision),
      .ranks = tri_comm_size(),
      .threads = t->device->description.threads,
      .nodes = tri_comm_num_nodes(),
      .checkpoint_pause_s = tri_saver_newest(t->saver).pause_s,
      .checkpoint_s = tri_saver_newest(t->saver).whole_s,
      .load_s = t->load_s,
      .time = t->timing.shares,
      .sources = sources,
      .num_sources = tri_training_sources(t, sources),
      .ended_early = tri_training_stops_early(t),
  };
  compare_losses(t, &history);
  tri_engine_waits(t->engine, &summary.result_waits, &summary.staging_waits);
  tri_status status = tri_run_summary_fill(&history, &summary);
  /* The run's best loss replaces that of the history, whose earlier steps may have been evaluated on other text. */
  if (t->progress.best_step > 0 && t->data.prompts.count == 0) {
    summary.best_validation_loss = t->progress.best_loss;
    summary.best_validation_step = t->progress.best_step;
  }
  if (status == TRI_OK) status = tri_path_join(path, config->output, "loss.svg");
  if (status == TRI_OK) status = tri_loss_curve_write(&history, title, path);
  if (status == TRI_OK) status = tri_path_join(path, config->output, "summary.json");
  if (status == TRI_OK) status = tri_run_summary_write(&summary, path);
  tri_metrics_history_release(&history);
  return status;
}

/* Returns the words for the best step in the last log line, by the metric that chooses this step. */
static const char *best_name(tri_best_by metric) {
  switch (metric) {
    case TRI_BEST_BY_LOSS: break;
    case TRI_BEST_BY_ACCURACY: return "with the best accuracy it";
    case TRI_BEST_BY_REWARD: return "with the best reward it";
  }
  return "the lowest";
}

static void log_rewards(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  char seconds[32], validation[80] = "", best[80] = "";
  if (isfinite(t->validation_reward))
    snprintf(validation, sizeof validation, ", validation reward %.4f", t->validation_reward);
  if (progress->best_step > 0 && progress->best_accuracy > t->validation_reward)
    snprintf(best, sizeof best, " (the best was %.4f, after step %ld)", progress->best_accuracy,
             (long)progress->best_step);
  tri_log("%ld step%s in %s: reward %.4f%s%s", (long)progress->step, TRI_PLURAL(progress->step),
          tri_format_seconds(progress->seconds, seconds, sizeof seconds), t->reward, validation, best);
}

static void log_losses(const tri_training *t) {
  const tri_progress *progress = &t->progress;
  char seconds[32], validation[80] = "", best[80] = "";
  if (isfinite(t->validation_loss))
    snprintf(validation, sizeof validation, ", validation loss %.4f", t->validation_loss);
  if (progress->best_step > 0 && progress->best_loss < t->validation_loss) {
    snprintf(best, sizeof best, " (%s was %.4f, after step %ld)", best_name(t->config->evaluation.metric),
             progress->best_loss, (long)progress->best_step);
  }
  tri_log("%ld step%s in %s: loss %.4f%s%s%s", (long)progress->step, TRI_PLURAL(progress->step),
          tri_format_seconds(progress->seconds, seconds, sizeof seconds), t->loss, validation, best, t->answers);
}

static bool is_stopped(const tri_training *t) {
  return t->progress.step < t->config->optimizer.steps && t->progress.step >= tri_training_last_step(t);
}

/* Suggests more steps. They stretch the schedule of the learning rate, so the next rate may differ much from the
 * current one. */
static void suggest_more_steps(const tri_run_config *config, const tri_progress *progress) {
  const int64_t steps = config->optimizer.steps;
  tri_run_config *longer = NULL;
  if (tri_alloc("a longer run", 1, sizeof *longer, &longer) != TRI_OK) return;
  *longer = *config;
  longer->optimizer.steps = 2 * steps;
  longer->optimizer.epochs = 2 * config->optimizer.epochs;
  (void)tri_run_config_count_steps(longer, config->optimizer.epoch_samples, progress->step, progress->samples);
  const double now = tri_run_config_rate(config, steps), then = tri_run_config_rate(longer, steps + 1);
  char rate[120] = "";
  if (now != then) {
    snprintf(rate, sizeof rate, "; the learning rate then goes from %.3g at step %ld to %.3g at step %ld", now,
             (long)steps, then, (long)steps + 1);
  }
  if (config->optimizer.epochs > 0) {
    tri_log("  more epochs: the same command with --set optimizer.epochs=%g%s", 2 * config->optimizer.epochs, rate);
  } else {
    tri_log("  more steps: the same command with --set optimizer.steps=%ld%s", 2 * (long)steps, rate);
  }
  tri_free(longer);
}

/* Returns whether the loss has risen by more than the differences between batches. */
static bool has_risen(const tri_training *t) {
  return t->data.prompts.count == 0 && t->last_losses > RISEN * t->first_losses;
}

/* Warns if the loss has risen, because the last line alone does not show it. */
static void warn_of_rise(const tri_training *t) {
  const tri_run_config *config = t->config;
  const long tenth = (long)(t->progress.step / 10);
  char before[80], clip[64] = "a clipped gradient (optimizer.clip=1)";
  if (!has_risen(t)) return;
  if (t->first_steps > 1) {
    snprintf(before, sizeof before, "its mean was %.4f in the first %ld steps", t->first_losses, (long)t->first_steps);
  } else {
    snprintf(before, sizeof before, "it was %.4f in the first step", t->first_losses);
  }
  if (config->optimizer.clip > 0) snprintf(clip, sizeof clip, "a lower optimizer.clip (%g)", config->optimizer.clip);
  tri_warn(
      "the loss has risen: %s and %.4f in the last %ld%s; try a lower optimizer.lr "
      "(%g), a longer optimizer.warmup (%ld step%s) or %s, and start over (--resume never)",
      before, t->last_losses, tenth, t->first_steps > 1 ? "" : " (mean)", config->optimizer.lr,
      (long)config->optimizer.warmup, TRI_PLURAL(config->optimizer.warmup), clip);
}

/* Warns if the model has become less likely to give the chosen answers, because the loss and the accuracy of pairs do
 * not show it. */
static void warn_of_chosen(const tri_training *t) {
  static const double FALLEN = 0.2, LEAST = 1; /* FALLEN: fraction of the first value; LEAST: natural logarithms */
  const double fallen = t->first_chosen - t->last_chosen;
  const tri_objective_config *objective = &t->config->objective;
  if (!(fallen > LEAST) || !(fallen > FALLEN * fabs(t->first_chosen))) return;
  tri_warn(
      "the chosen answers have become less likely: logps/chosen was %.2f in the first step and %.2f in the last %ld "
      "(mean); read some texts (trireme generate), and try a lower optimizer.lr (%g), a higher objective.beta (%g) or "
      "objective.sft_weight",
      t->first_chosen, t->last_chosen, (long)(t->progress.step / 10), t->config->optimizer.lr, objective->beta);
}

/* Returns whether the model was trained on conversations with a chat template, which its prompts need, too. */
static bool is_chat_run(const tri_training *t) {
  const tri_chat_format_options options = {.tokenizer = t->data.tokenizer};
  tri_chat_format format = {0};
  if (t->data.train_corpora[0] == NULL || !tri_corpus_has_mask(t->data.train_corpora[0])) return false;
  const bool found = tri_chat_format_create(&options, &format) == TRI_OK;
  tri_chat_format_release(&format);
  return found;
}

/* Suggests the next commands. */
static void suggest_next(const tri_training *t) {
  const tri_run_config *config = t->config;
  const char *judged = config->data.validation[0] != '\0' ? config->data.validation : config->data.train[0].path;
  char output[TRI_SHELL_WORD_BYTES], data[TRI_SHELL_WORD_BYTES];
  const char *run = tri_shell_word(config->output, output);
  if (t->data.tokenizer[0] != '\0' && !has_risen(t)) {
    tri_log("  trireme generate %s %s", run, is_chat_run(t) ? "--chat" : "--prompt 'The'");
  }
  if (t->task->suggests_eval) tri_log("  trireme eval %s %s", run, tri_shell_word(judged, data));
  if (tri_training_stops_early(t)) {
    tri_log("  more steps: the same command with --set evaluation.stop_after=%ld, or 0 to make all of the %ld steps",
            2 * (long)config->evaluation.stop_after, (long)config->optimizer.steps);
  } else if (is_stopped(t)) {
    tri_log("  the rest of the %ld steps: the same command without --stop-at", (long)config->optimizer.steps);
  } else {
    suggest_more_steps(config, &t->progress);
  }
}

void tri_training_announce_end(const tri_training *t) {
  const tri_run_config *config = t->config;
  char root[TRI_PATH_BYTES];
  (t->data.prompts.count > 0 ? log_rewards : log_losses)(t);
  warn_of_rise(t);
  warn_of_chosen(t);
  if (t->timing.profile.summary[0] != '\0') tri_log("time of the profiled steps: %s", t->timing.profile.summary);
  if (tri_path_join(root, config->output, "checkpoints") != TRI_OK) return;
  if (!tri_checkpoint_is_there(root, t->progress.step)) {
    tri_log("the last step is not saved, since `checkpoint.at_end` is false; loss.svg and summary.json are in %s",
            config->output);
    return;
  }
  tri_log("checkpoint %s/step-%08ld; loss.svg and summary.json are in %s. What next:", root, (long)t->progress.step,
          config->output);
  suggest_next(t);
}

/* Removes the summary, which describes an ended run, before the run continues. */
tri_status tri_training_remove_summary(const tri_training *t) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, t->config->output, "summary.json"));
  if (unlink(path) == 0 || errno == ENOENT) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot remove %s: %s", path, strerror(errno));
}

void tri_training_drop_snapshots(const tri_training *t) {
  char root[TRI_PATH_BYTES];
  if (t->snapshots == NULL) return;
  if (is_stopped(t) && (tri_path_join(root, t->config->output, "checkpoints") != TRI_OK ||
                        !tri_checkpoint_is_there(root, t->progress.step)))
    return;
  tri_snapshots_remove(t->snapshots);
}

/* Completes a run that made all its steps. If it was killed after its last checkpoint, the remaining files are written
 * now. */
tri_status tri_training_finish_ended(tri_training *t) {
  char path[TRI_PATH_BYTES];
  const bool early = tri_training_stops_early(t), by_epochs = t->config->optimizer.epochs > 0;
  tri_log("the run in %s has %s %ld step%s already; raise %s to continue, or start over with --resume never",
          t->config->output, early ? "ended early, after" : "made its", (long)t->progress.step,
          TRI_PLURAL(t->progress.step),
          early           ? "evaluation.stop_after"
          : is_stopped(t) ? "--stop-at"
          : by_epochs     ? "optimizer.epochs"
                          : "optimizer.steps");
  tri_training_drop_snapshots(t);
  TRI_TRY(tri_path_join(path, t->config->output, "summary.json"));
  return tri_training_is_rank0(t) && !tri_path_exists(path) ? tri_training_write_summary(t) : TRI_OK;
}
