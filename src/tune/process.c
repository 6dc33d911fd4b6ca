#include "tune/process.h"

#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOKS = 250 }; /* pauses before giving up, five seconds in all */
static const double PAUSE_S = 0.02;

/* Binds this process to part `part` of `parts` equal parts of its cores, so that parallel trials share no core. */
static void bind_cores(int part, int parts) {
  cpu_set_t all, own;
  int seen = 0;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  int cores = CPU_COUNT(&all);
  if (cores < parts) return;
  CPU_ZERO(&own);
  for (int c = 0; c < CPU_SETSIZE; c++) {
    if (!CPU_ISSET(c, &all)) continue;
    if ((long)seen * parts / cores == part) CPU_SET(c, &own);
    seen++;
  }
  sched_setaffinity(0, sizeof own, &own);
}

static void become(char *const *line, const char *log, const tri_process_limits *limits, pid_t parent) {
  sigset_t none;
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (limits->memory_bytes > 0) {
    setrlimit(RLIMIT_DATA, &(struct rlimit){limits->memory_bytes, limits->memory_bytes});
  }
  if (limits->parts > 1) bind_cores(limits->part, limits->parts);
  int file = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file >= 0) {
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
  }
  execv(line[0], line);
  _exit(127);
}

tri_status tri_process_start(char *const *line, const char *log, const tri_process_limits *limits, tri_process *out) {
  /* Orphaned processes of the session become children of this process, which can then wait for them. */
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t parent = getpid(), child = fork();
  if (child == 0) become(line, log, limits, parent);
  if (child < 0) return tri_fail(TRI_IO_FAILED, "cannot start %s: %s", line[0], strerror(errno));
  *out = (tri_process){.id = child};
  return TRI_OK;
}

/* Kills all processes of the session except its leader, and returns their number. The command's name in /proc/N/stat
 * may contain any character, so parsing starts after the last bracket. */
static int sweep(pid_t session) {
  int found = 0;
  DIR *all = opendir("/proc");
  if (all == NULL) return 0;
  for (struct dirent *entry; (entry = readdir(all)) != NULL;) {
    char path[300], text[1024] = "";
    if (!isdigit((unsigned char)entry->d_name[0])) continue;
    snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
    FILE *from = fopen(path, "r");
    if (from == NULL) continue;
    size_t length = fread(text, 1, sizeof text - 1, from);
    fclose(from);
    text[length] = '\0';
    const char *rest = strrchr(text, ')');
    char state = '?';
    int parent = 0, group = 0, own = 0;
    pid_t id = (pid_t)strtol(entry->d_name, NULL, 10);
    if (rest == NULL || sscanf(rest + 1, " %c %d %d %d", &state, &parent, &group, &own) != 4) continue;
    if (own != session || id == session) continue;
    kill(id, SIGKILL);
    waitpid(id, NULL, WNOHANG); /* an orphan is now a child of this process */
    found++;
  }
  closedir(all);
  return found;
}

static void clear(pid_t session) {
  for (int i = 0; i < LOOKS && sweep(session) > 0; i++) tri_pause_s(PAUSE_S);
}

bool tri_process_ended(tri_process *p) {
  pid_t got = waitpid(p->id, &p->result, WNOHANG);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  clear(p->id);
  return true;
}

void tri_process_stop(tri_process *p) {
  kill(p->id, SIGTERM);
  kill(p->id, SIGCONT); /* it may be stopped by SIGSTOP */
  for (int i = 0; i < LOOKS; i++) {
    if (tri_process_ended(p)) return;
    tri_pause_s(PAUSE_S);
  }
  kill(p->id, SIGKILL);
  clear(p->id);
  while (waitpid(p->id, &p->result, 0) < 0 && errno == EINTR) {
  }
}
