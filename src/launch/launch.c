/* A job that this program starts: the launcher's command line, and restarts after a rank was lost. supervisor.c handles
 * a start, and cause.c finds out why it ended. */
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "base/system.h"
#include "comm/comm.h"
#include "files/folder_lock.h"
#include "launch/launcher.h"
#include "launch/launcher_messages.h"
#include "launch/stale_shm.h"
#include "launch/supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUMBER_BYTES = 32, MAX_COLLISIONS = 8 };

/* ---- the command line -------------------------------------------------------------------------------------------- */

static int add_launcher(const tri_launcher *launcher, char *number, char **line) {
  static const char *const passed[] = {TRI_LAUNCHED, TRI_PARENT, TRI_STREAMS, TRI_JOB_VARIABLE};
  int used = 0;
  line[used++] = (char *)(uintptr_t)launcher->path;
  if (strcmp(launcher->implementation, "Open MPI") == 0) {
    if (geteuid() == 0) line[used++] = "--allow-run-as-root";
    line[used++] = "--oversubscribe";
    line[used++] = "--bind-to"; /* the ranks bind themselves: placement.h */
    line[used++] = "none";
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
      line[used++] = "-x"; /* exports the variable to other hosts */
      line[used++] = (char *)(uintptr_t)passed[i];
    }
  }
  line[used++] = "-n";
  line[used++] = number;
  return used;
}

/* Appends the command's own arguments to line[used], and returns the new number of words. The ranks ignore -n
 * (tri_launch_is_rank). */
static int add_arguments(char **arguments, char **line, int used) {
  static char colon[] = TRI_PARENT_COLON;
  for (int i = 0; arguments[i] != NULL; i++) line[used++] = strcmp(arguments[i], ":") == 0 ? colon : arguments[i];
  return used;
}

bool tri_launch_is_rank(void) { return getenv(TRI_LAUNCHED) != NULL; }

/* Refuses to start a job from a rank of a job, because each rank would start one. */
static tri_status check_alone(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK"};
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (getenv(marks[i]) == NULL) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "-n starts a job, and this process is a rank of one already (%s is set): leave -n out", marks[i]);
  }
  return TRI_OK;
}

/* Returns whether a failed job is restarted. A lost rank is worth a restart if the run had begun; a wrong key or a full
 * disk is not. A job that had begun once and could not begin again has lost more than a rank; an elastic job then
 * restarts with one rank less. */
static bool may_restart(const tri_launch_options *options, const tri_ending *ending, tri_status status,
                        int64_t restarts) {
  if (status != TRI_COMM || tri_ending_was_asked(ending) || restarts == options->max_restarts) return false;
  return ending->steps >= 0 || (options->elastic && restarts > 0 && ending->num_ranks > 1);
}

/* Sets the job's name and the number of the start in the environment, so that the ranks of a later start inherit the
 * locks of an earlier one (files/folder_lock.h). The name identifies this process by its host, its process id and
 * the time. */
static void name_start(int64_t restarts) {
  char host[64] = "", text[128];
  const char *now = getenv(TRI_JOB_VARIABLE);
  if (restarts == 0) {
    (void)gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "%s.%ld.%.6f 0", host, (long)getpid(), tri_clock_s());
  } else {
    snprintf(text, sizeof text, "%.*s %lld", now == NULL ? 0 : (int)strcspn(now, " "), now, (long long)restarts);
  }
  (void)setenv(TRI_JOB_VARIABLE, text, 1);
}

static tri_status not_started(int64_t restarts) {
  return tri_fail(
      TRI_INTERRUPTED,
      restarts == 0
          ? "interrupted before the first step; nothing is lost"
          : "interrupted before the job was started again; the same command resumes from the newest checkpoint");
}

static bool has_collided(const tri_ending *ending) {
  for (int64_t r = 0; r < ending->num_ranks; r++) {
    if (ending->ranks[r].pid > 0) return false;
  }
  return ending->launcher_result != 0 && tri_launcher_lost_session_folder(ending->noise.text);
}

/* Supervises one start. Repeats the start if the launcher collided with the launcher of another job before any rank was
 * started (tri_launcher_lost_session_folder). */
