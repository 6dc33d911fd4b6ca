/* Replaces the commands that run something in a program that was built without MPI or oneDNN. Each of these commands
 * fails with a message about the build. This file is linked in place of the commands' own files (CMakeLists.txt). Such
 * a program still has help, plan, simulate, validate, and inspect of models and checkpoints. */
#include "cli/cli.h"
#include "cli/running/compare_measured.h"
#include "cli/topics.h"
#include "cli/version.h"
#include "options/inspect_corpus.h"
#include "options/show_documents.h"

static tri_status refuse(const char *what) {
  return tri_fail(TRI_UNSUPPORTED,
                  "%s is not in this trireme, which was built without MPI or oneDNN to plan, simulate, validate and "
                  "inspect alone; install both (on Debian libopenmpi-dev and libdnnl-dev; scripts/install-deps.sh "
                  "does) and build it again",
                  what);
}

static tri_status refuse_command(int count, char **arguments) {
  (void)count;
  return refuse(arguments[0]);
}

tri_status tri_compare_measured(const char *run, const tri_cluster *cluster, const char *timeline, bool json) {
  (void)run, (void)cluster, (void)timeline, (void)json;
  return refuse("simulate --against");
}

tri_status tri_inspect_corpus(const char *prefix, const char *tokenizer, int64_t sequence, bool json) {
  (void)prefix, (void)tokenizer, (void)sequence, (void)json;
  return refuse("inspect of a corpus");
}

tri_status tri_show_documents(const tri_show_request *request) {
  (void)request;
  return refuse("inspect of a corpus");
}

tri_status tri_inspect_attention_fraction(const char *prefix, const char *tokenizer, int64_t sequence, bool packed,
                                          double *fraction, tri_length_ranges *lengths) {
  (void)prefix, (void)tokenizer, (void)sequence, (void)packed, (void)fraction, (void)lengths;
  return refuse("--lengths of a corpus (a file of `inspect CORPUS --json` will do)");
}

#define REFUSED(NAME)                                                                                                  \
  {                                                                                                                    \
    .name = NAME, .summary = "not in this build, which has neither MPI nor oneDNN",                                    \
    .usage = NAME " is not in this trireme: it was built without MPI or oneDNN.\n", .examples = "",                    \
    .run = refuse_command                                                                                              \
  }

const tri_command tri_command_board = REFUSED("board");
const tri_command tri_command_calibrate = REFUSED("calibrate");
const tri_command tri_command_compare = REFUSED("compare");
const tri_command tri_command_doctor = REFUSED("doctor");
const tri_command tri_command_eval = REFUSED("eval");
const tri_command tri_command_export = REFUSED("export");
const tri_command tri_command_merge = REFUSED("merge");
const tri_command tri_command_generate = REFUSED("generate");
const tri_command tri_command_import = REFUSED("import");
const tri_command tri_command_new = REFUSED("new");
const tri_command tri_command_prepare = REFUSED("prepare");
const tri_command tri_command_serve = REFUSED("serve");
const tri_command tri_command_train = REFUSED("train");
const tri_command tri_command_tune = REFUSED("tune");

const tri_topic tri_topics_of_running[] = {{.name = NULL}};

void tri_version_print_libraries(FILE *to) {
  fprintf(to, "MPI        none: this trireme plans, simulates, validates and inspects alone\n");
}
