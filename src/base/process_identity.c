#include "base/process_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the first line of a file, without its newline; "" if the file cannot be read. */
static void read_line(const char *path, char *out, size_t out_bytes) {
  FILE *file = fopen(path, "re");
  out[0] = '\0';
  if (file == NULL) return;
  if (fgets(out, (int)out_bytes, file) == NULL) out[0] = '\0';
  out[strcspn(out, "\n")] = '\0';
  fclose(file);
}

/* Reads the state and the start of a process from /proc/PID/stat; false if there is no such process. The name of the
 * program, which comes before both in parentheses, may contain any byte. */
static bool read_process(int64_t process, char *state, uint64_t *start) {
  char path[64], line[1024];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", process);
  read_line(path, line, sizeof line);
  const char *after = strrchr(line, ')');
  if (after == NULL) return false;
  return sscanf(after + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
                state, start) == 2;
}

tri_process_identity tri_process_identity_self(void) {
  struct stat facts;
  char state;
  tri_process_identity self = {.process = (int64_t)getpid()};
  if (gethostname(self.host, sizeof self.host - 1) != 0 || self.host[0] == '\0') strcpy(self.host, "unnamed");
  read_line("/proc/sys/kernel/random/boot_id", self.boot, sizeof self.boot);
  if (self.boot[0] == '\0') strcpy(self.boot, "unknown");
  if (stat("/proc/self/ns/pid", &facts) == 0) self.processes = (uint64_t)facts.st_ino;
  if (!read_process(self.process, &state, &self.start)) self.start = 0;
  return self;
}

bool tri_process_identity_is_known(const tri_process_identity *self) {
  return strcmp(self->boot, "unknown") != 0 && self->processes != 0 && self->start != 0;
}

tri_process_fate tri_process_find(int64_t process, uint64_t start) {
  char state = 0;
  uint64_t found = 0;
  if (!read_process(process, &state, &found)) {
    return kill((pid_t)process, 0) != 0 && errno == ESRCH ? TRI_PROCESS_DEAD : TRI_PROCESS_UNKNOWN;
  }
  return found == start && state != 'Z' && state != 'X' ? TRI_PROCESS_ALIVE : TRI_PROCESS_DEAD;
}

bool tri_process_environment_has(int64_t process, const char *text) {
  char path[64], part[1 << 16];
  const size_t length = strlen(text);
  size_t held = 0;
  bool found = false;
  snprintf(path, sizeof path, "/proc/%" PRId64 "/environ", process);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  for (ssize_t got; !found && (got = read(file, part + held, sizeof part - held)) > 0;) {
    held += (size_t)got;
    found = memmem(part, held, text, length) != NULL;
    size_t kept = held < length ? held : length - 1; /* the text may be split between two reads */
    memmove(part, part + held - kept, kept);
    held = kept;
  }
  close(file);
  return found;
}
