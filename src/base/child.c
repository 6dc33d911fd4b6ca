#include "base/child.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/process_identity.h"
#include "base/system.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define CHILD_MARK "TRIREME_CHILD="

enum {
  FEW_LOOKS = 10,
  LOOKS = 250
}; /* LOOKS: maximum number of pauses of a wait, 5 s in all; FEW_LOOKS: number of the first pauses of `clear`, which
      take only 0.1 * PAUSE_S, as all pauses of tri_child_kill do */
static const double PAUSE_S = 0.02;

/* The result of a child that another part of the process has waited for: exit status 127, as a shell reports a command
 * that it cannot run. */
enum { UNKNOWN_RESULT = 127 << 8 };

/* ---- the environment --------------------------------------------------------------------------------------------- */

/* Beginnings of the names of variables that a child does not get: those of MPI and its launchers, and of this
 * program's own launcher. For Slurm and Flux, the list has only the variables of the step and the task: a child
 * keeps the variables of the job. */
static const char *const launcher_names[] = {
    "OMPI_",
    "OPAL_",
    "ORTE_",
    "PRTE_",
    "PMIX_",
    "PMI_",
    "PMI2_",
    "MPICH_",
    "MPIR_",
    "MPIEXEC_",
    "MPI_LOCAL",
    "HYDRA_",
    "HYDI_",
    "I_MPI_",
    "MV2_",
    "MVP_",
    "PALS_",
    "ALPS_",
    "JSM_",
    "FLUX_TASK_",
    "SLURM_PROCID",
    "SLURM_STEP",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK_",
    "SLURM_GTIDS",
    "SLURM_SRUN_",
    "SLURM_PMI",
    "SLURM_LAUNCH_",
    "SLURM_MPI_",
    "SLURM_CPU_BIND",
    "TRIREME_PARENT",
    "TRIREME_LAUNCHED",
    "TRIREME_STREAMS",
};
enum { NUM_LAUNCHER_NAMES = sizeof launcher_names / sizeof launcher_names[0] };

static bool is_of_launcher(const char *variable) {
  for (int i = 0; i < NUM_LAUNCHER_NAMES; i++) {
    if (tri_begins_with(variable, launcher_names[i])) return true;
  }
  return false;
}

tri_status tri_child_environment(const char *more, char ***out) {
  size_t count = 0, bytes = strlen(more) + 1, kept = 0;
  const size_t name = strcspn(more, "=") + 1;
  bool given = false;
  char **list = NULL;
  for (; environ != NULL && environ[count] != NULL; count++) bytes += strlen(environ[count]) + 1;
  TRI_TRY(tri_alloc("an environment", (count + 2) * sizeof *list + bytes, 1, &list));
  char *text = (char *)(list + count + 2);
  for (size_t i = 0; i < count; i++) {
    if (is_of_launcher(environ[i])) continue;
    const size_t length = strlen(environ[i]) + 1;
    list[kept++] = memcpy(text, environ[i], length);
    text += length;
    given = given || strncmp(environ[i], more, name) == 0;
  }
  if (!given) list[kept++] = strcpy(text, more);
  list[kept] = NULL;
  *out = list;
  return TRI_OK;
}

/* Makes the environment of a child: `list` with `mark` in place of the mark that it may have. */
static tri_status add_mark(char *const *list, char *mark, char ***out) {
  size_t count = 0, kept = 0;
  char **marked = NULL;
  while (list[count] != NULL) count++;
  TRI_TRY(tri_alloc("an environment", count + 2, sizeof *marked, &marked));
  for (size_t i = 0; i < count; i++) {
    if (!tri_begins_with(list[i], CHILD_MARK)) marked[kept++] = list[i];
  }
  marked[kept] = mark;
  *out = marked;
  return TRI_OK;
}

/* ---- starting ---------------------------------------------------------------------------------------------------- */

typedef struct plan {
  const tri_child_options *options;
  char *const *environment;
  int in, out, log; /* descriptors of the child's streams; in, out: -1 without pipes */
  pid_t parent;
} plan;

/* Gives signals their default effect, and unblocks all of them. A handler of this process must not run in the child,
 * which shares its memory until exec. Signals that are ignored stay ignored, as nohup expects, except SIGPIPE and
 * SIGCHLD, because programs rely on their default effect. */
