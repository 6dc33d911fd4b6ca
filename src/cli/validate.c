#include "base/file.h"
#include "base/format.h"
#include "base/memory.h"
#include "base/preset.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "plan/accuracy.h"
#include "plan/published.h"

#include <getopt.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_FIT = 256, OPTION_JSON, OPTION_SET, OPTION_OUT };

typedef struct arguments {
  const char *file, *fit, *set, *out;
  bool json;
} arguments;

static tri_status validate_parse(int count, char **given, arguments *out) {
  static const struct option options[] = {{"fit", required_argument, NULL, OPTION_FIT},
                                          {"set", required_argument, NULL, OPTION_SET},
                                          {"out", required_argument, NULL, OPTION_OUT},
                                          {"json", no_argument, NULL, OPTION_JSON},
                                          {NULL, 0, NULL, 0}};
  optind = 1;
  opterr = 0;
  for (;;) {
    int result = getopt_long(count, given, ":", options, NULL);
    if (result == -1) break;
    switch (result) {
      case OPTION_FIT: out->fit = optarg; break;
      case OPTION_SET: out->set = optarg; break;
      case OPTION_OUT: out->out = optarg; break;
      case OPTION_JSON: out->json = true; break;
      default: return tri_option_fault("validate", result, given);
    }
  }
  if (optind + 1 < count)
    return tri_fail(TRI_BAD_USAGE, "validate: one file at a time, not `%s` too", given[optind + 1]);
  if (optind < count) out->file = given[optind];
  return TRI_OK;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

/* "matmul,memory" as bits. */
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

static void print_set(const tri_published_set *set, FILE *to) {
  tri_published_summary summary = tri_published_summarize(set);
  fprintf(to, "\n## %s\n\nCluster `%s`, system `%s`.\n\n", set->name, set->cluster_name, set->system_name);
  fprintf(to,
          "| run | devices | tensor x pipeline x data | published s | predicted s | published TFLOP/s | predicted "
          "TFLOP/s | error |\n");
  fprintf(to, "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (int64_t r = 0; r < set->num_rows; r++) {
    const tri_published_row *row = &set->rows[r];
    fprintf(to, "| %s%s | %ld | %ld x %ld x %ld | %.4g | %.4g | %.1f | %.1f | %+.1f %% |\n", row->name,
            row->fit ? " (fitted)" : "", (long)row->devices, (long)row->layout.tensor, (long)row->layout.pipeline,
            (long)row->layout.data, row->published_s, row->predicted_s, tflops(row, row->published_s),
            tflops(row, row->predicted_s), tri_format_rounded(100 * tri_published_error(row), 1));
  }
  fprintf(
      to,
      "\nOver the %ld rows that were not fitted: mean error %.1f %%, worst %.1f %%; least rank correlation within a "
      "model and size %.2f.\n",
      (long)summary.judged, 100 * summary.mean, 100 * summary.worst, summary.rank_correlation);
}

/* Over all that were predicted; a set on its own is too few rows. */
static void print_interval(const tri_published *published, FILE *to) {
  double errors[TRI_PUBLISHED_SETS * TRI_PUBLISHED_ROWS];
  int64_t count = 0;
  for (int64_t s = 0; s < published->num_sets; s++) {
    const tri_published_set *set = &published->sets[s];
    for (int64_t r = 0; r < set->num_rows; r++) {
      if (!set->rows[r].fit) errors[count++] = tri_published_error(&set->rows[r]);
    }
  }
  tri_accuracy found = tri_accuracy_of(errors, count);
  if (found.rows == 0) return;
  fprintf(to, "\nOf all %ld rows that were not fitted, nine in ten errors lie between %+.1f %% and %+.1f %%.\n",
          (long)found.rows, tri_format_rounded(100 * found.low, 1), tri_format_rounded(100 * found.high, 1));
}

static json_t *set_json(const tri_published_set *set) {
  tri_published_summary summary = tri_published_summarize(set);
  json_t *rows = json_array();
  for (int64_t r = 0; r < set->num_rows; r++) {
    const tri_published_row *row = &set->rows[r];
    json_array_append_new(
        rows, json_pack("{s:s, s:b, s:I, s:f, s:f, s:f, s:f, s:f}", "name", row->name, "fitted", (int)row->fit,
                        "devices", (json_int_t)row->devices, "published_s", row->published_s, "predicted_s",
                        row->predicted_s, "published_tflops", tflops(row, row->published_s), "predicted_tflops",
                        tflops(row, row->predicted_s), "error", tri_published_error(row)));
  }
  return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:o}", "set", set->name, "cluster", set->cluster_name, "system",
                   set->system_name, "mean_error", summary.mean, "worst_error", summary.worst, "rank_correlation",
                   summary.rank_correlation, "rows", rows);
}

