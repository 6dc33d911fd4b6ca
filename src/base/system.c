#include "base/system.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

/* Returns the number after `key` in a file of "key: number kB" lines, in bytes; 0 if the file does not exist or does
 * not have the key. */
static size_t read_kilobytes(const char *path, const char *key) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  char line[256];
  size_t bytes = 0;
  size_t length = strlen(key);
  while (bytes == 0 && fgets(line, sizeof line, file) != NULL) {
    uint64_t kilobytes = 0;
    if (strncmp(line, key, length) == 0 && sscanf(line + length, ": %" SCNu64, &kilobytes) == 1) {
      bytes = (size_t)kilobytes * 1024;
    }
  }
  fclose(file);
  return bytes;
}

/* Reads a control-group file that holds one number; returns 0 for "max", or if there is no file. */
static size_t read_number(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  uint64_t number = 0;
  if (fscanf(file, "%" SCNu64, &number) != 1) number = 0;
  fclose(file);
  return (size_t)number;
}

static size_t lesser(size_t a, size_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* Returns the bytes left in the control group that is mounted at the root, which inside a container is the process's
 * own group; 1 if none are left, and 0 if the group has no limit. */
static size_t group_bytes_left(void) {
  size_t limit = read_number("/sys/fs/cgroup/memory.max");
  size_t used = read_number("/sys/fs/cgroup/memory.current");
  if (limit == 0) {
    limit = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    used = read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes");
  }
  if (limit == 0 || limit > (size_t)1 << 60) return 0;
  return limit > used ? limit - used : 1;
}

static size_t process_bytes_left(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  size_t used = read_kilobytes("/proc/self/status", "VmSize");
  return limit.rlim_cur > used ? (size_t)limit.rlim_cur - used : 1;
}

size_t tri_system_memory_of_node(void) {
  return lesser(read_kilobytes("/proc/meminfo", "MemAvailable"), group_bytes_left());
}

size_t tri_system_memory_available(void) { return lesser(tri_system_memory_of_node(), process_bytes_left()); }

size_t tri_system_peak_resident_bytes(void) { return read_kilobytes("/proc/self/status", "VmHWM"); }

tri_status tri_system_unique(char out[TRI_UNIQUE_BYTES]) {
  unsigned char random[(TRI_UNIQUE_BYTES - 1) / 2];
  if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    return tri_fail(TRI_IO_FAILED, "cannot get random bytes from the system: %s", strerror(errno));
  }
  for (size_t i = 0; i < sizeof random; i++) snprintf(out + 2 * i, 3, "%02x", random[i]);
  return TRI_OK;
}

tri_status tri_system_own_path(char *out, size_t out_bytes) {
  ssize_t length = readlink("/proc/self/exe", out, out_bytes - 1);
  if (length <= 0) return tri_fail(TRI_IO_FAILED, "cannot find out this program's own path: %s", strerror(errno));
  out[length] = '\0';
  return TRI_OK;
}
