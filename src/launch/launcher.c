#include "launch/launcher.h"

#include "base/clock.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_program(const char *path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

static bool find_program(const char *search_path, const char *name, char out[TRI_PATH_BYTES]) {
  for (const char *folder = search_path; folder != NULL;) {
    size_t length = strcspn(folder, ":");
    int written = snprintf(out, TRI_PATH_BYTES, "%.*s/%s", (int)length, folder, name);
    if (length > 0 && written < TRI_PATH_BYTES && is_program(out)) return true;
    folder = folder[length] == ':' ? folder + length + 1 : NULL;
  }
  return false;
}

/* ---- the version ------------------------------------------------------------------------------------------------- */

static pid_t start_version(const char *path, int output) {
  char *const arguments[] = {(char *)path, "--version", NULL};
  posix_spawn_file_actions_t actions;
  pid_t child = -1;
  if (posix_spawn_file_actions_init(&actions) != 0) return -1;
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  if (posix_spawn(&child, path, &actions, NULL, arguments, environ) != 0) child = -1;
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

/* Reads the output for at most limit_s seconds, so that a launcher on a broken network does not block `trireme
 * doctor`. */
static void read_output(int from, double limit_s, char *out, size_t out_bytes) {
  double end_s = tri_clock_s() + limit_s;
  size_t held = 0;
  while (held + 1 < out_bytes) {
    struct pollfd wait = {.fd = from, .events = POLLIN};
    double left_s = end_s - tri_clock_s();
    if (left_s <= 0 || poll(&wait, 1, (int)(1000 * left_s) + 1) <= 0) break;
    ssize_t got = read(from, out + held, out_bytes - held - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    held += (size_t)got;
  }
  out[held] = '\0';
}

static void ask_version(const char *path, char *out, size_t out_bytes) {
  int ends[2];
  out[0] = '\0';
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_t child = start_version(path, ends[1]);
  close(ends[1]);
  if (child > 0) {
    read_output(ends[0], 10, out, out_bytes);
    kill(child, SIGKILL); /* its output is complete, or it hangs */
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
  }
  close(ends[0]);
}

/* Copies the version number, such as 4.1.4, that begins with the first digit after the text `after`, on the same
 * line; "" if there is no version. */
static void copy_version(const char *text, const char *after, char *out, size_t out_bytes) {
  const char *from = strstr(text, after);
  out[0] = '\0';
  if (from == NULL) return;
  from += strlen(after);
  while (*from != '\0' && *from != '\n' && !isdigit((unsigned char)*from)) from++;
  size_t length = strspn(from, "0123456789.abcrc"); /* 5.0.0rc12, 3.4a2 */
  snprintf(out, out_bytes, "%.*s", (int)length, from);
}

/* Recognizes the implementation by the output of `mpiexec --version`. Intel's launcher is a Hydra, too, so it is
 * checked first. */
static void identify(const char *text, tri_launcher *launcher) {
  static const struct {
    const char *sign, *name, *version_after;
  } known[] = {
      {"Intel(R) MPI", "Intel MPI", "Version"}, {"Open MPI", "Open MPI", "Open MPI)"},
      {"OpenRTE", "Open MPI", "OpenRTE)"},      {"PRRTE", "Open MPI", "PRRTE)"},
      {"HYDRA", "MPICH", "Version:"},
  };
  snprintf(launcher->implementation, sizeof launcher->implementation, "unknown");
  launcher->version[0] = '\0';
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strstr(text, known[i].sign) == NULL) continue;
    snprintf(launcher->implementation, sizeof launcher->implementation, "%s", known[i].name);
    copy_version(text, known[i].version_after, launcher->version, sizeof launcher->version);
    return;
  }
}

bool tri_launcher_speaks(const tri_launcher *launcher, const char *library) {
  bool known = strcmp(launcher->implementation, "unknown") != 0;
  bool open_launcher = strcmp(launcher->implementation, "Open MPI") == 0;
  bool open_library = strncmp(library, "Open MPI", strlen("Open MPI")) == 0;
  return !known || open_launcher == open_library;
}

tri_status tri_launcher_find(const char *search_path, const char *library, tri_launcher *out) {
  static const char *const names[] = {"mpiexec", "mpirun", "mpiexec.openmpi", "mpiexec.mpich", "mpiexec.hydra"};
  bool found = false;
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char text[4096];
    tri_launcher launcher;
    if (!find_program(search_path, names[i], launcher.path)) continue;
    ask_version(launcher.path, text, sizeof text);
    identify(text, &launcher);
    bool speaks = library == NULL || tri_launcher_speaks(&launcher, library);
    if (!found || speaks) *out = launcher;
    found = true;
    if (speaks) return TRI_OK;
  }
  if (found) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "cannot find mpiexec in the PATH; install Open MPI or MPICH (on Debian: apt install openmpi-bin), or "
                  "load the cluster's MPI module");
}
