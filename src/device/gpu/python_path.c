/* Asks python3 for the folders of its packages. python3 may be a wrapper that starts other processes, or may hang in a
 * slow file system, so it runs in a process group of its own with a time limit. */
#include "device/gpu/python_path.h"

#include "base/clock.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_BYTES = 1 << 16, SECONDS_TO_ANSWER = 10, SECONDS_TO_DIE = 1 };

extern char **environ;

/* Starts python3 with its output to the file descriptor `to`, in a process group of its own, so that all processes that
 * a wrapper starts can be killed. Returns false if it cannot be started. */
static bool start(int to, pid_t *out) {
  static const char question[] = "import sys; print('\\n'.join(sys.path))";
  char name[] = "python3", option[] = "-c", code[sizeof question];
  memcpy(code, question, sizeof question);
  char *const arguments[] = {name, option, code, NULL};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&files, to, 1);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  int error = posix_spawnp(out, name, &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error == 0;
}

/* Reads the answer. Returns false if it is not complete within SECONDS_TO_ANSWER seconds, or has more than MOST_BYTES -
 * 2 bytes. */
static bool read_all(int from, char *out) {
  const double until = tri_clock_s() + SECONDS_TO_ANSWER;
  size_t used = 0;
  while (used < MOST_BYTES - 1) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    double left = until - tri_clock_s();
    if (left <= 0) return false;
    int ready = poll(&wait, 1, (int)(left * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    ssize_t got = read(from, out + used, MOST_BYTES - 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) return true;
    used += (size_t)got;
    out[used] = '\0';
  }
  return false;
}

/* Kills the process group, and waits at most SECONDS_TO_DIE seconds for the end of its first process. A process that
 * does not die in time, because its file system hangs, is left. */
static void end(pid_t process) {
  const double until = tri_clock_s() + SECONDS_TO_DIE;
  kill(-process, SIGKILL);
  while (waitpid(process, NULL, WNOHANG) == 0 && tri_clock_s() < until) tri_pause_s(0.001);
}

tri_status tri_python_path(char **out) {
  char *text = NULL;
  int ends[2];
  pid_t process = 0;
  TRI_TRY(tri_alloc("Python's folders", MOST_BYTES, 1, &text));
  *out = text;
  if (pipe2(ends, O_CLOEXEC) != 0) return TRI_OK;
  bool started = start(ends[1], &process);
  close(ends[1]);
  if (started) {
    if (!read_all(ends[0], text)) text[0] = '\0';
    end(process);
  }
  close(ends[0]);
  return TRI_OK;
}
