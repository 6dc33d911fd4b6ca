/* `trireme tune` and `trireme tune report`: runs the trials of a study, and reports what they show. */
#include "base/memory.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "files/file.h"
#include "files/shell_word.h"
#include "options/json.h"
#include "options/options.h"
#include "page/html.h"
#include "plan/report.h"
#include "schedule/layout_config.h"
#include "tune/explain.h"
#include "tune/rounds.h"
#include "tune/store.h"
#include "tune/study_objective.h"
#include "tune/trial_schedule.h"
#include "tune/tuner.h"

#include <stdio.h>
#include <string.h>

typedef struct arguments {
  const char *study, *store, *html, *method;
  int64_t trials, seed, ranks;
  bool json, report, keys;
} arguments;

static tri_status read_method(void *values, const char *text) {
  static const char *const methods[] = {"auto", "gaussian", "random", "grid", "exhaustive", "pbt", "halving"};
  arguments *out = values;
  out->method = text;
  return tri_option_word("--method", text, methods, sizeof methods / sizeof methods[0], &(int){0});
}

#define TRI_OPTION_VALUES arguments
static const tri_option tune_options[] = {
    {TRI_INT("ranks", ranks, 1, 1 << 24), .letter = 'n',
     .help =
         "  -n, --ranks N       ranks of each real trial, started with this machine's mpiexec; simulated studies set\n"
         "                      `devices`\n"},
    {TRI_PATH("store", store), .help = "  --store FILE.db     file of the trials; STUDY.db unless given\n"},
    {TRI_READ("method", read_method), .help = "  --method M          auto (the default: all points where that takes "
                                              "seconds, else gaussian), gaussian, random,\n"
                                              "                      grid or exhaustive, instead of the study's; pbt "
                                              "and halving can only be set in the study file\n"},
    {TRI_INT("trials", trials, 1, 100000),
     .help = "  --trials N          number of trials, instead of the study's; with auto: gaussian\n"},
    {TRI_INT("seed", seed, 0, 1LL << 53), .help = "  --seed S            seed of random choices\n"},
    {TRI_PATH("html", html), .help = "  --html FILE         also write a page with plots\n"},
    {TRI_FLAG("json", json), .help = "  --json              one JSON document on standard output\n"},
    {TRI_FLAG("keys", keys), .help = "  --keys              print every key of a study file with its default\n"},
    {0}};

static tri_status tune_parse(int count, char **given, arguments *out) {
  const tri_option_table table = {.command = "tune", .rows = tune_options};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, given, out, &first));
  if (out->keys) return TRI_OK;
  if (first < count && strcmp(given[first], "report") == 0) {
    out->report = true;
    first++;
  }
  if (first == count)
    return tri_fail(TRI_BAD_USAGE, "tune: which study? For example: trireme tune configs/studies/frontier-175b.yaml");
  if (first + 1 < count) return tri_fail(TRI_BAD_USAGE, "tune: one study at a time, not `%s` too", given[first + 1]);
  out->study = given[first];
  return TRI_OK;
}

/* Sets `path` to the path of the store: the file of --store, or NAME.db next to the study file NAME.yaml. Fails with
 * TRI_BAD_USAGE if the path is too long. */
static tri_status store_path(const arguments *given, char path[TRI_PATH_BYTES]) {
  size_t length = strlen(given->study);
  const char *from = given->store == NULL ? given->study : given->store;
  if (strlen(from) + 4 >= TRI_PATH_BYTES) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", from);
  snprintf(path, TRI_PATH_BYTES, "%s", from);
  if (given->store == NULL && length > 5 && strcmp(given->study + length - 5, ".yaml") == 0) path[length - 5] = '\0';
  if (given->store == NULL) strcat(path, ".db");
  return TRI_OK;
}

/* Results that a report prints as text, JSON or HTML. */
typedef struct findings {
  const tri_study *study;
  const tri_explanation *explained; /* NULL for methods that train in rounds */
  /* [num_members]: members of a method that trains in rounds; NULL for other methods */
  const tri_member *members;
  int64_t num_members;
  const char *layout; /* layout of the best trial; NULL if there is none */
} findings;

static tri_status write_page(const findings *f, const char *path) {
  tri_page page;
  TRI_TRY(tri_page_open(&page, path));
  if (f->explained != NULL) tri_explain_html(f->explained, page.to);
  if (f->explained == NULL) tri_rounds_method_of(f->study)->html(f->study, f->members, f->num_members, page.to);
  return tri_page_close(&page, path, TRI_OK);
}

