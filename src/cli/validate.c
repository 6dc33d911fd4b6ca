/* `trireme validate`: compares the simulator's predictions with published measurements. */
#include "base/format.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "config/preset.h"
#include "files/file.h"
#include "options/json.h"
#include "plan/accuracy.h"
#include "plan/published.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct arguments {
  const char *file, *fit, *out;
  const char *sets[TRI_PUBLISHED_SETS]; /* as given: each word is a name, or several names with commas between them */
  int num_sets;
  bool json;
} arguments;

static tri_status add_set(void *values, const char *text) {
  arguments *out = values;
  if (out->num_sets == TRI_PUBLISHED_SETS)
    return tri_fail(TRI_BAD_USAGE, "validate: --set more than %d times", out->num_sets);
  out->sets[out->num_sets++] = text;
  return TRI_OK;
}

#define TRI_OPTION_VALUES arguments
static const tri_option validate_options[] = {
    {TRI_READ("set", add_set),
     .help = "  --set NAME        only these sets; may be repeated, or be several names with commas between\n"},
    {TRI_TEXT("fit", fit),
     .help = "  --fit CONSTANTS   first fit these constants of the cluster to the rows marked `fit`, and print them:\n"
             "                    matmul,matmul_half,attention,memory,link,launch,start\n"},
    {TRI_PATH("out", out), .help = "  --out FILE.md     write the tables to this file\n"},
    {TRI_FLAG("json", json), .help = "  --json            one JSON document on standard output\n"},
    {0}};

static tri_status validate_parse(int count, char **given, arguments *out) {
  const tri_option_table table = {.command = "validate", .rows = validate_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, given, out, &first));
  if (first + 1 < count) return tri_fail(TRI_BAD_USAGE, "validate: one file at a time, not `%s` too", given[first + 1]);
  if (first < count) out->file = given[first];
  return TRI_OK;
}

/* ---- which sets -------------------------------------------------------------------------------------------------- */

/* Returns whether a word is in a list that is separated by commas. */
static bool is_listed(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list;;) {
    size_t here = strcspn(at, ",");
    if (here == length && strncmp(at, word, length) == 0) return true;
    if (at[here] == '\0') return false;
    at += here + 1;
  }
}

static bool is_wanted(const arguments *given, const tri_published_set *set) {
  for (int i = 0; i < given->num_sets; i++) {
    if (is_listed(given->sets[i], set->name)) return true;
  }
  return given->num_sets == 0;
}

/* Checks that every given name is the name of a set; fails with TRI_BAD_USAGE otherwise. */
static tri_status check_wanted(const arguments *given, const char *path, const tri_published *published) {
  for (int i = 0; i < given->num_sets; i++) {
    for (const char *at = given->sets[i];;) {
      char name[128], all[1024] = "";
      int length = (int)strcspn(at, ",");
      bool found = false;
      snprintf(name, sizeof name, "%.*s", length, at);
      for (int64_t s = 0; s < published->num_sets; s++) {
        size_t held = strlen(all);
        snprintf(all + held, sizeof all - held, "%s%s", held == 0 ? "" : ", ", published->sets[s].name);
        found = found || strcmp(published->sets[s].name, name) == 0;
      }
      if (!found) return tri_fail(TRI_BAD_USAGE, "validate: %s has no set `%s`; they are %s", path, name, all);
      if (at[length] == '\0') break;
      at += length + 1;
    }
  }
  return TRI_OK;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

/* Reads a list of constants such as "matmul,memory" to *out, as the bits 1 << i of constants i. Fails with
 * TRI_BAD_USAGE if there is no constant of a name. */
static tri_status constants_of(const char *text, unsigned *out) {
  *out = 0;
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    int found = -1;
    for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++) {
      const char *name = tri_cluster_constant_name(i);
      if (strlen(name) == length && strncmp(name, text, length) == 0) found = i;
    }
    if (found < 0) {
      return tri_fail(TRI_BAD_USAGE,
                      "--fit %.*s: the constants are matmul, matmul_half, attention, memory, link, launch and start",
                      (int)length, text);
    }
    *out |= 1u << found;
    text += length + (text[length] == ',');
  }
  return TRI_OK;
}