static void reset_signals(void) {
  const struct sigaction plain = {.sa_handler = SIG_DFL};
  struct sigaction now;
  sigset_t none;
  for (int number = 1; number < NSIG; number++) {
    const bool ignored = sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored || number == SIGPIPE || number == SIGCHLD) sigaction(number, &plain, NULL);
  }
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

static void close_others(void) {
  if (syscall(SYS_close_range, 3, ~0U, 0) == 0) return;
  const long files = sysconf(_SC_OPEN_MAX); /* kernels before 5.9 have no close_range */
  for (int file = 3; file < (files > 0 && files < 65536 ? (int)files : 65536); file++) close(file);
}

static void become(const plan *p) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != p->parent) _exit(127); /* the parent has just ended */
  reset_signals();
  if (p->options->prepare != NULL) p->options->prepare(p->options->context);
  if (p->in >= 0) dup2(p->in, STDIN_FILENO);
  dup2(p->out >= 0 ? p->out : p->log, STDOUT_FILENO);
  dup2(p->log, STDERR_FILENO);
  if (p->options->pipes) close_others();
  execve(p->options->line[0], p->options->line, p->environment);
  _exit(127);
}

/* Starts the child; returns its process id, or -1 with the reason in errno. vfork, unlike fork, does not copy the
 * tables of a rank's many pages, and does not move pages that a network card writes to. MPI libraries warn of a fork
 * in a rank. */
static pid_t divide(const plan *p) {
  const pid_t child = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
  if (child == 0) become(p);   /* NOLINT(clang-analyzer-unix.Vfork): system calls only */
  return child;
}

/* Returns a descriptor of `file` that is above those of the standard streams, because a child's streams replace
 * these: `file` itself, or a copy, after which `file` is closed. Returns -1 for a failure, or if `file` is -1. */
static int above_streams(int file) {
  if (file < 0 || file > STDERR_FILENO) return file;
  const int above = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(file);
  errno = error;
  return above;
}

static void close_file(int *file) {
  if (*file >= 0) close(*file);
  *file = -1;
}

static tri_status open_pipe(int ends[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) return tri_fail(TRI_IO_FAILED, "cannot make a pipe: %s", strerror(errno));
  for (int i = 0; i < 2; i++) ends[i] = above_streams(ends[i]);
  if (ends[0] >= 0 && ends[1] >= 0) return TRI_OK;
  close_file(&ends[0]);
  close_file(&ends[1]);
  return tri_fail(TRI_IO_FAILED, "cannot make a pipe: %s", strerror(errno));
}

/* Opens the file of the child's standard error. Returns -1 for a failure. If o->log is NULL, copies the descriptor
 * of this process's standard error, because a socket cannot be opened by a name, and a file that is opened again has
 * a position of its own. */
static int open_log(const tri_child_options *o) {
  if (o->log == NULL) return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return above_streams(open(o->log, O_WRONLY | O_CREAT | O_CLOEXEC | (o->pipes ? O_APPEND : O_TRUNC), 0666));
}

static tri_status open_streams(const tri_child_options *o, int in[2], int out[2], int *log) {
  *log = open_log(o);
  if (*log < 0)
    return tri_fail(TRI_IO_FAILED, "cannot open %s: %s", o->log == NULL ? "standard error" : o->log, strerror(errno));
  if (!o->pipes) return TRI_OK;
  TRI_TRY(open_pipe(in));
  TRI_TRY(open_pipe(out));
  if (fcntl(in[1], F_SETFL, O_NONBLOCK) != 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) != 0)
    return tri_fail(TRI_IO_FAILED, "cannot make a pipe non-blocking: %s", strerror(errno));
  return TRI_OK;
}

/* Starts the process with the streams in, out and log, and with `mark` in its environment unless `mark` is "". All
 * signals are blocked meanwhile, so that no handler runs in the child. */