static tri_status print_findings(const arguments *given, const findings *f) {
  if (given->html != NULL) TRI_TRY(write_page(f, given->html));
  if (given->json) {
    json_t *document = f->explained != NULL
                           ? tri_explain_json(f->explained)
                           : tri_rounds_method_of(f->study)->json(f->study, f->members, f->num_members);
    if (document != NULL && f->layout != NULL) json_object_set_new(document, "layout", json_string(f->layout));
    return tri_print_json(document);
  }
  if (f->explained != NULL) tri_explain_text(f->explained, stdout);
  if (f->explained == NULL) tri_rounds_method_of(f->study)->text(f->study, f->members, f->num_members, stdout);
  return TRI_OK;
}

static tri_status print_rounds(const arguments *given, const tri_study *study, const char *path, tri_store *store) {
  findings f = {.study = study};
  TRI_TRY(tri_store_members(store, &f.members, &f.num_members));
  TRI_TRY(print_findings(given, &f));
  const tri_member *best = tri_rounds_best(f.members, f.num_members);
  char folder[64], weights[TRI_PATH_BYTES];
  if (given->json || best == NULL) return TRI_OK;
  tri_rounds_method_of(study)->folder(best, folder);
  const int length = snprintf(weights, sizeof weights, "%s.trials/%s/checkpoints", path, folder);
  if (length < (int)sizeof weights && tri_path_exists(weights)) printf("\nits weights: %s\n", weights);
  return TRI_OK;
}

static tri_status print_layouts(const arguments *given, const tri_study *study, const char *path, tri_store *store) {
  const tri_trial *trials = NULL;
  int64_t count = 0;
  tri_explanation *e = NULL;
  tri_trial known[TRI_RECIPES] = {{0}};
  tri_status status = TRI_OK;
  char text[TRI_LAYOUT_TEXT_BYTES];
  tri_layout layout;
  TRI_TRY(tri_store_trials(store, &trials, &count));
  TRI_TRY_GOTO(tri_alloc("an explanation", 1, sizeof *e, &e), done);
  for (int64_t r = 0; r < study->num_known; r++) {
    bool found = false;
    TRI_TRY_GOTO(tri_store_known(store, &study->known[r], &known[r], &found), done);
  }
  TRI_TRY_GOTO(tri_explain(study, trials, count, known, e), done);
  findings found = {.study = study, .explained = e};
  if (e->best >= 0) {
    TRI_TRY_GOTO(tri_store_best_layout(path, text, sizeof text), done);
    found.layout = text;
  }
  TRI_TRY_GOTO(print_findings(given, &found), done);
  if (given->json || found.layout == NULL) goto done;
  if (tri_objective_is_of_loss(study->objective)) {
    tri_trial_schedule_print_use(study, &trials[e->best].point, stdout);
    if (tri_objective_is_last_loss(study->objective)) goto done; /* trials use the run file's layout */
  }
  TRI_TRY_GOTO(tri_layout_parse(text, &layout), done);
  printf("\n");
  tri_report_paste(&layout, stdout);
done:
  tri_free(e);
  return status;
}

static tri_status print_result(const arguments *given, const tri_study *study, const char *path, tri_store *store) {
  bool in_rounds = tri_rounds_method_of(study) != NULL;
  return in_rounds ? print_rounds(given, study, path, store) : print_layouts(given, study, path, store);
}

/* Applies the options of the command line, which take precedence over the study file. Fails with TRI_BAD_USAGE if
 * --method changes the kind of the study's trials (halving, or population-based training). */
static tri_status apply_options(const arguments *given, tri_study *study) {
  if (given->trials > 0) study->search.trials = given->trials;
  if (given->seed >= 0) study->search.seed = (uint64_t)given->seed;
  const tri_rounds_method *before = tri_rounds_method_of(study), *halving = &tri_method_halving;
  if (given->method != NULL) TRI_TRY(tri_study_set_method(study, given->method));
  const tri_rounds_method *now = tri_rounds_method_of(study);
  if (before != now && (before == halving || now == halving)) {
    return tri_fail(TRI_BAD_USAGE,
                    "--method %s: trials of halving are stored and reported differently; write `method: %s` in the "
                    "study file, or leave the option out",
                    given->method, given->method);
  }
  if (before != now) {
    return tri_fail(TRI_BAD_USAGE,
                    "--method %s: population-based training has its own space; write `method: pbt` in the study file, "
                    "or leave it out",
                    given->method);
  }
  if (study->search.method == TRI_METHOD_EXHAUSTIVE && given->trials == 0) study->search.trials = 0; /* all trials */
  return TRI_OK;
}

