#include "report/metrics.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "report/event_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tri_metrics {
  FILE *lines;
  tri_event_file *events;
  char path[TRI_PATH_BYTES];
  tri_step_metrics last;
  double validation_loss; /* the last there was, or NaN */
  int64_t steps_here;     /* written by this process */
  double first_end_s;     /* when the first of them had ended */
};

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static double last_validation_loss(const tri_metrics_history *history) {
  for (int64_t i = history->count - 1; i >= 0; i--) {
    if (history->steps[i].evaluated) return history->steps[i].validation_loss;
  }
  return NAN;
}

/* What the file has, and what went, in words. */
static void report_lines(const char *path, int64_t first_step, const tri_metrics_history *history) {
  int64_t held = history->count > 0 ? history->steps[history->count - 1].step : 0;
  if (history->num_later > 0) {
    tri_log("%s: the lines of steps %lld to %lld are removed, since the run goes on with step %lld", path,
            (long long)history->later_first, (long long)history->later_last, (long long)first_step);
  }
  if (history->num_odd > 0) {
    const char *fate = "it is passed over";
    if (history->num_behind > 0) fate = "it is passed over, and those at the end are removed";
    if (history->num_behind == history->num_odd) fate = "it is removed, since nothing that counts follows it";
    tri_warn("%s: line %lld is not the next step's%s; %s", path, (long long)history->first_odd,
             history->num_odd > 1 ? ", and others after it are not" : "", fate);
  }
  if (held + 1 < first_step) {
    tri_warn("%s ends at step %lld; the run goes on with step %lld", path, (long long)held, (long long)first_step);
  }
}

/* Cuts the file down to the steps before first_step. */
static tri_status cut_lines(tri_metrics *metrics, int64_t first_step) {
  tri_metrics_history history = {0};
  if (!tri_path_exists(metrics->path)) return TRI_OK;
  TRI_TRY(tri_metrics_history_cut(metrics->path, first_step, &history));
  report_lines(metrics->path, first_step, &history);
  metrics->validation_loss = last_validation_loss(&history);
  tri_metrics_history_release(&history);
  return TRI_OK;
}

tri_status tri_metrics_open(const char *directory, int64_t first_step, tri_metrics **out) {
  tri_status status = TRI_OK;
  tri_metrics *metrics = NULL;
  TRI_TRY(tri_directory_create(directory));
  TRI_TRY(tri_alloc("metrics", 1, sizeof *metrics, &metrics));
  metrics->validation_loss = NAN;
  TRI_TRY_GOTO(tri_path_join(metrics->path, directory, "metrics.jsonl"), free_metrics);
  TRI_TRY_GOTO(cut_lines(metrics, first_step), free_metrics);
  metrics->lines = fopen(metrics->path, "ae");
  if (metrics->lines == NULL) {
    status = tri_fail(TRI_IO_FAILED, "cannot open %s for writing: %s", metrics->path, strerror(errno));
    goto free_metrics;
  }
  TRI_TRY_GOTO(tri_event_file_create(directory, first_step, &metrics->events), close_lines);
  *out = metrics;
  return TRI_OK;
close_lines:
  fclose(metrics->lines);
free_metrics:
  tri_free(metrics);
  return status;
}

tri_status tri_metrics_close(tri_metrics *metrics) {
  if (metrics == NULL) return TRI_OK;
  tri_status status = tri_event_file_close(metrics->events);
  if (fclose(metrics->lines) != 0 && status == TRI_OK) {
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", metrics->path, strerror(errno));
  }
  tri_free(metrics);
  return status;
}

/* ---- a step ----------------------------------------------------------------------------------------------------- */

/* The shortest decimal that reads back to the same double: the losses of two runs are compared to the bit. */
static const char *real_text(double value, char *buffer, size_t buffer_bytes) {
  if (!isfinite(value)) return "null"; /* JSON has no other word for it */
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(buffer, buffer_bytes, "%.*g", digits, value);
    if (strtod(buffer, NULL) == value) break;
  }
  return buffer;
}

