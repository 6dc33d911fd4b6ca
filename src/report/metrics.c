#include "report/metrics.h"

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "files/file.h"
#include "files/write_fault.h"
#include "report/event_file.h"
#include "report/shares.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Number of the metrics of a task that the progress line shows (shown_names). */
enum { NUM_SHOWN = 6 };
static const char *const shown_names[NUM_SHOWN] = {
    TRI_ACCURACY, "reward", TRI_HELD_OUT_REWARD, "completions/mean_length", "rollout_s", "train_s"};

struct tri_metrics {
  FILE *lines;
  tri_event_file *events;
  char path[TRI_PATH_BYTES];
  tri_step_metrics last;
  double validation_loss;            /* last validation loss that was measured; NaN: none */
  tri_named_metric shown[NUM_SHOWN]; /* metrics of `last` for the progress line; `last.named` points to them */
  int64_t steps_here;                /* number of steps that this process wrote */
  double first_end_s;                /* time of the end of the first step of this process, on tri_clock_s */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static double last_validation_loss(const tri_metrics_history *history) {
  for (int64_t i = history->count - 1; i >= 0; i--) {
    if (history->steps[i].evaluated) return history->steps[i].validation_loss;
  }
  return NAN;
}

/* Logs which lines were removed, and warns of lines that are not valid and of missing steps. */
static void report_lines(const char *path, int64_t first_step, const tri_metrics_history *history) {
  int64_t held = history->count > 0 ? history->steps[history->count - 1].step : 0;
  if (history->num_later > 0) {
    tri_log("%s: the lines of steps %lld to %lld are removed, since the run resumes with step %lld", path,
            (long long)history->later_first, (long long)history->later_last, (long long)first_step);
  }
  if (history->num_odd > 0) {
    const char *fate = "it is skipped";
    if (history->num_behind > 0) fate = "it is skipped, and those at the end are removed";
    if (history->num_behind == history->num_odd) fate = "it is removed, since no valid line follows it";
    tri_warn("%s: line %lld is not the next step's%s; %s", path, (long long)history->first_odd,
             history->num_odd > 1 ? ", and others after it are not" : "", fate);
  }
  if (held + 1 < first_step) {
    tri_warn("%s ends at step %lld; the run resumes with step %lld", path, (long long)held, (long long)first_step);
  }
}

/* Removes the lines of first_step and later, if the file exists, and logs this. Keeps the last validation loss before
 * them for progress lines. */
static tri_status cut_lines(tri_metrics *metrics, int64_t first_step) {
  tri_metrics_history history = {0};
  if (!tri_path_exists(metrics->path)) return TRI_OK;
  TRI_TRY(tri_metrics_history_cut(metrics->path, first_step, &history));
  report_lines(metrics->path, first_step, &history);
  metrics->validation_loss = last_validation_loss(&history);
  tri_metrics_history_release(&history);
  return TRI_OK;
}

static tri_status refuse_planted(const char *directory, const char *path) {
  if (!tri_path_is_planted(directory, path)) return TRI_OK;
  return tri_fail(TRI_IO_FAILED,
                  "%s is a link that another user may have made, and its target would be overwritten; remove it, or "
                  "use an output folder that only you may write to",
                  path);
}

tri_status tri_metrics_open(const char *directory, int64_t first_step, tri_metrics **out) {
  tri_status status = TRI_OK;
  tri_metrics *metrics = NULL;
  TRI_TRY(tri_directory_create(directory));
  TRI_TRY(tri_alloc("metrics", 1, sizeof *metrics, &metrics));
  metrics->validation_loss = NAN;
  TRI_TRY_GOTO(tri_path_join(metrics->path, directory, "metrics.jsonl"), free_metrics);
  TRI_TRY_GOTO(refuse_planted(directory, metrics->path), free_metrics);
  TRI_TRY_GOTO(cut_lines(metrics, first_step), free_metrics);
  metrics->lines = fopen(metrics->path, "ae");
  if (metrics->lines == NULL) {
    status = tri_fail(TRI_IO_FAILED, "cannot open %s for writing: %s", metrics->path, tri_write_fault(errno));
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
    status = tri_fail(TRI_IO_FAILED, "cannot write %s: %s", metrics->path, tri_write_fault(errno));
  }
  tri_free(metrics);
  return status;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Returns the shortest decimal that reads back as the same double, so that losses of two runs can be compared to the
 * bit; "null" for a value that is not finite. `buffer` is for the text. */
static const char *real_text(double value, char *buffer, size_t buffer_bytes) {
  if (!isfinite(value)) return "null"; /* JSON has no NaN or infinity */
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(buffer, buffer_bytes, "%.*g", digits, value);
    if (strtod(buffer, NULL) == value) break;
  }
  return buffer;
}

/* Prints the sources in the order of data.train. */
static void print_sources(FILE *to, const tri_step_metrics *s) {
  char text[40];
  for (int64_t k = 0; k < s->num_sources; k++) {
    const tri_source_metrics *source = &s->sources[k];
    fprintf(to, "%s{\"share\": %s", k == 0 ? ", \"sources\": [" : ", ", real_text(source->share, text, sizeof text));
    fprintf(to, ", \"tokens\": %lld", (long long)source->tokens);
    fprintf(to, ", \"epochs\": %s}", real_text(source->epochs, text, sizeof text));
  }
  if (s->num_sources > 0) fprintf(to, "]");
}

tri_expert_metrics tri_expert_metrics_of(int64_t layer, const int64_t *load, int64_t num_experts, int64_t rounds) {
  tri_expert_metrics out = {.layer = layer, .num_experts = num_experts, .load = load, .rounds = rounds};
  double total = 0, most = 0, sum = 0;
  for (int64_t e = 0; e < num_experts; e++) {
    total += (double)load[e];
    most = fmax(most, (double)load[e]);
    if (load[e] > 0) sum += (double)load[e] * log((double)load[e]);
  }
  if (total == 0) return out;
  out.max_over_mean = most * (double)num_experts / total;
  out.entropy = num_experts == 1 ? 1 : (log(total) - sum / total) / log((double)num_experts);
  return out;
}

static void print_load(FILE *to, const tri_expert_metrics *layer) {
  for (int64_t e = 0; e < layer->num_experts; e++) {
    fprintf(to, "%s%lld", e == 0 ? ", \"load\": [" : ", ", (long long)layer->load[e]);
  }
  fprintf(to, "]");
}

static void print_experts(FILE *to, const tri_step_metrics *s) {
  char text[40];
  if (s->num_expert_layers == 0) return;
  fprintf(to, ", \"router_loss\": %s, \"experts\": [", real_text(s->router_loss, text, sizeof text));
  for (int64_t i = 0; i < s->num_expert_layers; i++) {
    const tri_expert_metrics *layer = &s->experts[i];
    fprintf(to, "%s{\"layer\": %lld", i == 0 ? "" : ", ", (long long)layer->layer);
    fprintf(to, ", \"max_over_mean\": %s", real_text(layer->max_over_mean, text, sizeof text));
    fprintf(to, ", \"entropy\": %s", real_text(layer->entropy, text, sizeof text));
    fprintf(to, ", \"rounds\": %lld", (long long)layer->rounds);
    if (s->num_expert_layers * layer->num_experts <= TRI_METRICS_LOADS) print_load(to, layer);
    fprintf(to, "}");
  }
  fprintf(to, "]");
}

/* Prints the shares; leaves them out if memory is exhausted. */
static void print_shares(FILE *to, const tri_timeline_shares *shares) {
  json_t *object = shares == NULL ? NULL : tri_shares_json(shares);
  char *text = object == NULL ? NULL : json_dumps(object, JSON_REAL_PRECISION(6));
  json_decref(object);
  if (text != NULL) fprintf(to, ", \"share\": %s", text);
  free(text);
}

static void print_line(FILE *to, const tri_step_metrics *s) {
  char text[40], now[TRI_CLOCK_TEXT_BYTES];
  fprintf(to, "{\"step\": %lld, \"time\": \"%s\"", (long long)s->step, tri_clock_text(now));
  fprintf(to, ", \"loss\": %s", real_text(s->loss, text, sizeof text));
  if (s->evaluated) fprintf(to, ", \"validation_loss\": %s", real_text(s->validation_loss, text, sizeof text));
  fprintf(to, ", \"grad_norm\": %s", real_text(s->grad_norm, text, sizeof text));
  fprintf(to, ", \"lr\": %s", real_text(s->lr, text, sizeof text));
  fprintf(to, ", \"tokens\": %lld", (long long)s->tokens);
  fprintf(to, ", \"tokens_per_s\": %s", real_text(s->tokens_per_s, text, sizeof text));
  fprintf(to, ", \"step_s\": %s", real_text(s->step_s, text, sizeof text));
  fprintf(to, ", \"mfu\": %s", real_text(s->mfu, text, sizeof text));
  fprintf(to, ", \"peak_bytes\": %zu", s->peak_bytes);
  fprintf(to, ", \"bad_steps\": %lld", (long long)s->bad_steps);
  for (int64_t i = 0; i < s->named.count; i++) {
    const tri_named_metric *m = &s->named.list[i];
    if (isfinite(m->value)) fprintf(to, ", \"%s\": %s", m->name, real_text(m->value, text, sizeof text));
  }
  print_sources(to, s);
  print_experts(to, s);
  print_shares(to, s->time);
  fprintf(to, "}\n");
}

static tri_status add_source_scalars(tri_metrics *metrics, const tri_step_metrics *step) {
  for (int64_t k = 0; k < step->num_sources; k++) {
    const tri_source_metrics *source = &step->sources[k];
    char tags[3][64 + TRI_PATH_BYTES];
    const double values[3] = {source->share, (double)source->tokens, source->epochs};
    static const char *const names[3] = {"share", "tokens", "epochs"};
    tri_scalar scalars[3];
    for (int i = 0; i < 3; i++) {
      snprintf(tags[i], sizeof tags[i], "source %s/%lld %s", names[i], (long long)k + 1, source->path);
      scalars[i] = (tri_scalar){tags[i], values[i]};
    }
    TRI_TRY(tri_event_file_scalars(metrics->events, step->step, scalars, 3));
  }
  return TRI_OK;
}

/* Adds the finite named metrics as scalars with the same names as in metrics.jsonl, at most EVENT_SCALARS in one
 * event. */
static tri_status add_named_scalars(tri_metrics *metrics, const tri_step_metrics *step) {
  enum { EVENT_SCALARS = 64 };
  tri_scalar scalars[EVENT_SCALARS];
  int count = 0;
  for (int64_t i = 0; i < step->named.count; i++) {
    const tri_named_metric *metric = &step->named.list[i];
    if (isfinite(metric->value)) scalars[count++] = (tri_scalar){metric->name, metric->value};
    if (count == 0 || (count < EVENT_SCALARS && i + 1 < step->named.count)) continue;
    TRI_TRY(tri_event_file_scalars(metrics->events, step->step, scalars, count));
    count = 0;
  }
  return TRI_OK;
}

static tri_status add_expert_scalars(tri_metrics *metrics, const tri_step_metrics *step) {
  const tri_scalar loss = {"router_loss", step->router_loss};
  if (step->num_expert_layers > 0) TRI_TRY(tri_event_file_scalars(metrics->events, step->step, &loss, 1));
  for (int64_t i = 0; i < step->num_expert_layers; i++) {
    const tri_expert_metrics *layer = &step->experts[i];
    char tags[3][64];
    const double values[3] = {layer->max_over_mean, layer->entropy, (double)layer->rounds};
    static const char *const names[3] = {"max_over_mean", "entropy", "rounds"};
    tri_scalar scalars[3];
    for (int k = 0; k < 3; k++) {
      snprintf(tags[k], sizeof tags[k], "experts %s/layer %lld", names[k], (long long)layer->layer);
      scalars[k] = (tri_scalar){tags[k], values[k]};
    }
    TRI_TRY(tri_event_file_scalars(metrics->events, step->step, scalars, 3));
  }
  return TRI_OK;
}

/* Copies a step for the progress line, without its pointers to the caller's memory. */
static void keep_last(tri_metrics *metrics, const tri_step_metrics *step) {
  metrics->last = *step;
  metrics->last.sources = NULL;
  metrics->last.num_sources = 0;
  metrics->last.experts = NULL;
  metrics->last.num_expert_layers = 0;
  metrics->last.time = NULL;
  metrics->last.named = (tri_named_metrics){.list = metrics->shown};
  for (int i = 0; i < NUM_SHOWN; i++) {
    const tri_named_metric *metric = tri_named_metrics_find(&step->named, shown_names[i]);
    if (metric != NULL) metrics->shown[metrics->last.named.count++] = *metric;
  }
}

tri_status tri_metrics_step(tri_metrics *metrics, const tri_step_metrics *step) {
  errno = 0;
  print_line(metrics->lines, step);
  if (fflush(metrics->lines) != 0 || ferror(metrics->lines)) {
    return tri_fail(TRI_IO_FAILED, "cannot write step %lld to %s: %s", (long long)step->step, metrics->path,
                    tri_write_fault(errno));
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
  TRI_TRY(add_named_scalars(metrics, step));
  TRI_TRY(add_source_scalars(metrics, step));
  TRI_TRY(add_expert_scalars(metrics, step));

  if (step->evaluated) metrics->validation_loss = step->validation_loss;
  keep_last(metrics, step);
  if (metrics->steps_here++ == 0) metrics->first_end_s = tri_clock_s();
  return TRI_OK;
}

tri_status tri_metrics_sync(tri_metrics *metrics) {
  if (fsync(fileno(metrics->lines)) == 0) return TRI_OK;
  return tri_fail(TRI_IO_FAILED, "cannot flush %s to disk: %s", metrics->path, tri_write_fault(errno));
}

/* ---- progress line ----------------------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 100 }; /* accuracy is not added to a longer progress line */

static double named_value(const tri_step_metrics *step, const char *name) {
  const tri_named_metric *metric = tri_named_metrics_find(&step->named, name);
  return metric == NULL ? NAN : metric->value;
}

/* Formats the progress of a step that began with rollouts to `buffer`, and returns it. */
static char *rollout_progress(const tri_step_metrics *step, int64_t steps, double left_s, char *buffer,
                              size_t buffer_bytes) {
  const double held_out = named_value(step, TRI_HELD_OUT_REWARD);
  char validation[40] = "", left[32];
  if (isfinite(held_out)) snprintf(validation, sizeof validation, " (val %.2f)", held_out);
  snprintf(buffer, buffer_bytes, "step %lld/%lld reward %.2f%s length %.0f rollout %.0f %% train %.0f %% %s left",
           (long long)step->step, (long long)steps, named_value(step, "reward"), validation,
           named_value(step, "completions/mean_length"), 100 * named_value(step, "rollout_s") / step->step_s,
           100 * named_value(step, "train_s") / step->step_s, tri_format_seconds(left_s, left, sizeof left));
  return buffer;
}

char *tri_metrics_progress_text(const tri_step_metrics *step, int64_t steps, double validation_loss, double left_s,
                                char *buffer, size_t buffer_bytes) {
  char validation[40] = "", peak[40] = "", bad[40] = "", speed[32], left[32];
  if (isfinite(named_value(step, "reward"))) return rollout_progress(step, steps, left_s, buffer, buffer_bytes);
  if (!isnan(validation_loss)) snprintf(validation, sizeof validation, " val %.4f", validation_loss);
  if (isfinite(step->mfu) && !step->small_products) snprintf(peak, sizeof peak, " %.0f%% of peak", 100 * step->mfu);
  if (step->bad_steps > 0) snprintf(bad, sizeof bad, " %lld bad", (long long)step->bad_steps);
  const tri_named_metric *accuracy = tri_named_metrics_find(&step->named, TRI_ACCURACY);
  snprintf(buffer, buffer_bytes, "step %lld/%lld loss %.4f%s lr %.2e %s tokens/s%s %s left%s", (long long)step->step,
           (long long)steps, step->loss, validation, step->lr,
           tri_format_count(step->tokens_per_s, speed, sizeof speed), peak,
           tri_format_seconds(left_s, left, sizeof left), bad);
  const size_t bytes = strlen(buffer);
  char more[32];
  const bool known = accuracy != NULL && isfinite(accuracy->value);
  const int wide = !known ? 0 : snprintf(more, sizeof more, " accuracy %.2f", accuracy->value);
  if (wide > 0 && bytes + (size_t)wide <= MOST_COLUMNS && bytes + (size_t)wide < buffer_bytes) {
    memcpy(buffer + bytes, more, (size_t)wide + 1);
  }
  return buffer;
}

/* Returns an estimate of the remaining seconds, by the clock and not by step_s, since evaluations and saves take time,
 * too. The first step of a process is left out, since it touches all memory for the first time. */
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
