/* `trireme compare`: shows several runs, which are in progress or have ended, in one table, picture or page. */
#include "base/format.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "options/json.h"
#include "options/options.h"
#include "report/comparison.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_arguments {
  char **runs; /* [count] */
  int64_t count;
  const char *svg, *html;
  tri_course course;
  bool json;
} compare_arguments;

enum { SUMMARY_LIMIT_BYTES = 1 << 20, MOST_STEP_S = 1 << 30 };

static tri_status read_by(void *values, const char *text) {
  compare_arguments *out = values;
  if (tri_course_named(text, &out->course)) return TRI_OK;
  return tri_option_word("compare: --by", text, (const char *const[]){"step", "tokens", "time"}, 3, &(int){0});
}

#define TRI_OPTION_VALUES compare_arguments
static const tri_option compare_options[] = {
    {TRI_PATH("svg", svg), .help = "  --svg FILE          draw all losses in one picture\n"},
    {TRI_READ("by", read_by),
     .help = "  --by step           the horizontal axis: step, tokens, or time (of the steps only)\n"},
    {TRI_PATH("html", html), .help = "  --html FILE         write a page with this picture over each of the three, and "
                                     "the table; it loads nothing\n"},
    {TRI_FLAG("json", json), .help = "  --json              the table as one JSON document on standard output\n"},
    {0}};

static tri_status compare_parse(int count, char **arguments, compare_arguments *out) {
  const tri_option_table table = {.command = "compare", .rows = compare_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  out->runs = arguments + first;
  out->count = count - first;
  if (out->count > 0) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "compare: which runs? For example: trireme compare runs/first runs/second");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct compared_run {
  tri_metrics_history history;
  tri_run_summary summary;
  double *seconds; /* [history.count]: seconds of training up to and including each step */
  char model[128]; /* name of the model; "": unknown */
} compared_run;

/* Reads the model's name from summary.json, which a run writes when it ends. Leaves `model` unchanged if there is no
 * such file, or if it has no name. */
static void read_model(const char *folder, char model[128]) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  if (tri_path_join(path, folder, "summary.json") != TRI_OK || !tri_path_exists(path)) return;
  if (tri_file_read_plain(path, SUMMARY_LIMIT_BYTES, &text, &bytes) != TRI_OK) return;
  json_t *summary = json_loadb(text, bytes, 0, NULL);
  const char *name = json_string_value(json_object_get(summary, "model"));
  if (name != NULL) snprintf(model, 128, "%s", name);
  json_decref(summary);
  tri_free(text);
}

static tri_status read_run(const char *folder, compared_run *run) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, "metrics.jsonl"));
  if (!tri_path_exists(path)) {
    return tri_fail(TRI_BAD_FILE, "%s is not a run's output: it has no metrics.jsonl", folder);
  }
  TRI_TRY(tri_metrics_history_read(path, INT64_MAX, &run->history));
  const tri_metrics_history *h = &run->history;
  if (h->count == 0) return tri_fail(TRI_BAD_FILE, "%s has made no step yet", folder);
  TRI_TRY(tri_run_summary_fill(h, &run->summary));
  TRI_TRY(tri_alloc("the time of steps", (size_t)h->count, sizeof *run->seconds, &run->seconds));
  double sum = 0;
  for (int64_t i = 0; i < h->count; i++) {
    const double step_s = h->steps[i].step_s;
    if (step_s >= 0 && step_s <= MOST_STEP_S) sum += step_s; /* a run writes no larger values */
    run->seconds[i] = sum;
  }
  run->summary.peak_bytes_measured = h->steps[h->count - 1].peak_bytes;
  read_model(folder, run->model);
  return TRI_OK;
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static const char *number_text(char *out, size_t bytes, const char *unit, double value) {
  if (isfinite(value)) {
    snprintf(out, bytes, "%.4f%s", value, unit);
  } else {
    snprintf(out, bytes, "-");
  }
  return out;
}

static int name_width(const tri_compared *runs, int64_t count) {
  size_t width = 3;
  for (int64_t r = 0; r < count; r++) width = strlen(runs[r].name) > width ? strlen(runs[r].name) : width;
  return width < 60 ? (int)width : 60;
}