static void print_constants(tri_published_set *set, FILE *to) {
  const double *constants = tri_cluster_constants(&set->cluster);
  fprintf(to, "efficiency:   # of %s\n", set->cluster.name);
  for (int i = 0; i < TRI_CLUSTER_CONSTANTS; i++)
    fprintf(to, "  %s: %.4g\n", tri_cluster_constant_name(i), constants[i]);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static double tflops(const tri_published_row *row, double seconds) {
  return row->prediction.tflops_per_device * row->predicted_s / seconds;
}

static double percent(double share) { return tri_format_rounded(100 * share, 1); }

static void print_row(const tri_published_row *row, FILE *to) {
  char context[32] = "";
  if (row->layout.context > 1) snprintf(context, sizeof context, ", context %ld", (long)row->layout.context);
  fprintf(to, "| %s%s | %ld | %ld x %ld x %ld%s | %.4g | %.4g | %.1f | %.1f | %+.1f %% |\n", row->name,
          row->fit ? " (fitted)" : "", (long)row->devices, (long)row->layout.tensor, (long)row->layout.pipeline,
          (long)row->layout.data, context, row->published_s, row->predicted_s, tflops(row, row->published_s),
          tflops(row, row->predicted_s), percent(tri_published_error(row)));
}

static int compare_errors(const void *left, const void *right) {
  double a = tri_published_error(*(const tri_published_row *const *)left);
  double b = tri_published_error(*(const tri_published_row *const *)right);
  return (a > b) - (a < b);
}

/* MOST_ROWS_PRINTED: a set with more rows is not printed in full. FURTHEST_PRINTED: number of rows that are then
 * printed with the largest errors in each direction. */
enum { MOST_ROWS_PRINTED = 100, FURTHEST_PRINTED = 5 };

static tri_status print_rows(const tri_published_set *set, FILE *to) {
  const tri_published_row **rows = NULL;
  int64_t count = 0;
  TRI_TRY(tri_alloc("rows of a report", (size_t)set->num_rows, sizeof *rows, &rows));
  for (int64_t r = 0; r < set->num_rows; r++) {
    if (set->rows[r].published_s > 0) rows[count++] = &set->rows[r];
  }
  bool few = count <= MOST_ROWS_PRINTED;
  if (!few) {
    qsort(rows, (size_t)count, sizeof *rows, compare_errors);
    fprintf(to, "Of %ld rows those that are furthest off; `--json` has all.\n\n", (long)count);
  }
  if (count > 0) {
    fprintf(to,
            "| run | devices | tensor x pipeline x data | published s | predicted s | published TFLOP/s | predicted "
            "TFLOP/s | error |\n| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
  }
  for (int64_t r = 0; r < count; r++) {
    if (few || r < FURTHEST_PRINTED || r >= count - FURTHEST_PRINTED) print_row(rows[r], to);
  }
  tri_free(rows);
  return TRI_OK;
}

static bool has_memory(const tri_published_row *row) { return row->published_bytes > 0 || row->out_of_memory; }

static void print_memory(const tri_published_set *set, const tri_published_summary *summary, FILE *to) {
  if (summary->memory_rows + summary->oom_rows == 0) return;
  fprintf(to,
          "\n| memory of the fullest device | published GiB | predicted GiB | of them state | activations | other "
          "| said to fit | error |\n| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: |\n");
  for (int64_t r = 0; r < set->num_rows; r++) {
    const tri_published_row *row = &set->rows[r];
    const tri_memory_parts *m = &row->prediction.memory;
    const double gib = 1073741824.0;
    char published[32] = "out of memory", error[32] = "";
    if (!has_memory(row)) continue;
    if (row->published_bytes > 0) {
      snprintf(published, sizeof published, "%.1f", row->published_bytes / gib);
      snprintf(error, sizeof error, "%+.1f %%", percent(m->peak / row->published_bytes - 1));
    }
    fprintf(to, "| %s | %s | %.1f | %.1f | %.1f | %.1f | %s | %s |\n", row->name, published, m->peak / gib,
            (m->parameters + m->gradients + m->optimizer) / gib, m->activations / gib, m->buffers / gib,
            row->prediction.fits ? "yes" : "no", error);
  }
  if (summary->memory_rows > 0) {
    fprintf(to, "\n%ld memory figures: mean error %.1f %%, signed %+.1f %%, worst %.1f %%.", (long)summary->memory_rows,
            100 * summary->memory_mean, percent(summary->memory_bias), 100 * summary->memory_worst);
  }
  if (summary->oom_rows > 0) {
    fprintf(to, "%s%ld runs ran out of memory; %ld of them are predicted to fit.",
            summary->memory_rows > 0 ? " " : "\n", (long)summary->oom_rows, (long)summary->oom_said_to_fit);
  }
  fprintf(to, " %ld of the runs that finished are predicted not to fit.\n", (long)summary->fit_said_not_to);
}

/* Relative errors of the step time over the rows that show an effect: the number of rows, the mean error with its sign,
 * the mean absolute error and the largest absolute error. While rows are added, `bias` and `mean` are sums. */
typedef struct effect_errors {
  int64_t rows;
  double bias, mean, worst;
} effect_errors;

static void add_effect(const tri_published_set *set, const tri_published_effect *effect, effect_errors *sum) {
  for (int64_t r = 0; r < set->num_rows; r++) {
    const tri_published_row *row = &set->rows[r];
    if (!tri_published_is_judged(row) || !effect->shows(set, row)) continue;
    double error = tri_published_error(row);
    sum->rows++;
    sum->bias += error;
    sum->mean += fabs(error);
    sum->worst = fmax(sum->worst, fabs(error));
  }
}

/* Computes the errors of one set, or of all requested sets if `set` is NULL. */
static effect_errors errors_of(const arguments *given, const tri_published *published, const tri_published_set *set,
                               const tri_published_effect *effect) {
  effect_errors sum = {0};
  if (set != NULL) add_effect(set, effect, &sum);
  for (int64_t s = 0; set == NULL && s < published->num_sets; s++) {
    if (is_wanted(given, &published->sets[s])) add_effect(&published->sets[s], effect, &sum);
  }
  if (sum.rows > 0) {
    sum.bias /= (double)sum.rows;
    sum.mean /= (double)sum.rows;
  }
  return sum;
}

static void print_effects(const arguments *given, const tri_published *published, const tri_published_set *set,
                          FILE *to) {
  fprintf(to, "\n| rows that show | rows | mean error | signed | worst |\n| --- | ---: | ---: | ---: | ---: |\n");
  for (size_t e = 0; e < tri_num_published_effects; e++) {
    effect_errors found = errors_of(given, published, set, &tri_published_effects[e]);
    if (found.rows == 0) continue;
    fprintf(to, "| %s | %ld | %.1f %% | %+.1f %% | %.1f %% |\n", tri_published_effects[e].name, (long)found.rows,
            100 * found.mean, percent(found.bias), 100 * found.worst);
  }
}

/* Minimum number of judged rows (tri_published_is_judged) of a set whose section in the report has a table of effects.
 * The table over all sets and the JSON document have no minimum. */
enum { FEWEST_FOR_EFFECTS = 20 };

static tri_status print_set(const arguments *given, const tri_published *published, const tri_published_set *set,
                            FILE *to) {
  tri_published_summary summary;
  TRI_TRY(tri_published_summarize(set, &summary));
  fprintf(to, "\n## %s\n\nCluster `%s`, system `%s`.\n\n", set->name, set->cluster_name, set->system_name);
  TRI_TRY(print_rows(set, to));
  if (summary.judged > 0) {
    fprintf(
        to,
        "\nOver the %ld rows that were not fitted: mean error %.1f %%, worst %.1f %%; least rank correlation within "
        "a model and size %.2f.\n",
        (long)summary.judged, 100 * summary.mean, 100 * summary.worst, summary.rank_correlation);
  }
  print_memory(set, &summary, to);
  if (summary.judged >= FEWEST_FOR_EFFECTS) print_effects(given, published, set, to);
  return TRI_OK;
}

static tri_status print_summary_line(const tri_published_set *set, FILE *to) {
  tri_published_summary s;
  char order[48] = "", memory[48] = "", oom[48] = "";
  TRI_TRY(tri_published_summarize(set, &s));
  if (s.ranked_groups > 0) {
    snprintf(order, sizeof order, "%.2f (least of %ld: %.2f)", s.mean_rank_correlation, (long)s.ranked_groups,
             s.rank_correlation);
  }
  if (s.memory_rows > 0) {
    snprintf(memory, sizeof memory, "%.1f %% (%+.1f %%)", 100 * s.memory_mean, percent(s.memory_bias));
  }
  if (s.oom_rows > 0) snprintf(oom, sizeof oom, "%ld of %ld", (long)s.oom_said_to_fit, (long)s.oom_rows);
  fprintf(to, "| %s | %ld | %.1f %% | %+.1f %% | %.1f %% | %s | %s | %s |\n", set->name, (long)s.judged, 100 * s.mean,
          percent(s.bias), 100 * s.worst, order, memory, oom);
  return TRI_OK;
}

static tri_status print_summary(const arguments *given, const tri_published *published, FILE *to) {
  fprintf(to,
          "\n| set | rows judged | mean error | signed | worst | rank correlation within a model and size | memory "
          "(signed) | out of memory, said to fit |\n| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n");
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (is_wanted(given, &published->sets[s])) TRI_TRY(print_summary_line(&published->sets[s], to));
  }
  return TRI_OK;
}

/* Prints the interval of nine in ten errors over the judged rows (tri_published_is_judged) of all sets together; a
 * single set has too few rows. Prints nothing if there are no such rows. */
static tri_status print_interval(const tri_published *published, FILE *to) {
  double *errors = NULL;
  int64_t count = 0, room = 0;
  for (int64_t s = 0; s < published->num_sets; s++) room += published->sets[s].num_rows;
  TRI_TRY(tri_alloc("errors", (size_t)room, sizeof *errors, &errors));
  for (int64_t s = 0; s < published->num_sets; s++) {
    const tri_published_set *set = &published->sets[s];
    for (int64_t r = 0; r < set->num_rows; r++) {
      if (tri_published_is_judged(&set->rows[r])) errors[count++] = tri_published_error(&set->rows[r]);
    }
  }
  tri_accuracy found = tri_accuracy_of(errors, count);
  tri_free(errors);
  if (found.rows == 0) return TRI_OK;
  fprintf(to, "\nAll %ld rows that were not fitted: nine in ten errors are between %+.1f %% and %+.1f %%.\n",
          (long)found.rows, percent(found.low), percent(found.high));
  return TRI_OK;
}

/* ---- the same as JSON -------------------------------------------------------------------------------------------- */

/* Returns a number as JSON; null if no number was published. */
static json_t *known(double value, bool is_known) { return is_known ? json_real(value) : json_null(); }

static json_t *row_json(const tri_published_row *row) {
  bool timed = row->published_s > 0, weighed = row->published_bytes > 0;
  double peak = row->prediction.memory.peak;
  return json_pack(
      "{s:s, s:b, s:I, s:o, s:f, s:o, s:f, s:o, s:o, s:f, s:b, s:b, s:o}", "name", row->name, "fitted", (int)row->fit,
      "devices", (json_int_t)row->devices, "published_s", known(row->published_s, timed), "predicted_s",
      row->predicted_s, "published_tflops", known(timed ? tflops(row, row->published_s) : 0, timed), "predicted_tflops",
      tflops(row, row->predicted_s), "error", known(timed ? tri_published_error(row) : 0, timed), "published_bytes",
      known(row->published_bytes, weighed), "predicted_bytes", peak, "out_of_memory", (int)row->out_of_memory, "fits",
      (int)row->prediction.fits, "memory_error", known(weighed ? peak / row->published_bytes - 1 : 0, weighed));
}

static json_t *effects_json(const arguments *given, const tri_published_set *set) {
  json_t *effects = json_array();
  for (size_t e = 0; e < tri_num_published_effects; e++) {
    effect_errors found = errors_of(given, NULL, set, &tri_published_effects[e]);
    if (found.rows == 0) continue;
    json_array_append_new(effects, json_pack("{s:s, s:I, s:f, s:f, s:f}", "effect", tri_published_effects[e].name,
                                             "rows", (json_int_t)found.rows, "mean_error", found.mean, "signed_error",
                                             found.bias, "worst_error", found.worst));
  }
  return effects;
}

static tri_status set_json(const arguments *given, const tri_published_set *set, json_t *to) {
  tri_published_summary s;
  json_t *rows = json_array();
  TRI_TRY(tri_published_summarize(set, &s));
  for (int64_t r = 0; r < set->num_rows; r++) json_array_append_new(rows, row_json(&set->rows[r]));
  json_array_append_new(
      to,
      json_pack("{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:f, s:I, s:I, s:I, s:o, s:o}", "set",
                set->name, "cluster", set->cluster_name, "system", set->system_name, "judged", (json_int_t)s.judged,
                "mean_error", s.mean, "signed_error", s.bias, "worst_error", s.worst, "rank_correlation",
                s.rank_correlation, "mean_rank_correlation", s.mean_rank_correlation, "memory_rows",
                (json_int_t)s.memory_rows, "memory_mean_error", s.memory_mean, "memory_signed_error", s.memory_bias,
                "out_of_memory", (json_int_t)s.oom_rows, "out_of_memory_said_to_fit", (json_int_t)s.oom_said_to_fit,
                "said_not_to_fit", (json_int_t)s.fit_said_not_to, "effects", effects_json(given, set), "rows", rows));
  return TRI_OK;
}

static tri_status validate_print_json(const arguments *given, const tri_published *published) {
  json_t *sets = json_array();
  tri_status status = TRI_OK;
  for (int64_t s = 0; s < published->num_sets && status == TRI_OK; s++) {
    if (is_wanted(given, &published->sets[s])) status = set_json(given, &published->sets[s], sets);
  }
  if (status == TRI_OK) return tri_print_json(sets);
  json_decref(sets);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static tri_status validate_set(tri_published_set *set, unsigned which) {
  bool has_fit = false;
  for (int64_t r = 0; r < set->num_rows; r++) has_fit = has_fit || set->rows[r].fit;
  if (which != 0 && has_fit) {
    TRI_TRY(tri_published_fit(set, which));
    print_constants(set, stderr);
  }
  return tri_published_predict(set);
}

static tri_status print_report(const arguments *given, const tri_published *published, FILE *to) {
  int64_t sets = 0;
  for (int64_t s = 0; s < published->num_sets; s++) sets += is_wanted(given, &published->sets[s]);
  fprintf(to,
          "# Predicted beside published\n\nWritten by `trireme validate --out`; `configs/published.yaml` holds the "
          "rows and their sources.\nTFLOP/s are those of a device, recomputed products counted. The error is that "
          "of the step's time.\n");
  if (sets > 1) {
    TRI_TRY(print_summary(given, published, to));
    print_effects(given, published, NULL, to);
  }
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (is_wanted(given, &published->sets[s])) TRI_TRY(print_set(given, published, &published->sets[s], to));
  }
  return given->num_sets == 0 ? print_interval(published, to) : TRI_OK;
}

static tri_status write_report(const arguments *given, const tri_published *published) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a report");
  tri_status status = print_report(given, published, to);
  fclose(to);
  if (status == TRI_OK && given->out != NULL) status = tri_file_replace(given->out, text, bytes);
  if (status == TRI_OK && given->out == NULL) fputs(text, stdout);
  free(text);
  return status;
}