static tri_status start_with(const tri_child_options *o, const char *mark, int in, int out, int log, pid_t *child) {
  char **marked = NULL, own[TRI_CHILD_MARK_BYTES];
  char *const *list = o->environment != NULL ? o->environment : environ;
  sigset_t all, before;
  memcpy(own, mark, sizeof own);
  if (mark[0] != '\0') TRI_TRY(add_mark(list, own, &marked));
  /* Orphaned processes of the child become children of this process, which can then wait for them. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const plan p = {.options = o,
                  .environment = marked != NULL ? marked : list,
                  .in = in,
                  .out = out,
                  .log = log,
                  .parent = getpid()};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  *child = divide(&p);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  tri_free(marked);
  if (*child < 0) return tri_fail(TRI_IO_FAILED, "cannot start %s: %s", o->line[0], strerror(error));
  return TRI_OK;
}

static tri_status make_mark(char out[TRI_CHILD_MARK_BYTES]) {
  char unique[TRI_UNIQUE_BYTES];
  TRI_TRY(tri_system_unique(unique));
  snprintf(out, TRI_CHILD_MARK_BYTES, CHILD_MARK "%s", unique);
  return TRI_OK;
}

tri_status tri_child_start(const tri_child_options *o, tri_child *out) {
  int to[2] = {-1, -1}, from[2] = {-1, -1}, log = -1;
  tri_child child = {.to = -1, .from = -1};
  tri_status status = o->pipes ? make_mark(child.mark) : TRI_OK;
  if (status == TRI_OK) status = open_streams(o, to, from, &log);
  if (status == TRI_OK) status = start_with(o, child.mark, to[0], from[1], log, &child.id);
  close_file(&log);
  close_file(&to[0]);
  close_file(&from[1]);
  child.to = to[1];
  child.from = from[0];
  if (status == TRI_OK) *out = child;
  if (status != TRI_OK) tri_child_close(&child);
  return status;
}

/* ---- ending ------------------------------------------------------------------------------------------------------ */

typedef struct process {
  pid_t id, parent, session;
} process;

/* Reads /proc/N/stat; returns false if there is no such process. The command's name may contain any character, so
 * parsing starts after the last bracket. */
static bool read_process(const char *number, process *out) {
  char path[300], text[1024] = "", state = '?';
  int parent = 0, group = 0, session = 0;
  snprintf(path, sizeof path, "/proc/%s/stat", number);
  FILE *from = fopen(path, "re");
  if (from == NULL) return false;
  size_t length = fread(text, 1, sizeof text - 1, from);
  fclose(from);
  text[length] = '\0';
  const char *rest = strrchr(text, ')');
  if (rest == NULL || sscanf(rest + 1, " %c %d %d %d", &state, &parent, &group, &session) != 4) return false;
  *out = (process){.id = (pid_t)strtol(number, NULL, 10), .parent = parent, .session = session};
  return true;
}

/* Lists all processes of the machine, as many as there is memory for, and returns their number. Release *list with
 * tri_free. */
static int64_t list_processes(process **list) {
  int64_t count = 0, room = 0;
  DIR *all = opendir("/proc");
  if (all == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    if (tri_grow("a list of processes", sizeof **list, count, &room, list) != TRI_OK) break;
    if (read_process(entry->d_name, &(*list)[count])) count++;
  }
  closedir(all);
  return count;
}

static void swap(process *a, process *b) {
  const process kept = *a;
  *a = *b;
  *b = kept;
}

/* Returns whether a process belongs to the child: by its session, by its environment, or because its parent is the
 * child or one of the `found` processes at the beginning of the list. */
static bool is_of_child(const tri_child *c, const process *p, const process *list, int64_t found) {
  if (p->session == c->id || p->parent == c->id) return true;
  for (int64_t i = 0; i < found; i++) {
    if (list[i].id == p->parent) return true;
  }
  return c->mark[0] != '\0' && tri_process_environment_has(p->id, c->mark);
}

/* Moves the child's processes to the beginning of the list, without the child and this process, and returns their
 * number.
 */
static int64_t find_processes(const tri_child *c, process *list, int64_t count) {
  const pid_t self = getpid();
  int64_t found = 0;
  for (int64_t before = -1; before < found;) {
    before = found;
    for (int64_t i = found; i < count; i++) {
      if (list[i].id == c->id || list[i].id == self || !is_of_child(c, &list[i], list, found)) continue;
      swap(&list[i], &list[found++]);
    }
  }
  return found;
}

/* A set of processes that have been killed, and may not have ended. */
typedef struct killed {
  pid_t *ids;
  int64_t count, room;
} killed;

static void kill_one(killed *all, pid_t id) {
  kill(id, SIGKILL);
  for (int64_t i = 0; i < all->count; i++) {
    if (all->ids[i] == id) return;
  }
  if (tri_grow("a list of processes", sizeof *all->ids, all->count, &all->room, &all->ids) == TRI_OK)
    all->ids[all->count++] = id;
}

/* Kills all processes of the child except the child itself, and adds them to `all`. */
static void sweep(const tri_child *c, killed *all) {
  process *list = NULL;
  const int64_t count = list_processes(&list), found = find_processes(c, list, count);
  for (int64_t i = 0; i < found && list != NULL; i++) kill_one(all, list[i].id);
  tri_free(list);
}

/* Reads the exit status of killed processes that have become children of this process, without waiting, so that they do
 * not stay zombies. Removes the processes that have ended from the set. */
static void reap(killed *all) {
  int64_t left = 0;
  for (int64_t i = 0; i < all->count; i++) {
    waitpid(all->ids[i], NULL, WNOHANG);
    if (kill(all->ids[i], 0) == 0) all->ids[left++] = all->ids[i];
  }
  all->count = left;
}

/* Kills the processes of a child that has ended, and waits at most 5 s until they have ended, too. */
static void clear(const tri_child *c) {
  killed all = {0};
  for (int i = 0; i < LOOKS; i++) {
    sweep(c, &all);
    reap(&all);
    if (all.count == 0) break;
    tri_pause_s(i < FEW_LOOKS ? 0.1 * PAUSE_S : PAUSE_S);
  }
  tri_free(all.ids);
}

bool tri_child_ended(tri_child *c) {
  pid_t got = waitpid(c->id, &c->result, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  if (got < 0) c->result = UNKNOWN_RESULT;
  clear(c);
  return true;
}

/* The child is stopped first, so that it starts no more processes, and stays the parent of those that it has. */
void tri_child_kill(tri_child *c) {
  killed all = {0};
  kill(c->id, SIGSTOP);
  sweep(c, &all);
  kill(c->id, SIGKILL);
  while (waitpid(c->id, &c->result, 0) < 0 && errno == EINTR) {
  }
  for (int i = 0; i < LOOKS && all.count > 0; i++) {
    reap(&all);
    if (all.count > 0) tri_pause_s(0.1 * PAUSE_S);
  }
  tri_free(all.ids);
  clear(c);
}

void tri_child_ask(const tri_child *c) {
  kill(c->id, SIGTERM);
  kill(c->id, SIGCONT); /* the child may be stopped by SIGSTOP */
}

void tri_child_stop(tri_child *c) {
  tri_child_ask(c);
  for (int i = 0; i < LOOKS; i++) {
    if (tri_child_ended(c)) return;
    tri_pause_s(PAUSE_S);
  }
  tri_child_kill(c);
}

/* ---- pipes ------------------------------------------------------------------------------------------------------- */

static bool is_not_now(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

/* A write to a pipe without a reader sends SIGPIPE to the thread. This function blocks the signal during the write, and
 * then removes it, unless it was pending before. */
ssize_t tri_child_write(const tri_child *c, const void *data, size_t bytes) {
  const struct timespec now = {0};
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  sigpending(&pending);
  const ssize_t wrote = write(c->to, data, bytes);
  const int error = errno;
  if (wrote < 0 && error == EPIPE && sigismember(&pending, SIGPIPE) == 0) sigtimedwait(&pipe_signal, NULL, &now);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (wrote < 0) return is_not_now(error) ? 0 : -1;
  return wrote;
}

ssize_t tri_child_read(const tri_child *c, void *data, size_t bytes) {
  const ssize_t got = read(c->from, data, bytes);
  if (got < 0) return is_not_now(errno) ? 0 : -1;
  return got == 0 ? -1 : got;
}

void tri_child_close_input(tri_child *c) { close_file(&c->to); }

void tri_child_close(tri_child *c) {
  close_file(&c->to);
  close_file(&c->from);
}
