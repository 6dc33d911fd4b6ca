/* `trireme train`: reads the command line, trains in this process or in the ranks of a job that it starts, and records
 * failures in OUTPUT/failures.txt. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/running/ranks.h"
#include "comm/comm.h"
#include "comm/placement.h"
#include "config/name_aliases.h"
#include "files/file.h"
#include "launch/launcher.h"
#include "run/resolve_auto.h"
#include "run/run_config.h"
#include "schedule/layout_config.h"
#include "train/trainer.h"
#include "tune/store.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_arguments {
  const char *file;
  const char **sets;
  int64_t num_sets;
  const char *resume, *timeline, *profile, *layout_from, *log;
  int64_t ranks, rank, stop_at;
  char **given; /* original command line */
  bool dry_run, verbose, json, keys;
} train_arguments;

enum { MOST_LAYOUT_KEYS = 24 };

static tri_status add_set(void *values, const char *text) {
  train_arguments *out = values;
  out->sets[out->num_sets++] = text;
  return TRI_OK;
}

static tri_status read_resume(void *values, const char *text) {
  train_arguments *out = values;
  out->resume = text;
  if (*text == '\0') return tri_fail(TRI_BAD_USAGE, "--resume needs a value: auto, never or a folder");
  if (!tri_name_is_among(text, "latest last newest true yes") || tri_path_exists(text)) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "--resume takes auto (the newest good checkpoint), never or a folder, not `%s`", text);
}

#define TRI_OPTION_VALUES train_arguments
static const tri_option train_options[] = {
    {TRI_READ("set", add_set),
     .help =
         "  --set KEY=VALUE   override any key of the run file, as often as you like: --set layout.micro_batch=8\n"},
    {TRI_INT("ranks", ranks, 1, 1 << 24), .letter = 'n',
     .help = "  -n, --ranks N     start N ranks through this machine's mpiexec; under mpirun, srun or flux run leave "
             "it out;\n"
             "                    with --dry-run, how many the job would have (as few as the layout has)\n"},
    {TRI_READ("resume", read_resume), .is_path = true,
     .help =
         "  --resume auto     resume from the newest good checkpoint in `output`, or begin without one (the default)\n"
         "  --resume never    start over; checkpoints in `output` are moved aside\n"
         "  --resume DIR      begin from this checkpoint, a run's newest one, or a Hugging Face folder's weights\n"},
    {TRI_PATH("layout-from", layout_from), .help = "  --layout-from DB  take the best layout that `trireme tune` has "
                                                   "found; `--set layout...` takes precedence over it\n"},
    {TRI_INT("stop-at", stop_at, 1, INT64_C(1) << 53),
     .help = "  --stop-at STEP    end after this step, with an evaluation and a checkpoint; the schedule stays that of "
             "all steps,\n"
             "                    and the same command without it continues\n"},
    {TRI_PATH("timeline", timeline),
     .help = "  --timeline FILE   write what each rank did in some steps: FILE.svg, and FILE.json for Perfetto\n"},
    {TRI_PATH("profile", profile), .help =
                                       "  --profile FILE    write the time of each kernel in some steps, and its share "
                                       "of the measured speed: FILE.svg,\n"
                                       "                    and FILE.json with every rank (only on the device cpu)\n"},
    {TRI_PATH("log", log),
     .help = "  --log FILE        also append all lines of standard error to FILE, each with the time of day (UTC)\n"},
    {TRI_FLAG("dry-run", dry_run), .help = "  --dry-run         print the length of the run, its time and memory, and "
                                           "where it would begin; train nothing\n"},
    {TRI_FLAG("verbose", verbose),
     .help =
         "  --verbose         with --dry-run, also print the operations, the step program and the memory plan of one "
         "rank\n"},
    {TRI_FLAG("json", json), .help = "  --json            with --dry-run, print it as one JSON document\n"},
    {TRI_INT("rank", rank, 0, 1 << 24), .help = "  --rank RANK       the rank whose program a dry run prints (0)\n"},
    {TRI_FLAG("keys", keys), .help = "  --keys            print every key of a run file with its default\n"},
    {0}};

/* Fails with TRI_BAD_USAGE because of a second word on the command line. It may be a setting such as
 * "optimizer.lr=1e-3", which some programs take in place of `--set`, or another file. */
static tri_status fault_of_further_word(const char *word) {
  char name[128], key[128];
  size_t length = strcspn(word, "=");
  snprintf(name, sizeof name, "%.*s", (int)length, word);
  if (word[length] == '=' && tri_config_meant(tri_run_config_table(), name, key, sizeof key)) {
    return tri_fail(TRI_BAD_USAGE, "train: `%.200s` is not an option; did you mean --set %s%.200s?", word, key,
                    word + length);
  }
  return tri_fail(TRI_BAD_USAGE, "train: one run file at a time, not `%s` too", word);
}

