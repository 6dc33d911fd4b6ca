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
#include "comm/launcher.h"
#include "comm/placement.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE_BYTES = 8192, NOISE_BYTES = 4096 };

typedef struct job {
  pid_t launcher;
  char noise[NOISE_BYTES]; /* what came unmarked */
  size_t noise_length;
  bool told; /* a rank has said why the job ends */
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

static void add_arguments(char **arguments, char **line, int used) {
  for (int i = 0; arguments[i] != NULL; i++) {
    int skip = is_ranks_option(arguments[i]);
    if (skip == 0) {
      line[used++] = arguments[i];
    } else if (skip == 2 && arguments[i + 1] != NULL) {
      i++;
    }
  }
}

/* ---- what comes from below ----------------------------------------------------------------------------------------
 */

static void take_line(job *j, const char *line) {
  if (line[0] == TRI_LOG_MARK) {
    j->told = j->told || strncmp(line + 1, "trireme: ", 9) == 0;
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

static void pass_on(int number) {
  (void)number;
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

static tri_status finish(const job *j, int64_t ranks) {
  int result = 0;
  while (waitpid(j->launcher, &result, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(result) && WEXITSTATUS(result) == 0) return TRI_OK;
  tri_status status = WIFEXITED(result) ? status_of(WEXITSTATUS(result)) : TRI_COMM;
  if (j->told) return tri_fail(status, "%s", "");
  int code = WIFEXITED(result) ? WEXITSTATUS(result) : 128 + WTERMSIG(result);
  return tri_fail(status == TRI_INTERRUPTED ? TRI_INTERRUPTED : TRI_COMM,
                  "the job of %lld ranks ended with status %d%s, and no rank has said why; started again, the same "
                  "command goes on from the newest checkpoint. The launcher says:\n%s",
                  (long long)ranks, code, code > 128 ? " (a rank was killed by a signal)" : "", j->noise);
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

tri_status tri_launch(int64_t ranks, char **arguments) {
  tri_launcher launcher;
  char number[32], program[TRI_PATH_BYTES];
  char **line = NULL;
  const char *search = getenv("PATH");
  int count = 0, output = -1;
  job j = {0};
  TRI_TRY(check_alone());
  TRI_TRY(tri_launcher_find(search == NULL ? "/usr/bin" : search, &launcher));
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return tri_fail(TRI_INTERNAL, "cannot find out this program's own path: %s", strerror(errno));
  program[length] = '\0';
  snprintf(number, sizeof number, "%lld", (long long)ranks);
  while (arguments[count] != NULL) count++;
  TRI_TRY(tri_alloc("a command line", (size_t)count + 16, sizeof *line, &line));
  int used = add_launcher(&launcher, number, line);
  line[used++] = program;
  add_arguments(arguments, line, used);
  tri_status status = start(&j, line, &output);
  if (status == TRI_OK) {
    listen_for_signals(j.launcher);
    read_lines(&j, output);
    close(output);
    status = finish(&j, ranks);
  }
  tri_free(line);
  return status;
}
