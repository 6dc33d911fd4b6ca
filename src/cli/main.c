/* The program: finds the command, runs it, and turns its status into an exit status and a message. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "base/spin.h"
#include "base/status.h"
#include "base/stop.h"
#include "cli/cli.h"
#include "cli/command_help.h"
#include "cli/complete.h"
#include "cli/help.h"
#include "cli/paths.h"
#include "cli/version.h"
#include "files/write_fault.h"

#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TRI_STOP_LOOK_BEFORE_LIBRARIES;

static tri_status help_run(int count, char **arguments);

static const tri_command command_help = {.name = "help",
                                         .summary = TRI_HELP_SUMMARY,
                                         .usage = tri_help_usage_text,
                                         .options = tri_help_options,
                                         .examples = tri_help_examples,
                                         .run = help_run};

static const tri_command *const commands[] = {
    &tri_command_prepare, &tri_command_new,      &tri_command_train,   &tri_command_simulate,  &tri_command_plan,
    &tri_command_tune,    &tri_command_generate, &tri_command_eval,    &tri_command_import,    &tri_command_export,
    &tri_command_merge,   &tri_command_compare,  &tri_command_inspect, &tri_command_calibrate, &tri_command_validate,
    &tri_command_doctor,  &tri_command_board,    &tri_command_serve,   &command_help,
};
static const tri_commands all = {commands, sizeof commands / sizeof commands[0]};

static tri_status help_run(int count, char **arguments) { return tri_help_run(&all, count, arguments); }

/* Sets OMP_NUM_THREADS to the number of cores if it is larger, or if it is not a number of threads. OpenMP does not
 * check the number: with 100000 threads the program ends at its first loop, before it reads `threads` of a run file. A
 * value that is not a number of threads would make OpenMP print a line about it in each child process, too. Child
 * processes inherit the new value. Warns if it sets the value. */
static void limit_threads(void) {
  const char *asked = getenv("OMP_NUM_THREADS");
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  char *end = NULL, most[24];
  if (asked == NULL || cores < 1) return;
  const long long threads =
      strtoll(asked, &end, 10); /* OMP_NUM_THREADS may be a list with one number for each level of nested loops */
  end += strspn(end, " \t");
  const bool is_number = end != asked && (*end == '\0' || *end == ',') && threads >= 1;
  if (is_number && threads <= cores) return;
  if (is_number) {
    tri_warn("OMP_NUM_THREADS=%.40s is more than the %ld cores of this machine: %ld threads are used", asked, cores,
             cores);
  } else {
    tri_warn(
        "OMP_NUM_THREADS is `%.40s`, which is not a number of threads: %ld are used; set it to 1 to %ld, or "
        "unset it",
        asked, cores, cores);
  }
  snprintf(most, sizeof most, "%ld", cores);
  (void)setenv("OMP_NUM_THREADS", most, 1);
  omp_set_num_threads((int)cores);
}

/* Fails with TRI_INTERNAL if a command that succeeded has not released all memory that it allocated with tri_alloc.
 * Checks this only if TRIREME_CHECK_MEMORY is set, which tests do. */
static tri_status check_memory(void) {
  if (getenv("TRIREME_CHECK_MEMORY") == NULL || tri_memory_bytes() == 0) return TRI_OK;
  return tri_fail_internal("%zu bytes of counted memory were not released", tri_memory_bytes());
}

/* Opens each standard file (0, 1, 2) that is closed. Otherwise a file that is opened later could get the number 1 or 2,
 * and the program's output would be written to it. Standard output is opened so that writes to it fail: lost results
 * are a failure, which is reported at the end. */
static void open_standard_files(void) {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; number++) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    const int file =
        open("/dev/null", number == STDOUT_FILENO ? O_RDONLY : O_RDWR); /* open returns the lowest free number */
    if (file < 0) return;
  }
}

/* Flushes standard output. Fails with TRI_IO_FAILED if this or an earlier write has failed: if an earlier write of a
 * long text failed, there may be nothing left to flush, but the stream remembers the failure. */
static tri_status finish_output(void) {
  const bool failed = ferror(stdout) != 0;
  if (fflush(stdout) != 0)
    return tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s", tri_write_fault(errno));
  if (!failed) return TRI_OK;
  const bool is_closed = (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY;
  return tri_fail(TRI_IO_FAILED, "cannot write to standard output: %s",
                  is_closed ? tri_write_fault(EBADF) : "some of the results could not be written; is the disk full?");
}

static tri_status main_run(const tri_command *command, int count, char **arguments) {
  for (int i = 2; i < count && strcmp(arguments[i], "--") != 0; i++) {
    if (strcmp(arguments[i], "--help") != 0 && strcmp(arguments[i], "-h") != 0) continue;
    tri_command_print_help(command, stdout);
    return TRI_OK;
  }
  char **words = NULL;
  TRI_TRY(tri_paths_go_home(command, count - 1, arguments + 1, &words));
  tri_status status = command->run(count - 1, words);
  tri_free(words);
  return status == TRI_OK ? check_memory() : status;
}

static tri_status run_any(int count, char **arguments) {
  if (count < 2) {
    tri_help_usage(&all, stderr);
    return tri_fail(TRI_BAD_USAGE, "%s", "");
  }
  const char *word = arguments[1];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
    tri_help_usage(&all, stdout);
    return TRI_OK;
  }
  if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0 || strcmp(word, "version") == 0) {
    tri_version_print(stdout);
    return TRI_OK;
  }
  if (strcmp(word, "complete") == 0) return tri_complete_run(&all, count - 2, arguments + 2);
  const tri_command *command = tri_command_find(&all, word);
  if (command == NULL) return tri_command_unknown(&all, word);
  if (!command->holds_signals) tri_stop_release();
  return main_run(command, count, arguments);
}

/* Time, in seconds, within which a launcher ends the other ranks after one rank has failed. */
static const double launcher_s = 3;

/* Lets only the first rank print an error that all ranks find, such as a wrong key: waits in all others. This matters
 * if the user's own launcher has started the ranks: the launcher ends the other ranks after the first exit. `launched`:
 * whether a process of trireme has started this rank; then there is no wait. A rank that is still running after
 * launcher_s prints its own message, since the fault may be on its node alone. */
static void let_first_rank_print(tri_status status, bool launched) {
  if (!launched && status != TRI_INTERRUPTED && tri_parent_rank() > 0) tri_pause_s(launcher_s);
}

int main(int count, char **arguments) {
  tri_stop_hold();
  signal(SIGXFSZ, SIG_IGN); /* so that a write beyond `ulimit -f` returns an error, which is reported like other errors
                               (files/write_fault.h) */
  open_standard_files();
  limit_threads();
  tri_spin_limit(arguments);
  const char *launched = getenv(TRI_LAUNCHED);
  if (launched != NULL) {
    tri_log_mark_lines(strcmp(launched, "terminal") == 0);
    tri_parent_join();
    tri_parent_restore_arguments(count, arguments);
  }
  tri_status status = run_any(count, arguments);
  /* If the message is empty, this rank or another rank of the job has printed it. */
  if (status != TRI_OK && tri_status_message()[0] != '\0') {
    let_first_rank_print(status, launched != NULL);
    tri_log_failure(status, tri_status_message());
  }
  if (status == TRI_OK) {
    status = finish_output();
    if (status != TRI_OK) tri_log_failure(status, tri_status_message());
  }
  tri_parent_leave(tri_status_exit(status));
  return tri_status_exit(status);
}
