#include "launch/stale_shm.h"

#include "base/memory.h"
#include "files/file.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SEGMENTS "/dev/shm"

enum { PATH_BYTES = 512 };

typedef struct segment {
  char path[PATH_BYTES];
  dev_t device;
  ino_t inode;
  bool used;
} segment;

typedef struct segments {
  segment *all; /* [count] */
  size_t count, room;
} segments;

/* Returns whether a file is a segment of Open MPI ("vader_segment.HOST.UID.JOB.RANK" of version 4, "sm_segment." of 5)
 * of this host and this user. */
static bool is_segment(const char *name, const char *host) {
  static const char *const kinds[] = {"vader_segment.", "sm_segment."};
  char begin[128];
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    int length = snprintf(begin, sizeof begin, "%s%s.%ld.", kinds[i], host, (long)geteuid());
    unsigned job, rank;
    char more;
    if (strncmp(name, begin, (size_t)length) == 0 && sscanf(name + length, "%8x.%u%c", &job, &rank, &more) == 2) {
      return true;
    }
  }
  return false;
}

static void find_segments(const char *host, segments *out) {
  DIR *folder = opendir(SEGMENTS);
  if (folder == NULL) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    struct stat facts;
    segment found = {.used = false};
    if (!is_segment(entry->d_name, host)) continue;
    snprintf(found.path, sizeof found.path, "%s/%s", SEGMENTS, entry->d_name);
    if (lstat(found.path, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid()) continue;
    found.device = facts.st_dev;
    found.inode = facts.st_ino;
    if (tri_reserve("segments", sizeof *out->all, out->count + 1, &out->room, &out->all) != TRI_OK) break;
    out->all[out->count++] = found;
  }
  closedir(folder);
}

static void note_use(const segments *s, dev_t device, ino_t inode) {
  for (size_t i = 0; i < s->count; i++) {
    if (s->all[i].device == device && s->all[i].inode == inode) s->all[i].used = true;
  }
}

/* Marks the segments that a process has open. Returns false if the process exists and its files cannot be read. */
static bool mark_open_files(const segments *s, const char *process) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%.20s/fd", process);
  DIR *folder = opendir(path);
  if (folder == NULL) return errno == ENOENT || errno == ESRCH;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    struct stat facts;
    if (entry->d_name[0] == '.') continue;
    if (fstatat(dirfd(folder), entry->d_name, &facts, 0) == 0) note_use(s, facts.st_dev, facts.st_ino);
  }
  closedir(folder);
  return true;
}

static bool mark_mapped_files(const segments *s, const char *process) {
  char path[PATH_BYTES], line[4096 + PATH_BYTES];
  snprintf(path, sizeof path, "/proc/%.20s/maps", process);
  FILE *from = fopen(path, "re");
  if (from == NULL) return errno == ENOENT || errno == ESRCH;
  while (fgets(line, sizeof line, from) != NULL) {
    unsigned major_number, minor_number;
    unsigned long inode;
    if (sscanf(line, "%*s %*s %*s %x:%x %lu", &major_number, &minor_number, &inode) == 3 && inode != 0) {
      note_use(s, makedev(major_number, minor_number), (ino_t)inode);
    }
  }
  fclose(from);
  return true;
}

/* Marks the segments that processes of this user use; returns false if one of them cannot be examined. A process maps a
 * segment before it closes the file, so open files are checked before mappings. Process 1 is skipped, because it may be
 * unreadable and is not a rank. */
static bool find_users(const segments *s) {
  DIR *folder = opendir("/proc");
  bool all = folder != NULL;
  for (const struct dirent *entry; all && (entry = readdir(folder)) != NULL;) {
    char path[PATH_BYTES];
    struct stat facts;
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || strcmp(entry->d_name, "1") == 0) continue;
    snprintf(path, sizeof path, "/proc/%.20s", entry->d_name);
    if (stat(path, &facts) != 0 || facts.st_uid != geteuid()) continue;
    all = mark_open_files(s, entry->d_name) && mark_mapped_files(s, entry->d_name);
  }
  if (folder != NULL) closedir(folder);
  return all;
}

static void remove_segments(const char *host) {
  segments s = {0};
  find_segments(host, &s);
  if (s.count > 0 && find_users(&s)) {
    for (size_t i = 0; i < s.count; i++) {
      if (!s.all[i].used) unlink(s.all[i].path);
    }
  }
  tri_free(s.all);
}

static bool is_own_folder(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
}

/* Returns whether a process has ended, reaped or not. */
static bool is_gone(pid_t pid) {
  char path[64], text[512] = "";
  if (kill(pid, 0) != 0) return errno == ESRCH;
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
  FILE *from = fopen(path, "re");
  if (from == NULL) return false;
  text[fread(text, 1, sizeof text - 1, from)] = '\0';
  fclose(from);
  const char *end = strrchr(text, ')'); /* end of the name, which may contain any character */
  return end != NULL && strncmp(end, ") Z", 3) == 0;
}

/* Removes TMPDIR/ompi.HOST.UID/pid.PID if the mpiexec with that number is gone. */
static void remove_sessions(const char *host) {
  char path[TRI_PATH_BYTES], name[160], session[TRI_PATH_BYTES];
  const char *temporary = getenv("TMPDIR");
  snprintf(name, sizeof name, "ompi.%s.%ld", host, (long)geteuid());
  if (tri_path_join(path, temporary == NULL ? "/tmp" : temporary, name) != TRI_OK || !is_own_folder(path)) return;
  DIR *folder = opendir(path);
  if (folder == NULL) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    long pid;
    char more;
    if (sscanf(entry->d_name, "pid.%ld%c", &pid, &more) != 1 || pid < 2) continue;
    if (!is_gone((pid_t)pid) || tri_path_join(session, path, entry->d_name) != TRI_OK || !is_own_folder(session))
      continue;
    (void)tri_directory_remove(session);
  }
  closedir(folder);
}

/* Returns whether all processes of this host are visible to this one. */
static bool sees_all(void) {
  static const char first[] = "pid:[4026531836]"; /* name of the first PID namespace since Linux 3.8 */
  char text[64];
  ssize_t length = readlink("/proc/self/ns/pid", text, sizeof text - 1);
  return length == (ssize_t)sizeof first - 1 && memcmp(text, first, sizeof first - 1) == 0;
}

void tri_stale_shm_remove(void) {
  char host[65] = "";
  if (!sees_all() || gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') return;
  remove_segments(host);
  remove_sessions(host);
  char *domain = strchr(host, '.'); /* Open MPI 4 omits the domain, 5 includes it */
  if (domain == NULL || domain == host) return;
  *domain = '\0';
  remove_segments(host);
  remove_sessions(host);
}
