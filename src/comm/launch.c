/* The parent of a job: it starts the machine's launcher, which starts the ranks, and stands between them and the user.
 *
 * A launcher mixes its own banners into what the ranks write. So the ranks mark their lines (base/log.h), and this
 * process shows marked lines, the marks taken off, and keeps the rest to itself unless a rank died without a word.
 *
 * The launcher gets a process group of its own, out of the terminal's reach, since it would kill the ranks on Ctrl-C
 * rather than let them save. It does pass SIGUSR1 on, Open MPI's and MPICH's alike; to a rank that means to stop after
 * the step at hand. If this process dies the launcher is told to end, and takes the ranks with it. */
#include "base/log.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "comm/launcher.h"
#include "comm/obituary.h"
#include "comm/placement.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 8192, NOISE_BYTES = 8192, PLACE_BYTES = 96, NUMBER_BYTES = 32 };

/* What a rank has said of itself. */
typedef struct rank_news {
  long pid;
  char place[PLACE_BYTES]; /* in the mesh */
} rank_news;

typedef struct job {
  pid_t launcher;
  int64_t num_ranks;
  rank_news *ranks;        /* [num_ranks] */
  int64_t steps;           /* that the run has made, or -1 before it began */
  char noise[NOISE_BYTES]; /* what came unmarked */
  size_t noise_length;
  char failure[LINE_BYTES]; /* the first that a rank has told */
} job;

/* ---- the command line ---------------------------------------------------------------------------------------------
 */

/* -n 8, -n8, --ranks 8 or --ranks=8: how many arguments it takes, or 0. */
static int is_ranks_option(const char *argument) {
  if (strcmp(argument, "-n") == 0 || strcmp(argument, "--ranks") == 0) return 2;
  return strncmp(argument, "-n", 2) == 0 || strncmp(argument, "--ranks=", 8) == 0 ? 1 : 0;
}

static int add_launcher(const tri_launcher *launcher, char *number, char **line) {
  int used = 0;
  line[used++] = (char *)(uintptr_t)launcher->path;
  if (strcmp(launcher->implementation, "Open MPI") == 0) {
    if (geteuid() == 0) line[used++] = "--allow-run-as-root";
    line[used++] = "--oversubscribe";
    line[used++] = "--bind-to"; /* the ranks bind themselves: placement.h */
    line[used++] = "none";
  }
  line[used++] = "-n";
  line[used++] = number;
  return used;
}

static int add_arguments(char **arguments, char **line, int used) {
  for (int i = 0; arguments[i] != NULL; i++) {
    int skip = is_ranks_option(arguments[i]);
    if (skip == 0) {
      line[used++] = arguments[i];
    } else if (skip == 2 && arguments[i + 1] != NULL) {
      i++;
    }
  }
  return used;
}

/* ---- what comes from below ----------------------------------------------------------------------------------------
 */

static void take_news(job *j, const char *line) {
  long long rank = -1, step;
  long pid;
  int place = 0;
  if (sscanf(line, "rank %lld %ld %n", &rank, &pid, &place) == 2 && rank >= 0 && rank < j->num_ranks) {
    j->ranks[rank].pid = pid;
    snprintf(j->ranks[rank].place, PLACE_BYTES, "%s", line + place);
  } else if (sscanf(line, "step %lld", &step) == 1) {
    j->steps = step;
  }
}

/* A failure is held back: the death of a rank explains what others failed with. */
static void take_line(job *j, const char *line) {
  static const char failure[] = "trireme: ";
  if (line[0] == TRI_LOG_PARENT_MARK) {
    take_news(j, line + 1);
  } else if (line[0] == TRI_LOG_MARK && strncmp(line + 1, failure, sizeof failure - 1) == 0) {
    if (j->failure[0] != '\0') return;
    snprintf(j->failure, sizeof j->failure, "%s", line + sizeof failure);
    for (char *at = j->failure; (at = strchr(at, TRI_LOG_NEW_LINE)) != NULL;) *at = '\n';
  } else if (line[0] == TRI_LOG_MARK) {
    tri_log("%s", line + 1);
  } else if (line[0] == TRI_LOG_PROGRESS_MARK) {
    tri_log_progress("%s", line + 1);
  } else {
    int room = (int)(NOISE_BYTES - j->noise_length);
    int length = snprintf(j->noise + j->noise_length, (size_t)room, "%s\n", line);
    j->noise_length += length < room ? (size_t)length : 0;
  }
}

