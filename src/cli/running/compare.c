/* `trireme compare`: shows several runs, which are in progress or have ended, in one table, picture or page. */
#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "board/folders.h"
#include "cli/cli.h"
#include "files/file.h"
#include "files/json_kind.h"
#include "options/json.h"
#include "options/options.h"
#include "report/comparison.h"
#include "report/differing_keys.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct compare_arguments {
  char **folders; /* [num_folders]: runs, and folders of runs */
  int64_t num_folders;
  const char *svg, *html;
  tri_course course;
  bool json;
} compare_arguments;

enum { SUMMARY_LIMIT_BYTES = 1 << 20, MOST_STEP_S = 1 << 30, MOST_PRINTED_KEYS = 40, MOST_VALUE_BYTES = 120 };

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
  out->folders = arguments + first;
  out->num_folders = count - first;
  if (out->num_folders > 0) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "compare: which runs? For example: trireme compare runs/first runs/second");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

typedef struct compared_run {
  tri_metrics_history history;
  tri_run_summary summary;
  double *seconds;           /* [history.count]: seconds of training up to and including each step */
  char name[TRI_PATH_BYTES]; /* path of its folder */
  char model[128];           /* name of the model; "": unknown */
} compared_run;

typedef struct comparison {
  compared_run *read; /* [count] */
  tri_compared *runs; /* [count]: the same runs, as reports take them */
  int64_t count, room;
  json_t *keys; /* keys of the run files in which the runs differ, from tri_differing_keys */
} comparison;

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

/* Sets the members of a run that follow from its history, which has at least one step, and its name and model. */
static tri_status fill_run(const char *folder, compared_run *run) {
  const tri_metrics_history *h = &run->history;
  TRI_TRY(tri_run_summary_fill(h, &run->summary));
  TRI_TRY(tri_alloc("the time of steps", (size_t)h->count, sizeof *run->seconds, &run->seconds));
  double sum = 0;
  for (int64_t i = 0; i < h->count; i++) {
    const double step_s = h->steps[i].step_s;
    if (step_s >= 0 && step_s <= MOST_STEP_S) sum += step_s; /* a run writes no larger values */
    run->seconds[i] = sum;
  }
  run->summary.peak_bytes_measured = h->steps[h->count - 1].peak_bytes;
  snprintf(run->name, sizeof run->name, "%s", folder);
  read_model(folder, run->model);
  return TRI_OK;
}

static void release_run(compared_run *run) {
  tri_metrics_history_release(&run->history);
  tri_free(run->seconds);
  *run = (compared_run){0};
}

/* Adds the run in a folder that has metrics.jsonl. A run without a step is left out, with a line in the log; if it is
 * `alone`, fails with TRI_BAD_FILE instead. */
static tri_status add_run(const char *folder, bool alone, comparison *c) {
  char path[TRI_PATH_BYTES];
  TRI_TRY(tri_path_join(path, folder, "metrics.jsonl"));
  TRI_TRY(tri_grow("runs", sizeof *c->read, c->count, &c->room, &c->read));
  compared_run *run = &c->read[c->count];
  *run = (compared_run){0};
  tri_status status = tri_metrics_history_read(path, INT64_MAX, &run->history);
  if (status == TRI_OK && run->history.count > 0) {
    status = fill_run(folder, run);
    if (status == TRI_OK) c->count++;
  } else if (status == TRI_OK && alone) {
    status = tri_fail(TRI_BAD_FILE, "%s has made no step yet", folder);
  } else if (status == TRI_OK) {
    tri_log("%s is left out: it has made no step yet", folder);
  }
  if (c->read + c->count == run) release_run(run);
  return status;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const tri_found *)a)->path, ((const tri_found *)b)->path);
}

/* Adds the runs below a folder, in the order of their paths. */
static tri_status add_runs_below(const char *folder, comparison *c) {
  tri_found_list found = {0};
  tri_status status = tri_found_below(folder, &found);
  if (found.count > 0) qsort(found.items, (size_t)found.count, sizeof *found.items, by_path);
  for (int64_t i = 0; i < found.count && status == TRI_OK; i++) {
    if (found.items[i].kind == TRI_FOUND_RUN) status = add_run(found.items[i].path, false, c);
  }
  tri_found_release(&found);
  return status;
}

/* Adds what a word of the command line names: a run, or all runs below a folder. Fails with TRI_BAD_FILE if it does not
 * exist. A word without a run is left out, with a line in the log, because a shell expands `runs/?*` to several words,
 * and some may not be runs; if it is `alone`, fails with TRI_BAD_FILE instead. */
static tri_status add_folder(const char *folder, bool alone, comparison *c) {
  char path[TRI_PATH_BYTES];
  const int64_t before = c->count;
  if (!tri_path_exists(folder)) return tri_fail(TRI_BAD_FILE, "compare: %s does not exist", folder);
  TRI_TRY(tri_path_join(path, folder, "metrics.jsonl"));
  if (tri_path_exists(path)) return add_run(folder, alone, c);
  if (tri_path_is_directory(folder)) TRI_TRY(add_runs_below(folder, c));
  if (c->count > before) return TRI_OK;
  if (alone) {
    return tri_fail(TRI_BAD_FILE,
                    "%s is not a run's output: it has no metrics.jsonl, and no folder below it has one with a step",
                    folder);
  }
  tri_log("%s is left out: it is not a run's output (no metrics.jsonl)", folder);
  return TRI_OK;
}

