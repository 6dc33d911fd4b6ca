/* The address /metrics: the state of all runs for Prometheus. Each value has the label `run`, the run's name on the
 * board. */
#include "board/internal.h"
#include "http/exposition.h"
#include "tokenizer/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double last_of(const tri_series *s, tri_board_column column) {
  for (int64_t i = s->count - 1; i >= 0; i--) {
    const double value = tri_series_value(s, column, i);
    if (isfinite(value)) return value;
  }
  return NAN;
}

static double most_of(const tri_series *s, tri_board_column column) {
  double most = NAN;
  for (int64_t i = 0; i < s->count; i++) most = fmax(most, tri_series_value(s, column, i));
  return most;
}

static double time_of(struct timespec at) { return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec; }

/* Values of a run; NaN: the run has no such value. Without steps, step_of and tokens_of return 0. */
static double step_of(const tri_board_item *item) {
  const tri_series *s = &item->series;
  return s->count == 0 ? 0 : (double)s->steps[s->count - 1];
}
static double planned_of(const tri_board_item *item) { return item->planned > 0 ? (double)item->planned : NAN; }
static double loss_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_LOSS); }
static double validation_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_VALIDATION_LOSS); }
static double rate_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_TOKENS_PER_S); }
static double seconds_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_STEP_S); }
static double mfu_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_MFU); }
static double norm_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_GRAD_NORM); }
static double lr_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_LR); }
static double bytes_of(const tri_board_item *item) { return most_of(&item->series, TRI_BOARD_PEAK_BYTES); }
static double bad_of(const tri_board_item *item) { return last_of(&item->series, TRI_BOARD_BAD_STEPS); }
static double changed_of(const tri_board_item *item) {
  return item->series.count == 0 ? NAN : time_of(item->series.changed);
}
static double tokens_of(const tri_board_item *item) {
  const tri_series *s = &item->series;
  return s->count == 0 ? 0 : (double)s->tokens[s->count - 1];
}

typedef struct run_metric {
  tri_metric_family family;
  double (*value)(const tri_board_item *item);
} run_metric;

static const run_metric metrics[] = {
    {{"trireme_step", "gauge", "Last step of the run."}, step_of},
    {{"trireme_planned_steps", "gauge", "Steps of the whole run."}, planned_of},
    {{"trireme_loss", "gauge", "Training loss of the last step."}, loss_of},
    {{"trireme_validation_loss", "gauge", "Validation loss of the last evaluation."}, validation_of},
    {{"trireme_tokens_total", "counter", "Tokens that were trained on."}, tokens_of},
    {{"trireme_tokens_per_second", "gauge", "Tokens per second in the last step."}, rate_of},
    {{"trireme_step_seconds", "gauge", "Duration of the last step."}, seconds_of},
    {{"trireme_mfu_ratio", "gauge", "Model FLOP utilization of the last step, 0 to 1."}, mfu_of},
    {{"trireme_grad_norm", "gauge", "Norm of the gradient in the last step."}, norm_of},
    {{"trireme_learning_rate", "gauge", "Learning rate of the last step."}, lr_of},
    {{"trireme_peak_memory_bytes", "gauge", "Largest memory of a rank so far."}, bytes_of},
    {{"trireme_bad_steps_total", "counter", "Steps that were skipped because loss or gradient was not finite."},
     bad_of},
    {{"trireme_last_step_timestamp_seconds", "gauge", "Unix time when the last step was written."}, changed_of},
};
enum { NUM_METRICS = sizeof metrics / sizeof metrics[0] };

static const tri_metric_family state_family = {"trireme_run_state", "gauge", "1 for the state of the run, else 0."};

/* Returns whether another run has the same name, as runs of two folders may have. */
static bool shares_name(const tri_board *board, const tri_board_item *item) {
  for (int64_t i = 0; i < board->num_items; i++) {
    const tri_board_item *other = board->items[i];
    if (other != item && other->kind == TRI_FOUND_RUN && !other->gone && strcmp(other->name, item->name) == 0)
      return true;
  }
  return false;
}

/* Returns the name of the label `run`: the run's name, or its path if the name is not unique. NULL for a name that is
 * not UTF-8. */
static const char *label_of(const tri_board *board, const tri_board_item *item) {
  const char *name = shares_name(board, item) ? item->path : item->name;
  return tri_utf8_valid_bytes(name, strlen(name)) == strlen(name) ? name : NULL;
}

/* Calls `write` for each run that has a label. */
static void each_run(const tri_board *board, FILE *to, const run_metric *metric,
                     void (*write)(FILE *to, const run_metric *metric, const tri_board_item *item, const char *run)) {
  for (int64_t i = 0; i < board->num_items; i++) {
    const tri_board_item *item = board->items[i];
    if (item->kind != TRI_FOUND_RUN || item->gone) continue;
    const char *run = label_of(board, item);
    if (run != NULL) write(to, metric, item, run);
  }
}

static void write_value(FILE *to, const run_metric *metric, const tri_board_item *item, const char *run) {
  const tri_metric_label labels[TRI_METRIC_LABELS] = {{"run", run}};
  const double value = metric->value(item);
  if (!isnan(value)) tri_exposition_value(to, &metric->family, "", labels, value);
}

static void write_states(FILE *to, const run_metric *metric, const tri_board_item *item, const char *run) {
  const tri_board_state state = tri_board_state_of(item);
  (void)metric;
  for (int i = 0; i < TRI_NUM_BOARD_STATES; i++) {
    const tri_metric_label labels[TRI_METRIC_LABELS] = {{"run", run},
                                                        {"state", tri_board_state_name((tri_board_state)i)}};
    tri_exposition_value(to, &state_family, "", labels, (int)state == i);
  }
}

tri_status tri_board_answer_metrics(tri_board *board, tri_answer *out) {
  FILE *to = open_memstream(&out->text, &out->bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the metrics of the board");
  tri_board_lock(board);
  for (int i = 0; i < NUM_METRICS; i++) {
    tri_exposition_family(to, &metrics[i].family);
    each_run(board, to, &metrics[i], write_value);
  }
  tri_exposition_family(to, &state_family);
  each_run(board, to, NULL, write_states);
  tri_board_unlock(board);
  if (fclose(to) == 0) return TRI_OK;
  free(out->text);
  out->text = NULL;
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the metrics of the board");
}
