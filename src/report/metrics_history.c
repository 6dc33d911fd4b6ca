/* Reads metrics.jsonl back, and removes the steps after the one that a run resumes from.
 *
 * A process may have died while it wrote a line, a disk may have been full, a user may have edited the file. A line is
 * *valid* if it ends with a newline, is a JSON object with a step, and its step comes after those of the valid lines
 * before it. Invalid lines are skipped; they stay in the file if a valid line follows, which must not be lost. */
#include "base/memory.h"
#include "files/file.h"
#include "files/lines.h"
#include "files/write_fault.h"
#include "report/metrics.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Returns a number of an object; NaN if it is missing or not a number, or if it is above 1e30, which is too large for
 * any step: sums and shares of such numbers would be meaningless. */
static double real_of(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  const double most = 1e30, number = json_is_number(value) ? json_number_value(value) : NAN;
  return fabs(number) <= most ? number : NAN;
}

static int64_t integer_of(const json_t *object, const char *key) {
  return (int64_t)json_integer_value(json_object_get(object, key));
}

enum { LONGEST_LINE_BYTES = 1 << 20 };

/* Accuracies of preferences, of training and of held-out pairs; NaN: the line has none. */
typedef struct accuracies {
  double trained, held_out;
} accuracies;

static bool parse_line(const tri_line *line, tri_step_metrics *out, accuracies *accuracy) {
  json_t *object = line->too_long ? NULL : json_loadb(line->text, line->bytes, JSON_REJECT_DUPLICATES, NULL);
  bool good = json_is_object(object) && json_is_integer(json_object_get(object, "step"));
  if (good) {
    *accuracy = (accuracies){real_of(object, TRI_ACCURACY), real_of(object, TRI_HELD_OUT_ACCURACY)};
    *out = (tri_step_metrics){
        .step = integer_of(object, "step"),
        .loss = real_of(object, "loss"),
        .grad_norm = real_of(object, "grad_norm"),
        .lr = real_of(object, "lr"),
        .tokens = integer_of(object, "tokens"),
        .tokens_per_s = real_of(object, "tokens_per_s"),
        .step_s = real_of(object, "step_s"),
        .mfu = real_of(object, "mfu"),
        .peak_bytes = (size_t)integer_of(object, "peak_bytes"),
        .bad_steps = integer_of(object, "bad_steps"),
        .evaluated = json_object_get(object, "validation_loss") != NULL,
        .validation_loss = real_of(object, "validation_loss"),
        .chosen_logp = real_of(object, TRI_CHOSEN_LOGP),
    };
  }
  json_decref(object);
  return good;
}

static tri_status metrics_history_append(tri_metrics_history *history, int64_t *capacity,
                                         const tri_step_metrics *step) {
  TRI_TRY(tri_grow("the metrics of a run", sizeof *step, history->count, capacity, &history->steps));
  history->steps[history->count++] = *step;
  return TRI_OK;
}

/* Kinds of lines, for a reader of the steps before end_step. */
typedef enum line_kind {
  /* A valid line of a step before end_step. */
  LINE_COUNTS,
  LINE_IS_LATER, /* a line of step end_step or later */
  LINE_IS_ODD,   /* a line without a step, or whose step is not after those before it */
  LINE_IS_TORN,  /* the last line, if it has no newline */
} line_kind;

static line_kind kind_of(const tri_line *line, int64_t end_step, int64_t after, tri_step_metrics *step,
                         accuracies *accuracy) {
  if (!line->ended) return LINE_IS_TORN;
  if (!parse_line(line, step, accuracy)) return LINE_IS_ODD;
  if (step->step >= end_step) return LINE_IS_LATER;
  return step->step > after && step->step > 0 ? LINE_COUNTS : LINE_IS_ODD;
}

static int64_t last_step(const tri_metrics_history *history) {
  return history->count == 0 ? INT64_MIN : history->steps[history->count - 1].step;
}