static tri_status train_parse(int count, char **arguments, train_arguments *out) {
  const tri_option_table table = {"train", train_options, tri_run_config_table(), "--set"};
  int first = 0;
  TRI_TRY(tri_options_parse(&table, count, arguments, out, &first));
  if (out->keys) return TRI_OK;
  if (first == count) return tri_fail(TRI_BAD_USAGE, "train: which run file? For example: trireme train run.yaml");
  if (first + 1 < count) return fault_of_further_word(arguments[first + 1]);
  out->file = arguments[first];
  if (out->json && out->verbose) return tri_fail(TRI_BAD_USAGE, "train: --json has no details of --verbose; give one");
  if ((out->json || out->verbose) && !out->dry_run) {
    return tri_fail(TRI_BAD_USAGE, "train: %s is for --dry-run", out->json ? "--json" : "--verbose");
  }
  return TRI_OK;
}

/* Returns whether a status is not recorded as a failure. Such a status is a success, or due to a signal, to an output
 * that another run holds, or to a command or key that was refused before the run changed its output. */
static bool is_no_failure(tri_status status) {
  switch (status) {
    case TRI_OK:
    case TRI_BUSY:
    case TRI_INTERRUPTED:
    case TRI_BAD_USAGE:
    case TRI_BAD_CONFIG:
    case TRI_BAD_LAYOUT: return true;
    case TRI_BAD_FILE:
    case TRI_IO_FAILED:
    case TRI_OUT_OF_MEMORY:
    case TRI_UNSUPPORTED:
    case TRI_DIFFERENT:
    case TRI_DIVERGED:
    case TRI_COMM:
    case TRI_DEVICE_FAILED:
    case TRI_INTERNAL: break;
  }
  return false;
}

/* Appends the time of day and the error message to OUTPUT/failures.txt, because standard error may be lost (the user's
 * own launcher, a closed terminal). The file keeps the lines of earlier failures. If the file is older than
 * metrics.jsonl, the run has continued since its last failure. */
static void append_failure(const char *output, const char *who, tri_status status) {
  char path[TRI_PATH_BYTES], now[TRI_CLOCK_TEXT_BYTES];
  if (tri_status_message()[0] == '\0' || is_no_failure(status) || !tri_path_is_directory(output)) return;
  if (snprintf(path, sizeof path, "%s/failures.txt", output) >= (int)sizeof path) return;
  FILE *to = tri_path_odd_kind(path) == NULL ? fopen(path, "ae")
                                             : NULL; /* if the file is a pipe, opening it would wait for a reader */
  if (to == NULL) return;
  fprintf(to, "%s %s: %s\n", tri_clock_text(now), who, tri_status_message());
  fclose(to);
}

/* Records the error message of a rank. If the rank belongs to a job of `-n`, does nothing, because the job's parent
 * records the messages of all ranks. */
static void append_own_failure(const char *output, tri_status status) {
  char who[32];
  if (getenv(TRI_LAUNCHED) != NULL) return;
  snprintf(who, sizeof who, "rank %d", tri_comm_rank());
  append_failure(output, who, status);
}

/* Records the error message of a whole job. The message names the failed rank if it is known. */
static void append_job_failure(const char *output, int64_t ranks, tri_status status) {
  char who[48];
  snprintf(who, sizeof who, "job of %lld ranks", (long long)ranks);
  append_failure(output, who, status);
}

static tri_status join_and_train(const train_arguments *arguments, const tri_run_config *config) {
  int threads = 0;
  int64_t launched = 0, place = 0;
  tri_comm_launched(&launched, &place);
  if (arguments->dry_run && place > 0) return TRI_OK; /* only the first rank prints it */
  TRI_TRY(tri_stop_listen(tri_comm_is_started_alone() ? "interrupted before the first step; nothing is lost" : NULL));
  if (!arguments->dry_run) signal(SIGPIPE, SIG_IGN); /* so that the run continues if its output is not read */
  if (!arguments->dry_run) TRI_TRY(tri_comm_open());
  if (!arguments->dry_run) TRI_TRY(tri_placement_apply(&threads));
  tri_train_options options = {
      .config = config,
      .resume = arguments->resume,
      .dry_run = arguments->dry_run,
      .verbose = arguments->verbose,
      .json = arguments->json,
      .threads = threads,
      .ranks = arguments->ranks > 0 ? arguments->ranks : launched,
      .dry_run_rank = arguments->rank,
      .stop_at = arguments->stop_at,
      .timeline = arguments->timeline,
      .profile = arguments->profile,
  };
  tri_status status = tri_train(&options);
  if (!arguments->dry_run) append_own_failure(config->output, status);
  return tri_ranks_end(status);
}

/* Settings for the run file: first those of the best layout of a study, then those that the user gave, which take
 * precedence. */
