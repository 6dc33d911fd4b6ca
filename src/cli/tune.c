#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/options.h"
#include "plan/report.h"
#include "tune/explain.h"
#include "tune/store.h"
#include "tune/tuner.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_STORE = 256, OPTION_JSON, OPTION_HTML, OPTION_TRIALS, OPTION_METHOD, OPTION_SEED };

typedef struct arguments {
  const char *study, *store, *html, *method;
  int64_t trials, seed;
  bool json, report;
} arguments;

static tri_status parse(int count, char **given, arguments *out) {
  static const struct option options[] = {{"store", required_argument, NULL, OPTION_STORE},
                                          {"json", no_argument, NULL, OPTION_JSON},
                                          {"html", required_argument, NULL, OPTION_HTML},
                                          {"trials", required_argument, NULL, OPTION_TRIALS},
                                          {"method", required_argument, NULL, OPTION_METHOD},
                                          {"seed", required_argument, NULL, OPTION_SEED},
                                          {NULL, 0, NULL, 0}};
  optind = 1;
  opterr = 0;
  for (;;) {
    int result = getopt_long(count, given, ":", options, NULL);
    if (result == -1) break;
    switch (result) {
      case OPTION_STORE: out->store = optarg; break;
      case OPTION_JSON: out->json = true; break;
      case OPTION_HTML: out->html = optarg; break;
      case OPTION_METHOD: out->method = optarg; break;
      case OPTION_TRIALS: TRI_TRY(tri_option_int("--trials", optarg, 1, 100000, &out->trials)); break;
      case OPTION_SEED: TRI_TRY(tri_option_int("--seed", optarg, 0, 1LL << 53, &out->seed)); break;
      default: return tri_option_fault("tune", result, given);
    }
  }
  if (optind < count && strcmp(given[optind], "report") == 0) {
    out->report = true;
    optind++;
  }
  if (optind == count)
    return tri_fail(TRI_BAD_USAGE, "tune: which study? For example: trireme tune configs/studies/frontier-175b.yaml");
  if (optind + 1 < count) return tri_fail(TRI_BAD_USAGE, "tune: one study at a time, not `%s` too", given[optind + 1]);
  out->study = given[optind];
  return TRI_OK;
}

/* NAME.db beside the study file, if no other is given. */
static tri_status store_path(const arguments *given, char path[TRI_PATH_BYTES]) {
  size_t length = strlen(given->study);
  const char *from = given->store == NULL ? given->study : given->store;
  if (strlen(from) + 4 >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", from);
  snprintf(path, TRI_PATH_BYTES, "%s", from);
  if (given->store == NULL && length > 5 && strcmp(given->study + length - 5, ".yaml") == 0) path[length - 5] = '\0';
  if (given->store == NULL) strcat(path, ".db");
  return TRI_OK;
}

static tri_status print_result(const arguments *given, const tri_study *study, tri_store *store) {
  tri_trial *trials = NULL;
  int64_t count = 0;
  tri_explanation *e = NULL;
  tri_status status = TRI_OK;
  TRI_TRY(tri_store_trials(store, &trials, &count));
  TRI_TRY_GOTO(tri_alloc("an explanation", 1, sizeof *e, &e), done);
  TRI_TRY_GOTO(tri_explain(study, trials, count, e), done);
  if (given->html != NULL) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&page, &bytes);
    if (to != NULL) tri_explain_html(e, to);
    if (to == NULL || fclose(to) != 0) status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: a report");
    if (status == TRI_OK) status = tri_file_replace(given->html, page, bytes);
    free(page);
    if (status != TRI_OK) goto done;
  }
  if (given->json) {
    status = tri_print_json(tri_explain_json(e));
  } else {
    tri_explain_text(e, stdout);
  }
  tri_trial_plan plan;
  if (!given->json && e->best >= 0 && tri_point_plan(study, &trials[e->best].point, &plan) == TRI_OK) {
    printf("\n");
    tri_report_paste(&plan.layout, stdout);
  }
done:
  tri_free(e);
  tri_free(trials);
  return status;
}

static tri_status tune(const arguments *given, tri_study *study) {
  char path[TRI_PATH_BYTES], folder[TRI_PATH_BYTES];
  tri_store *store = NULL;
  TRI_TRY(tri_study_load(given->study, study));
  if (given->trials > 0) study->search.trials = given->trials;
  if (given->seed >= 0) study->search.seed = (uint64_t)given->seed;
  if (given->method != NULL) TRI_TRY(tri_study_set_method(study, given->method));
  if (study->search.method == TRI_METHOD_EXHAUSTIVE && given->trials == 0) study->search.trials = INT32_MAX;
  TRI_TRY(store_path(given, path));
  if (given->report && !tri_path_exists(path)) {
    return tri_fail(TRI_BAD_FILE, "there is no store %s yet; begin with: trireme tune %s", path, given->study);
  }
  int length = snprintf(folder, sizeof folder, "%s.trials", path);
  if (length < 0 || (size_t)length >= sizeof folder) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  TRI_TRY(tri_store_open(path, study, &store));
  tri_status status = given->report ? TRI_OK : tri_tune(study, store, folder);
  if (status == TRI_OK) status = print_result(given, study, store);
  tri_store_close(store);
  return status;
}

static tri_status run(int count, char **given) {
  arguments parsed = {.seed = -1};
  tri_study *study = NULL;
  TRI_TRY(parse(count, given, &parsed));
  TRI_TRY(tri_stop_listen());
  TRI_TRY(tri_alloc("a study", 1, sizeof *study, &study));
  tri_status status = tune(&parsed, study);
  tri_free(study);
  return status;
}

const tri_command tri_command_tune = {
    .name = "tune",
    .summary = "find the best layout by trials, simulated or real, and say what mattered",
    .help =
        "usage: trireme tune [report] STUDY.yaml [--store FILE.db] [--method M] [--trials N] [--seed S]\n"
        "                    [--html FILE] [--json]\n"
        "\n"
        "Makes the trials of a study, each a point of its space, and keeps them in an SQLite file; started again, or "
        "by\n"
        "several at once, it goes on where it was. With `report` it only says what was found.\n"
        "\n"
        "  --store FILE.db     where trials are kept; STUDY.db unless given\n"
        "  --method M          gaussian (the default), random, grid or exhaustive, whatever the study says\n"
        "  --trials N          the budget, whatever the study says\n"
        "  --seed S            of what is chosen at random\n"
        "  --html FILE         also write a page with plots\n"
        "  --json              one JSON document on standard output\n"
        "\n"
        "example: trireme tune configs/studies/frontier-175b.yaml --store /tmp/frontier.db\n",
    .run = run,
};