static tri_status attend_start(const tri_start *start, int64_t restarts, tri_rank_news *news, tri_ending *ending) {
  for (int collisions = 0;; collisions++) {
    memset(news, 0, (size_t)start->num_ranks * sizeof *news);
    memset(ending, 0, sizeof *ending);
    ending->num_ranks = start->num_ranks;
    ending->ranks = news;
    ending->resumes = start->resumes;
    ending->steps = ending->texts = -1;
    if (tri_supervisor_asked() > 0) return not_started(restarts);
    TRI_TRY(tri_supervise(start, news, ending));
    if (collisions == MAX_COLLISIONS || tri_ending_was_asked(ending) || !has_collided(ending)) return TRI_OK;
  }
}

/* Starts the job, and restarts it as long as may_restart allows that. Returns the status of the last start. Every
 * restart resumes the newest checkpoint, whatever the first start began with. */
static tri_status run_again_and_again(const tri_launch_options *options, char number[NUMBER_BYTES], char **line,
                                      int used, tri_rank_news *news, tri_ending *ending) {
  static const char *const resume[] = {"--resume", "auto"};
  tri_status status;
  int64_t ranks = options->ranks;
  for (int64_t restarts = 0;; restarts++) {
    name_start(restarts);
    tri_start start = {line, ranks, options->hang_timeout_s, options->output, options->resumes, options->gives_streams};
    snprintf(number, NUMBER_BYTES, "%lld", (long long)ranks);
    status = attend_start(&start, restarts, news, ending);
    if (ending->launcher_result != 0) tri_stale_shm_remove();
    if (status == TRI_OK) status = tri_cause_report(ending);
    if (!may_restart(options, ending, status, restarts)) return status;
    ranks = ending->steps < 0 ? ranks - 1 : options->ranks; /* lost nodes may be available again */
    tri_log_failure(status, tri_status_message());
    tri_log("restart %lld of %lld (max_restarts) with %lld ranks, from the newest checkpoint or snapshot",
            (long long)restarts + 1, (long long)options->max_restarts, (long long)ranks);
    for (int i = 0; i < 2; i++) line[used + i] = (char *)(uintptr_t)resume[i];
  }
}

static tri_status run_job(const tri_launch_options *options, char number[NUMBER_BYTES], char **line, int used) {
  tri_rank_news *news = NULL;
  tri_ending *ending = NULL;
  tri_status status = tri_alloc("state of the ranks", (size_t)options->ranks, sizeof *news, &news);
  if (status == TRI_OK) status = tri_alloc("the end of a job", 1, sizeof *ending, &ending);
  if (status == TRI_OK) status = run_again_and_again(options, number, line, used, news, ending);
  tri_free(ending);
  tri_free(news);
  return status;
}

tri_status tri_launch(const tri_launch_options *options, char **arguments) {
  tri_launcher launcher;
  char number[NUMBER_BYTES], program[TRI_PATH_BYTES];
  char **line = NULL;
  const char *search = getenv("PATH");
  int count = 0;
  tri_supervisor_prepare();
  TRI_TRY(check_alone());
  tri_stale_shm_remove();
  TRI_TRY(tri_launcher_find(search == NULL ? "/usr/bin" : search, tri_comm_library(), &launcher));
  if (!tri_launcher_speaks(&launcher, tri_comm_library())) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "this program is built with %s, and the only launcher in the PATH, %s, is %s %s: its ranks would not "
        "find one another. Put the other one's mpiexec into the PATH, or build with this MPI (cmake "
        "-DTRIREME_MPI=openmpi or mpich)",
        tri_comm_library(), launcher.path, launcher.implementation, launcher.version);
  }
  TRI_TRY(tri_system_own_path(program, sizeof program));
  while (arguments[count] != NULL) count++;
  TRI_TRY(tri_alloc("a command line", (size_t)count + 32, sizeof *line, &line));
  int used = add_launcher(&launcher, number, line);
  line[used++] = program;
  used = add_arguments(arguments, line, used);
  tri_status status = run_job(options, number, line, used);
  tri_free(line);
  return status;
}