static tri_status find_keys(comparison *c) {
  const char **folders = NULL;
  TRI_TRY(tri_alloc("runs", (size_t)c->count, sizeof *folders, &folders));
  for (int64_t r = 0; r < c->count; r++) folders[r] = c->read[r].name;
  const tri_status status = tri_differing_keys(folders, c->count, &c->keys);
  tri_free(folders);
  return status;
}

static tri_status read_all(const compare_arguments *a, comparison *c) {
  for (int64_t i = 0; i < a->num_folders; i++) TRI_TRY(add_folder(a->folders[i], a->num_folders == 1, c));
  if (c->count == 0) return tri_fail(TRI_BAD_FILE, "compare: none of these folders is the output of a run with a step");
  TRI_TRY(tri_alloc("runs", (size_t)c->count, sizeof *c->runs, &c->runs));
  for (int64_t r = 0; r < c->count; r++) {
    compared_run *run = &c->read[r];
    c->runs[r] = (tri_compared){run->name, run->model, &run->history, run->seconds, &run->summary};
  }
  return find_keys(c);
}

static void release(comparison *c) {
  for (int64_t r = 0; r < c->count; r++) release_run(&c->read[r]);
  tri_free(c->read);
  tri_free(c->runs);
  json_decref(c->keys);
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

/* Writes a value to `out` in at most MOST_VALUE_BYTES bytes, and returns `out`; "-" if it is not a string. Keeps the
 * end of a longer value, which is the more specific part of a path. */
static const char *short_value(const json_t *value, char out[MOST_VALUE_BYTES + 1]) {
  const char *text = json_is_string(value) ? json_string_value(value) : "-";
  const size_t bytes = strlen(text);
  if (bytes <= MOST_VALUE_BYTES) {
    snprintf(out, MOST_VALUE_BYTES + 1, "%s", text);
  } else {
    const char *end = text + bytes - (MOST_VALUE_BYTES - 3);
    while (((unsigned char)*end & 0xC0) == 0x80) end++; /* to the beginning of a UTF-8 character */
    snprintf(out, MOST_VALUE_BYTES + 1, "...%s", end);
  }
  return out;
}

/* Prints the keys that differ, at most MOST_PRINTED_KEYS: a line for each value, with the runs that have it. */
static void print_keys(const comparison *c) {
  const char *key = NULL;
  json_t *values = NULL;
  char text[MOST_VALUE_BYTES + 1];
  size_t number = 0, width = 0;
  json_object_foreach(c->keys, key, values) {
    if (++number > MOST_PRINTED_KEYS) break;
    width = strlen(key) > width ? strlen(key) : width;
  }
  if (width > 0) printf("\nkeys that differ\n");
  number = 0;
  json_object_foreach(c->keys, key, values) {
    if (++number > MOST_PRINTED_KEYS) {
      printf("  and %zu more: --json shows all\n", json_object_size(c->keys) - MOST_PRINTED_KEYS);
      break;
    }
    for (int64_t r = 0; r < c->count; r++) {
      const json_t *value = json_array_get(values, (size_t)r);
      bool printed = false, first = r == 0;
      for (int64_t q = 0; q < r; q++) printed = printed || json_equal(value, json_array_get(values, (size_t)q));
      if (printed) continue;
      printf("  %-*s  %s:", (int)width, first ? key : "", short_value(value, text));
      for (int64_t q = r; q < c->count; q++) {
        if (json_equal(value, json_array_get(values, (size_t)q))) printf(" %s", c->read[q].name);
      }
      putchar('\n');
    }
  }
}

/* Returns a new object with a run's values of the keys that differ. */
static json_t *keys_of_run(const comparison *c, int64_t run) {
  const char *key = NULL;
  json_t *values = NULL, *object = json_object();
  json_object_foreach(c->keys, key, values) json_object_set(object, key, json_array_get(values, (size_t)run));
  return object;
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

static tri_status print_json(const comparison *c) {
  json_t *list = json_array();
  for (int64_t r = 0; r < c->count; r++) {
    json_t *object = run_json(&c->runs[r]);
    json_object_set_new(object, "differing_keys", keys_of_run(c, r));
    json_array_append_new(list, object);
  }
  return tri_print_json(list);
}

static tri_status show(const compare_arguments *a, const comparison *c) {
  if (a->svg != NULL) TRI_TRY(tri_comparison_draw(c->runs, c->count, a->course, a->svg));
  if (a->html != NULL) TRI_TRY(tri_comparison_write_page(c->runs, c->count, c->keys, a->html));
  if (a->json) return print_json(c);
  print_table(c->runs, c->count);
  print_keys(c);
  return TRI_OK;
}

static tri_status compare_run(int count, char **arguments) {
  compare_arguments parsed = {.course = TRI_COURSE_STEP};
  comparison c = {0};
  TRI_TRY(compare_parse(count, arguments, &parsed));
  tri_status status = read_all(&parsed, &c);
  if (status == TRI_OK) status = show(&parsed, &c);
  release(&c);
  return status;
}

const tri_command tri_command_compare = {
    .name = "compare",
    .summary = "compare runs: a table, and one picture of their losses",
    .usage =
        "usage: trireme compare RUN... [--svg FILE] [--by step|tokens|time] [--html FILE] [--json]\n"
        "\n"
        "RUN is a run's output folder, or a folder with runs below it; a run may be in progress. Prints the last "
        "losses,\n"
        "the median rates and the memory of each run, the last accuracies of runs that learn from preference pairs,\n"
        "and the keys of config.yaml whose values differ. Beside other folders, one without a run is left out.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme compare runs/first runs/second --html compared.html\n",
    .options = compare_options,
    .run = compare_run,
};