static void print_line(FILE *to, const tri_step_metrics *s) {
  char text[40];
  fprintf(to, "{\"step\": %lld", (long long)s->step);
  fprintf(to, ", \"loss\": %s", real_text(s->loss, text, sizeof text));
  if (s->evaluated) fprintf(to, ", \"validation_loss\": %s", real_text(s->validation_loss, text, sizeof text));
  fprintf(to, ", \"grad_norm\": %s", real_text(s->grad_norm, text, sizeof text));
  fprintf(to, ", \"lr\": %s", real_text(s->lr, text, sizeof text));
  fprintf(to, ", \"tokens\": %lld", (long long)s->tokens);
  fprintf(to, ", \"tokens_per_s\": %s", real_text(s->tokens_per_s, text, sizeof text));
  fprintf(to, ", \"step_s\": %s", real_text(s->step_s, text, sizeof text));
  fprintf(to, ", \"mfu\": %s", real_text(s->mfu, text, sizeof text));
  fprintf(to, ", \"peak_bytes\": %zu", s->peak_bytes);
  fprintf(to, ", \"bad_steps\": %lld}\n", (long long)s->bad_steps);
}

tri_status tri_metrics_step(tri_metrics *metrics, const tri_step_metrics *step) {
  errno = 0;
  print_line(metrics->lines, step);
  if (fflush(metrics->lines) != 0 || ferror(metrics->lines)) {
    return tri_fail(TRI_IO_FAILED, "cannot write step %lld to %s: %s", (long long)step->step, metrics->path,
                    strerror(errno));
  }
  tri_scalar scalars[6] = {
      {"loss", step->loss},
      {"grad_norm", step->grad_norm},
      {"lr", step->lr},
      {"tokens_per_s", step->tokens_per_s},
  };
  int count = 4;
  if (isfinite(step->mfu)) scalars[count++] = (tri_scalar){"mfu", step->mfu};
  if (step->evaluated) scalars[count++] = (tri_scalar){"validation_loss", step->validation_loss};
  TRI_TRY(tri_event_file_scalars(metrics->events, step->step, scalars, count));

  if (step->evaluated) metrics->validation_loss = step->validation_loss;
  metrics->last = *step;
  if (metrics->steps_here++ == 0) metrics->first_end_s = tri_clock_s();
  return TRI_OK;
}

tri_status tri_metrics_sync(tri_metrics *metrics) {
  if (fsync(fileno(metrics->lines)) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot flush %s to disk: %s", metrics->path, strerror(errno));
}

/* ---- the progress line ------------------------------------------------------------------------------------------ */

char *tri_metrics_progress_text(const tri_step_metrics *step, int64_t steps, double validation_loss, double left_s,
                                char *buffer, size_t buffer_bytes) {
  char validation[40] = "", peak[40] = "", bad[40] = "", speed[32], left[32];
  if (!isnan(validation_loss)) snprintf(validation, sizeof validation, " val %.4f", validation_loss);
  if (isfinite(step->mfu)) snprintf(peak, sizeof peak, " %.0f%% of peak", 100 * step->mfu);
  if (step->bad_steps > 0) snprintf(bad, sizeof bad, " %lld bad", (long long)step->bad_steps);
  snprintf(buffer, buffer_bytes, "step %lld/%lld loss %.4f%s lr %.2e %s tokens/s%s %s left%s", (long long)step->step,
           (long long)steps, step->loss, validation, step->lr,
           tri_format_count(step->tokens_per_s, speed, sizeof speed), peak,
           tri_format_seconds(left_s, left, sizeof left), bad);
  return buffer;
}

/* By the clock and not by step_s: evaluations and saves take their time too. The first step of a process is left out,
 * it also touches all memory for the first time. */
static double seconds_left(const tri_metrics *metrics, int64_t steps) {
  double each_s = metrics->last.step_s;
  if (metrics->steps_here > 1) each_s = (tri_clock_s() - metrics->first_end_s) / (double)(metrics->steps_here - 1);
  return each_s * (double)(steps > metrics->last.step ? steps - metrics->last.step : 0);
}

void tri_metrics_progress(tri_metrics *metrics, int64_t steps) {
  char text[256];
  tri_log_progress("%s", tri_metrics_progress_text(&metrics->last, steps, metrics->validation_loss,
                                                   seconds_left(metrics, steps), text, sizeof text));
}