static void read_lines(job *j, int from) {
  char line[LINE_BYTES];
  size_t held = 0;
  for (;;) {
    ssize_t got = read(from, line + held, sizeof line - 1 - held);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    held += (size_t)got;
    line[held] = '\0';
    char *begin = line;
    for (char *end; (end = memchr(begin, '\n', held - (size_t)(begin - line))) != NULL; begin = end + 1) {
      *end = '\0';
      take_line(j, begin);
    }
    held -= (size_t)(begin - line);
    memmove(line, begin, held);
    if (held == sizeof line - 1) held = 0; /* no line of ours is so long */
  }
  tri_log_progress_end();
}

/* ---- signals -------------------------------------------------------------------------------------------------------
 */

static volatile pid_t to_tell; /* a signal's handler can reach only what is global */
static volatile sig_atomic_t asked;

static void pass_on(int number) {
  (void)number;
  asked = 1;
  if (to_tell > 0) kill(to_tell, SIGUSR1);
}

static void listen_for_signals(pid_t launcher) {
  struct sigaction action = {.sa_handler = pass_on, .sa_flags = SA_RESTART};
  to_tell = launcher;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
}

/* ---- the job -------------------------------------------------------------------------------------------------------
 */

static void become_launcher(char **line, int output, bool terminal) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  dup2(output, STDERR_FILENO);
  dup2(output, STDOUT_FILENO); /* where MPICH's launcher writes its banner; a run has nothing to say there */
  close(output);
  setenv(TRI_LAUNCHED, terminal ? "terminal" : "1", 1);
  execv(line[0], line);
  _exit(127);
}

static tri_status start(job *j, char **line, int *output) {
  int pipe_ends[2];
  bool terminal = isatty(STDERR_FILENO) == 1;
  if (pipe(pipe_ends) != 0) return tri_fail(TRI_IO_FAILED, "cannot make a pipe: %s", strerror(errno));
  fflush(NULL);
  j->launcher = fork();
  if (j->launcher < 0) {
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    return tri_fail(TRI_IO_FAILED, "cannot start %s: %s", line[0], strerror(errno));
  }
  if (j->launcher == 0) {
    close(pipe_ends[0]);
    become_launcher(line, pipe_ends[1], terminal);
  }
  close(pipe_ends[1]);
  *output = pipe_ends[0];
  return TRI_OK;
}

/* The status whose exit status a rank ended with. */
static tri_status status_of(int exit_status) {
  for (int s = TRI_OK; s <= TRI_INTERNAL; s++) {
    if (tri_status_exit((tri_status)s) == exit_status) return (tri_status)s;
  }
  return TRI_COMM;
}

/* Which rank an obituary is of. */
static int64_t rank_of(const job *j, const tri_obituary *obituary) {
  if (obituary->rank >= 0 && obituary->rank < j->num_ranks) return obituary->rank;
  for (int64_t r = 0; r < j->num_ranks; r++) {
    if (obituary->pid > 0 && j->ranks[r].pid == obituary->pid) return r;
  }
  return -1;
}

static tri_status tell_death(const job *j, const tri_obituary *obituary) {
  int64_t rank = rank_of(j, obituary);
  char who[PLACE_BYTES + 64] = "a rank", when[64] = "before its first step", hint[128] = "";
  if (rank >= 0) {
    const char *place = j->ranks[rank].place;
    snprintf(who, sizeof who, "rank %lld%s%s%s", (long long)rank, place[0] == '\0' ? "" : " (", place,
             place[0] == '\0' ? "" : ")");
  }
  if (j->steps >= 0) snprintf(when, sizeof when, "at step %lld", (long long)j->steps + 1);
  if (obituary->signal == SIGKILL) {
    snprintf(hint, sizeof hint, " (if nobody did, the system has, for want of memory: see dmesg there)");
  }
  return tri_fail(TRI_COMM,
                  "%s on %s was killed by signal %d (%s)%s, %s; the job of %lld ranks is ended, and the same command "
                  "goes on from the newest checkpoint",
                  who, obituary->node, obituary->signal, strsignal(obituary->signal), hint, when,
                  (long long)j->num_ranks);
}