static tri_status validate_set(tri_published_set *set, unsigned which) {
  bool has_fit = false;
  for (int64_t r = 0; r < set->num_rows; r++) has_fit = has_fit || set->rows[r].fit;
  if (which != 0 && has_fit) {
    TRI_TRY(tri_published_fit(set, which));
    print_constants(set, stderr);
  }
  return tri_published_predict(set);
}

static tri_status write_report(const arguments *given, const tri_published *published) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to == NULL) return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a report");
  fprintf(to,
          "# Predicted beside published\n\nWritten by `trireme validate --out`; `configs/published.yaml` holds the "
          "rows and "
          "their sources.\nTFLOP/s are those of a device, recomputed products counted. The error is that of the step's "
          "time.\n");
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (given->set == NULL || strcmp(given->set, published->sets[s].name) == 0) print_set(&published->sets[s], to);
  }
  if (given->set == NULL) print_interval(published, to);
  fclose(to);
  tri_status status = given->out == NULL ? TRI_OK : tri_file_replace(given->out, text, bytes);
  if (status == TRI_OK && given->out == NULL) fputs(text, stdout);
  free(text);
  return status;
}

static tri_status validate_print_json(const arguments *given, const tri_published *published) {
  json_t *sets = json_array();
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (given->set != NULL && strcmp(given->set, published->sets[s].name) != 0) continue;
    json_array_append_new(sets, set_json(&published->sets[s]));
  }
  return tri_print_json(sets);
}

static tri_status validate(const arguments *given, tri_published *published) {
  char path[TRI_PATH_BYTES];
  unsigned which = 0;
  bool found = given->set == NULL;
  if (given->fit != NULL) TRI_TRY(constants_of(given->fit, &which));
  if (given->file != NULL) {
    snprintf(path, sizeof path, "%s", given->file);
  } else if (!tri_preset_find(".", "published", path)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "configs/published.yaml is not there; set TRIREME_CONFIGS to Trireme's folder `configs`");
  }
  TRI_TRY(tri_published_load(path, published));
  for (int64_t s = 0; s < published->num_sets; s++) {
    if (given->set != NULL && strcmp(given->set, published->sets[s].name) != 0) continue;
    found = true;
    TRI_TRY(validate_set(&published->sets[s], which));
  }
  if (!found) return tri_fail(TRI_BAD_USAGE, "validate: %s has no set `%s`", path, given->set);
  return given->json ? validate_print_json(given, published) : write_report(given, published);
}

static tri_status validate_run(int count, char **given) {
  arguments parsed = {0};
  tri_published *published = NULL;
  TRI_TRY(validate_parse(count, given, &parsed));
  TRI_TRY(tri_alloc("published results", 1, sizeof *published, &published));
  tri_status status = validate(&parsed, published);
  tri_free(published);
  return status;
}

const tri_command tri_command_validate = {
    .name = "validate",
    .summary = "predict published results and print both side by side",
    .help =
        "usage: trireme validate [FILE.yaml] [--set NAME] [--fit CONSTANTS] [--out FILE.md] [--json]\n"
        "\n"
        "Predicts every run of configs/published.yaml (or of a file like it) and prints published and predicted "
        "times.\n"
        "\n"
        "  --set NAME        one set only\n"
        "  --fit CONSTANTS   first fit these constants of the cluster to the rows marked `fit`, and print them:\n"
        "                    matmul,matmul_half,attention,memory,link,launch,start\n"
        "  --out FILE.md     write the tables there\n"
        "  --json            one JSON document on standard output\n"
        "\n"
        "example: trireme validate --set megatron\n",
    .run = validate_run,
};