static tri_status validate(const arguments *given, tri_published *published) {
  char path[TRI_PATH_BYTES];
  unsigned which = 0;
  if (given->fit != NULL) TRI_TRY(constants_of(given->fit, &which));
  if (given->file != NULL) {
    snprintf(path, sizeof path, "%s", given->file);
  } else if (!tri_preset_find(".", "published", path)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "configs/published.yaml is not there; set TRIREME_CONFIGS to Trireme's folder `configs`");
  }
  TRI_TRY(tri_published_load(path, published));
  TRI_TRY(check_wanted(given, path, published));
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (is_wanted(given, &published->sets[s])) TRI_TRY(validate_set(&published->sets[s], which));
  }
  return given->json ? validate_print_json(given, published) : write_report(given, published);
}

static tri_status validate_run(int count, char **given) {
  arguments parsed = {0};
  tri_published *published = NULL;
  TRI_TRY(validate_parse(count, given, &parsed));
  TRI_TRY(tri_alloc("published results", 1, sizeof *published, &published));
  tri_status status = validate(&parsed, published);
  tri_published_release(published);
  tri_free(published);
  return status;
}

const tri_command tri_command_validate = {
    .name = "validate",
    .summary = "predict published results and print both side by side",
    .usage =
        "usage: trireme validate [FILE.yaml] [--set NAME] [--fit CONSTANTS] [--out FILE.md] [--json]\n"
        "\n"
        "Predicts every run of configs/published.yaml (or of a file like it) and prints published and predicted times\n"
        "and memory, the order of layouts, and errors by the effects that a step shows. docs/planning.md describes how "
        "rows\n"
        "are written, in YAML or as a table of comma-separated values.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme validate --set megatron\n",
    .options = validate_options,
    .run = validate_run,
};