/* Waits for the launcher's end, and says why the job ended. */
static tri_status finish(const job *j) {
  int result = 0;
  tri_obituary obituary;
  while (waitpid(j->launcher, &result, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(result) && WEXITSTATUS(result) == 0) return TRI_OK;
  tri_status status = WIFEXITED(result) ? status_of(WEXITSTATUS(result)) : TRI_COMM;
  bool killed = tri_obituary_find(j->noise, &obituary) && obituary.signal > 0;
  if (j->failure[0] != '\0' && !(killed && status == TRI_COMM)) return tri_fail(status, "%s", j->failure);
  if (killed) return tell_death(j, &obituary);
  if (status == TRI_INTERRUPTED) return tri_fail(status, "interrupted");
  int code = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  return tri_fail(TRI_COMM,
                  "the job of %lld ranks ended with status %d, and no rank has said why; started again, the same "
                  "command goes on from the newest checkpoint. The launcher says:\n%s",
                  (long long)j->num_ranks, code, j->noise);
}

/* A job within a job would start ranks for every rank. */
static tri_status check_alone(void) {
  static const char *const marks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "FLUX_TASK_RANK"};
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
    if (getenv(marks[i]) == NULL) continue;
    return tri_fail(TRI_BAD_USAGE,
                    "-n starts a job, and this process is a rank of one already (%s is set): leave -n out", marks[i]);
  }
  return TRI_OK;
}

static tri_status run_once(job *j, char **line) {
  int output = -1;
  TRI_TRY(start(j, line, &output));
  listen_for_signals(j->launcher);
  read_lines(j, output);
  close(output);
  return finish(j);
}

/* A lost rank is worth another start if the run had begun; a wrong key or a full disk is not. A job that began once and
 * then could not begin again has lost more than a rank: an elastic one tries with fewer. */
static bool may_restart(const tri_launch_options *options, const job *j, tri_status status, int64_t restarts) {
  if (status != TRI_COMM || asked || restarts == options->max_restarts) return false;
  return j->steps >= 0 || (options->elastic && restarts > 0 && j->num_ranks > 1);
}

/* Every start but the first goes on from what is newest, whatever the first began from. */
static tri_status run_again_and_again(const tri_launch_options *options, char number[NUMBER_BYTES], char **line,
                                      int used) {
  static const char *const resume[] = {"--resume", "auto"};
  rank_news *news = NULL;
  tri_status status;
  int64_t ranks = options->ranks;
  TRI_TRY(tri_alloc("what is known of the ranks", (size_t)ranks, sizeof *news, &news));
  for (int64_t restarts = 0;; restarts++) {
    job j = {.num_ranks = ranks, .ranks = news, .steps = -1};
    memset(news, 0, (size_t)ranks * sizeof *news);
    snprintf(number, NUMBER_BYTES, "%lld", (long long)ranks);
    status = run_once(&j, line);
    if (!may_restart(options, &j, status, restarts)) break;
    ranks = j.steps < 0 ? ranks - 1 : options->ranks; /* what was lost may be back */
    tri_log_failure(tri_status_message());
    tri_log("restart %lld of %lld (max_restarts) with %lld ranks, from the newest checkpoint or snapshot",
            (long long)restarts + 1, (long long)options->max_restarts, (long long)ranks);
    for (int i = 0; i < 2; i++) line[used + i] = (char *)(uintptr_t)resume[i];
  }
  tri_free(news);
  return status;
}

tri_status tri_launch(const tri_launch_options *options, char **arguments) {
  tri_launcher launcher;
  char number[NUMBER_BYTES], program[TRI_PATH_BYTES];
  char **line = NULL;
  const char *search = getenv("PATH");
  int count = 0;
  TRI_TRY(check_alone());
  TRI_TRY(tri_launcher_find(search == NULL ? "/usr/bin" : search, tri_comm_library(), &launcher));
  if (!tri_launcher_speaks(&launcher, tri_comm_library())) {
    return tri_fail(
        TRI_UNSUPPORTED,
        "this program is built with %s, and the only launcher in the PATH, %s, is %s %s: its ranks would not "
        "find one another. Put the other one's mpiexec into the PATH, or build with this MPI (cmake "
        "-DTRIREME_MPI=openmpi or mpich)",
        tri_comm_library(), launcher.path, launcher.implementation, launcher.version);
  }
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return tri_fail(TRI_INTERNAL, "cannot find out this program's own path: %s", strerror(errno));
  program[length] = '\0';
  while (arguments[count] != NULL) count++;
  TRI_TRY(tri_alloc("a command line", (size_t)count + 16, sizeof *line, &line));
  int used = add_launcher(&launcher, number, line);
  line[used++] = program;
  used = add_arguments(arguments, line, used);
  tri_status status = run_again_and_again(options, number, line, used);
  tri_free(line);
  return status;
}