static void print_table(const tri_compared *runs, int64_t count) {
  const int width = name_width(runs, count);
  const bool accuracies = tri_comparison_has_accuracies(runs, count);
  printf("%-*s  %9s  %8s  %10s  %10s  %18s  %9s  %7s  %8s  %11s%s\n", width, "run", "steps", "tokens", "loss",
         "validation", "best validation", "tokens/s", "MFU", "time", "memory",
         accuracies ? "  accuracy  held-out accuracy" : "");
  for (int64_t r = 0; r < count; r++) {
    const tri_run_summary *s = runs[r].summary;
    char tokens[32], loss[32], validation[32], best[40] = "-", rate[32], mfu[32] = "-", seconds[32], memory[32];
    if (s->best_validation_step > 0) {
      snprintf(best, sizeof best, "%.4f @ %lld", s->best_validation_loss, (long long)s->best_validation_step);
    }
    if (isfinite(s->mfu)) snprintf(mfu, sizeof mfu, "%.1f %%", 100 * s->mfu);
    printf("%-*s  %9lld  %8s  %10s  %10s  %18s  %9s  %7s  %8s  %11s", width, runs[r].name, (long long)s->steps,
           tri_format_count((double)s->tokens, tokens, sizeof tokens), number_text(loss, sizeof loss, "", s->loss),
           number_text(validation, sizeof validation, "", s->validation_loss), best,
           tri_format_count(s->tokens_per_s, rate, sizeof rate), mfu,
           tri_format_seconds(runs[r].seconds[runs[r].history->count - 1], seconds, sizeof seconds),
           tri_format_bytes((double)s->peak_bytes_measured, memory, sizeof memory));
    if (accuracies) {
      printf("  %8s  %17s", number_text(loss, sizeof loss, "", s->accuracy),
             number_text(validation, sizeof validation, "", s->held_out_accuracy));
    }
    putchar('\n');
  }
}

static json_t *run_json(const tri_compared *run) {
  const tri_run_summary *s = run->summary;
  json_t *object = json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:I, s:o, s:o, s:f, s:I, s:I}", "run", run->name,
                             "model", run->model, "steps", (json_int_t)s->steps, "tokens", (json_int_t)s->tokens,
                             "loss", tri_json_number(s->loss), "validation_loss", tri_json_number(s->validation_loss),
                             "best_validation_loss", tri_json_number(s->best_validation_loss), "best_validation_step",
                             (json_int_t)s->best_validation_step, "tokens_per_s", tri_json_number(s->tokens_per_s),
                             "mfu", tri_json_number(s->mfu), "seconds", run->seconds[run->history->count - 1],
                             "bad_steps", (json_int_t)s->bad_steps, "peak_bytes", (json_int_t)s->peak_bytes_measured);
  if (isfinite(s->accuracy)) json_object_set_new(object, TRI_ACCURACY, json_real(s->accuracy));
  if (isfinite(s->held_out_accuracy)) {
    json_object_set_new(object, TRI_HELD_OUT_ACCURACY, json_real(s->held_out_accuracy));
  }
  return object;
}

static tri_status print_json(const tri_compared *runs, int64_t count) {
  json_t *list = json_array();
  for (int64_t r = 0; r < count; r++) json_array_append_new(list, run_json(&runs[r]));
  return tri_print_json(list);
}

static tri_status tell(const compare_arguments *a, const tri_compared *runs) {
  if (a->svg != NULL) TRI_TRY(tri_comparison_draw(runs, a->count, a->course, a->svg));
  if (a->html != NULL) TRI_TRY(tri_comparison_write_page(runs, a->count, a->html));
  if (a->json) return print_json(runs, a->count);
  print_table(runs, a->count);
  return TRI_OK;
}

static tri_status read_all(const compare_arguments *a, compared_run *read, tri_compared *runs) {
  for (int64_t r = 0; r < a->count; r++) {
    TRI_TRY(read_run(a->runs[r], &read[r]));
    runs[r] = (tri_compared){a->runs[r], read[r].model, &read[r].history, read[r].seconds, &read[r].summary};
  }
  return TRI_OK;
}

static tri_status compare_run(int count, char **arguments) {
  compare_arguments parsed = {.course = TRI_COURSE_STEP};
  compared_run *read = NULL;
  tri_compared *runs = NULL;
  TRI_TRY(compare_parse(count, arguments, &parsed));
  TRI_TRY(tri_alloc("runs", (size_t)parsed.count, sizeof *read, &read));
  tri_status status = tri_alloc("runs", (size_t)parsed.count, sizeof *runs, &runs);
  if (status == TRI_OK) status = read_all(&parsed, read, runs);
  if (status == TRI_OK) status = tell(&parsed, runs);
  for (int64_t r = 0; r < parsed.count; r++) {
    tri_metrics_history_release(&read[r].history);
    tri_free(read[r].seconds);
  }
  tri_free(runs);
  tri_free(read);
  return status;
}

const tri_command tri_command_compare = {
    .name = "compare",
    .summary = "compare runs: a table, and one picture of their losses",
    .usage =
        "usage: trireme compare RUN RUN... [--svg FILE] [--by step|tokens|time] [--html FILE] [--json]\n"
        "\n"
        "RUN is a run's output folder; the run may be in progress. Prints the last losses, the median rates and the "
        "memory of\n"
        "each run and, if runs learn from preference pairs, the last accuracies.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme compare runs/first runs/second --html compared.html\n",
    .options = compare_options,
    .run = compare_run,
};