typedef struct found_layout {
  char text[TRI_LAYOUT_TEXT_BYTES], words[MOST_LAYOUT_KEYS][TRI_LAYOUT_WORD_BYTES + 8];
  const char **sets;
  int64_t num_sets;
} found_layout;

static tri_status find_layout(const train_arguments *arguments, found_layout *out) {
  char word[TRI_LAYOUT_WORD_BYTES];
  TRI_TRY(tri_alloc("options", (size_t)arguments->num_sets + MOST_LAYOUT_KEYS, sizeof *out->sets, &out->sets));
  if (arguments->layout_from != NULL) {
    tri_status status = tri_store_check_layouts(arguments->layout_from);
    if (status == TRI_OK) status = tri_store_best_layout(arguments->layout_from, out->text, sizeof out->text);
    if (status != TRI_OK) tri_free(out->sets);
    TRI_TRY(status);
  }
  for (const char *at = out->text; out->num_sets < MOST_LAYOUT_KEYS && tri_layout_next_word(&at, word);) {
    if (strncmp(word, "data=", 5) == 0) continue; /* the number of replicas follows from this run's ranks */
    snprintf(out->words[out->num_sets], sizeof out->words[0], "layout.%s", word);
    out->sets[out->num_sets] = out->words[out->num_sets];
    out->num_sets++;
  }
  for (int64_t i = 0; i < arguments->num_sets; i++) out->sets[out->num_sets++] = arguments->sets[i];
  return TRI_OK;
}

/* Opens the file of --log, to which the log is copied from now on. It stays open until the process ends. Fails with
 * TRI_BAD_USAGE if the path is not that of a regular file. */
static tri_status open_log(const char *path) {
  const char *kind = tri_path_odd_kind(path);
  if (kind != NULL) return tri_fail(TRI_BAD_USAGE, "train: --log %s is a %s; name a file", path, kind);
  FILE *to = fopen(path, "ae");
  if (to == NULL) return tri_fail(TRI_IO_FAILED, "cannot open %s for writing: %s", path, strerror(errno));
  tri_log_copy_to(fileno(to));
  return TRI_OK;
}

static tri_status train(const train_arguments *arguments) {
  if (arguments->keys || arguments->dry_run) tri_stop_release();
  if (arguments->keys) {
    tri_run_config_help(stdout);
    return TRI_OK;
  }
  tri_run_config *config = NULL;
  found_layout found = {.num_sets = 0};
  if (arguments->log != NULL && getenv(TRI_LAUNCHED) == NULL) TRI_TRY(open_log(arguments->log));
  TRI_TRY(find_layout(arguments, &found));
  tri_status status = tri_alloc("a run's configuration", 1, sizeof *config, &config);
  if (status == TRI_OK) status = tri_run_config_load(arguments->file, found.sets, found.num_sets, config);
  if (status == TRI_OK) status = tri_run_resolve_auto(config, arguments->resume);
  tri_free(found.sets);
  if (status == TRI_OK && !arguments->dry_run && arguments->ranks > 1) {
    tri_launch_options options = {.ranks = arguments->ranks,
                                  .max_restarts = config->max_restarts,
                                  .resumes = true,
                                  .elastic = config->elastic,
                                  .hang_timeout_s = config->hang_timeout,
                                  .output = config->output};
    status = tri_launch(&options, arguments->given);
    append_job_failure(config->output, arguments->ranks, status);
  } else if (status == TRI_OK) {
    status = join_and_train(arguments, config);
  }
  tri_free(config);
  return status;
}

static tri_status train_run(int count, char **arguments) {
  train_arguments parsed = {.resume = "auto", .given = arguments};
  TRI_TRY(tri_alloc("options", (size_t)count, sizeof *parsed.sets, &parsed.sets));
  tri_status status = train_parse(count, arguments, &parsed);
  if (tri_launch_is_rank()) parsed.ranks = 0;
  if (status == TRI_OK) status = train(&parsed);
  tri_free(parsed.sets);
  return status;
}

const tri_command tri_command_train = {
    .name = "train",
    .summary = "train a model as a run file describes it",
    .usage =
        "usage: trireme train RUN.yaml [-n RANKS] [--set KEY=VALUE]... [--resume auto|never|DIR]\n"
        "                     [--layout-from STUDY.db] [--stop-at STEP] [--timeline FILE]\n"
        "                     [--dry-run [--verbose | --json]]\n"
        "       trireme train --keys\n"
        "\n"
        "Trains the model of the run file and writes metrics, checkpoints and a summary into its `output`.\n"
        "\n",
    .examples =
        "\n"
        "example: trireme train configs/runs/gpt2-demo.yaml --set optimizer.steps=100\n",
    .holds_signals = true,
    .options = train_options,
    .run = train_run,
};