/* Returns whether a name in the store may be opened as a file. A store from elsewhere may name a pipe, and opening a
 * pipe would wait for a writer. */
static bool may_read(const char *name) {
  const char *kind = tri_path_odd_kind(name);
  return kind == NULL || strcmp(kind, "folder") == 0; /* a folder may have the same name as a preset */
}

static tri_status tune_report(const arguments *given, tri_study *study) {
  char path[TRI_PATH_BYTES];
  tri_store *store = NULL;
  size_t length = strlen(given->study);
  bool named = length > 3 && strcmp(given->study + length - 3, ".db") == 0;
  if (named || tri_store_is_one(given->study)) {
    if (length >= sizeof path) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", given->study);
    snprintf(path, sizeof path, "%s", given->study);
  } else {
    char word[TRI_SHELL_WORD_BYTES];
    TRI_TRY(store_path(given, path));
    if (!tri_path_exists(path)) {
      return tri_fail(TRI_BAD_FILE, "the store %s does not exist yet; begin with: trireme tune %s", path,
                      tri_shell_word(given->study, word));
    }
  }
  TRI_TRY(tri_store_study(path, study));
  /* If the cluster's file still exists, reports name the cluster that simulations are based on. */
  if (!tri_study_is_real(study) &&
      !(may_read(study->cluster_name) && tri_cluster_load(study->cluster_name, &study->cluster) == TRI_OK)) {
    study->cluster = (tri_cluster){0};
  }
  if (!(may_read(study->system_name) && tri_system_load(study->system_name, &study->system) == TRI_OK))
    study->system = (tri_system){0};
  TRI_TRY(tri_store_open(path, NULL, study, &store));
  tri_status status = print_result(given, study, path, store);
  tri_store_close(store);
  return status;
}

static tri_status tune(const arguments *given, tri_study *study) {
  char path[TRI_PATH_BYTES], folder[TRI_PATH_BYTES];
  tri_store *store = NULL;
  TRI_TRY(tri_study_load(given->study, given->ranks, study));
  TRI_TRY(apply_options(given, study));
  TRI_TRY(tri_page_check("--html", given->html)); /* before the trials, which take hours */
  TRI_TRY(store_path(given, path));
  int length = snprintf(folder, sizeof folder, "%s.trials", path);
  if (length < 0 || (size_t)length >= sizeof folder) return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
  TRI_TRY(tri_store_open(path, study->text, study, &store));
  const tri_rounds_method *rounds = tri_rounds_method_of(study);
  tri_trial_schedule_announce(study);
  tri_status status = rounds != NULL ? tri_rounds_train(rounds, study, store, folder) : tri_tune(study, store, folder);
  if (status == TRI_OK) status = print_result(given, study, path, store);
  tri_store_close(store);
  return status;
}

static tri_status tune_run(int count, char **given) {
  arguments parsed = {.seed = -1};
  tri_study *study = NULL;
  TRI_TRY(tune_parse(count, given, &parsed));
  if (parsed.keys) {
    tri_config_help(tri_study_table(), stdout);
    return TRI_OK;
  }
  TRI_TRY(tri_stop_listen("interrupted; the same command continues"));
  TRI_TRY(tri_alloc("a study", 1, sizeof *study, &study));
  tri_status status = parsed.report ? tune_report(&parsed, study) : tune(&parsed, study);
  tri_study_release(study);
  tri_free(study);
  return status;
}

const tri_command tri_command_tune = {
    .name = "tune",
    .summary = "find the best layout by trials, simulated or real, and report which parameters mattered",
    .usage =
        "usage: trireme tune STUDY.yaml [-n RANKS] [--store FILE.db] [--method M] [--trials N] [--seed S]\n"
        "                    [--html FILE] [--json]\n"
        "       trireme tune report STUDY.db [--html FILE] [--json]\n"
        "       trireme tune --keys\n"
        "\n"
        "Runs the trials of a study, each a point of its space, and stores them in an SQLite file. If it is started "
        "again, or\n"
        "several times at once, it continues. `report` only prints the results.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme tune configs/studies/frontier-175b.yaml --store /tmp/frontier.db\n",
    .holds_signals = true,
    .options = tune_options,
    .run = tune_run,
};