/* Counts a line, and updates the facts about lines that have to be removed. `end`: position of the line's end. */
static tri_status count_line(tri_metrics_history *history, int64_t *capacity, line_kind kind,
                             const tri_step_metrics *step, int64_t end) {
  history->num_lines++;
  switch (kind) {
    case LINE_COUNTS:
      history->bytes = end;
      history->num_behind = 0;
      history->scattered = history->num_later > 0;
      return metrics_history_append(history, capacity, step);
    case LINE_IS_LATER:
      if (history->num_later++ == 0 || step->step < history->later_first) history->later_first = step->step;
      if (step->step > history->later_last) history->later_last = step->step;
      break;
    case LINE_IS_ODD:
      if (history->num_odd++ == 0) history->first_odd = history->num_lines;
      history->num_behind++;
      break;
    case LINE_IS_TORN: break;
  }
  return TRI_OK;
}

tri_status tri_metrics_history_read(const char *path, int64_t end_step, tri_metrics_history *out) {
  tri_status status = TRI_OK;
  tri_metrics_history history = {.accuracy = NAN, .held_out_accuracy = NAN};
  int64_t capacity = 0;
  tri_lines *lines = NULL;
  TRI_TRY(tri_lines_open(path, LONGEST_LINE_BYTES, &lines));
  for (;;) {
    tri_step_metrics step = {0};
    tri_line line;
    bool there = false;
    TRI_TRY_GOTO(tri_lines_next_any(lines, &line, &there), close_file);
    if (!there) break;
    accuracies accuracy = {NAN, NAN};
    const line_kind kind = kind_of(&line, end_step, last_step(&history), &step, &accuracy);
    if (kind == LINE_COUNTS && isfinite(accuracy.trained)) history.accuracy = accuracy.trained;
    if (kind == LINE_COUNTS && isfinite(accuracy.held_out)) history.held_out_accuracy = accuracy.held_out;
    TRI_TRY_GOTO(count_line(&history, &capacity, kind, &step, line.end), close_file);
  }
  *out = history;
  history.steps = NULL;
close_file:
  tri_free(history.steps);
  tri_lines_close(lines);
  return status;
}

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

/* Copies the first `bytes` bytes of a file without the lines of step end_step and later. */
static tri_status copy_lines(const char *path, int64_t end_step, int64_t bytes, tri_file_writer *to) {
  tri_lines *lines = NULL;
  tri_status status = TRI_OK;
  tri_line line = {.end = 0};
  int64_t kept = 0; /* position in the file; the lines from it up to `line` have to be copied */
  bool there = true;
  TRI_TRY(tri_lines_open(path, LONGEST_LINE_BYTES, &lines));
  while (status == TRI_OK && there && line.end < bytes) {
    tri_step_metrics step;
    accuracies accuracy;
    status = tri_lines_next_any(lines, &line, &there);
    if (status != TRI_OK || !there || kind_of(&line, end_step, INT64_MIN, &step, &accuracy) != LINE_IS_LATER) continue;
    status = tri_file_writer_copy(to, path, kept, line.first);
    kept = line.end;
  }
  tri_lines_close(lines);
  return status == TRI_OK ? tri_file_writer_copy(to, path, kept, line.end) : status;
}

static tri_status rewrite(const char *path, int64_t end_step, int64_t bytes) {
  tri_file_writer *to = NULL;
  TRI_TRY(tri_file_writer_open(path, &to));
  return tri_file_writer_close(to, copy_lines(path, end_step, bytes, to));
}

tri_status tri_metrics_history_cut(const char *path, int64_t end_step, tri_metrics_history *out) {
  tri_metrics_history history = {0};
  TRI_TRY(tri_metrics_history_read(path, end_step, &history));
  tri_status status = TRI_OK;
  if (history.scattered) {
    status = rewrite(path, end_step, history.bytes);
  } else if (truncate(path, (off_t)history.bytes) != 0) {
    status = tri_fail(TRI_IO_FAILED, "cannot shorten %s to %lld bytes: %s", path, (long long)history.bytes,
                      tri_write_fault(errno));
  }
  if (status == TRI_OK) *out = history;
  if (status != TRI_OK) tri_metrics_history_release(&history);
  return status;
}

void tri_metrics_history_release(tri_metrics_history *history) {
  tri_free(history->steps);
  *history = (tri_metrics_history){0};
}
