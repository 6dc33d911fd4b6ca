#include "files/temporary_name.h"

#include "base/fnv1a.h"
#include "base/process_identity.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BEGINNING ".trireme-"
#define ENDING ".tmp"

enum { HOST_BYTES = 33, SUFFIX_BYTES = 112 };

/* Seconds since the last write of a file, after which it is abandoned, if its writer cannot be looked up. */
static const double left_s = 24 * 3600;

typedef struct writer {
  char host[HOST_BYTES]; /* name of the host; characters other than letters, digits and '.' are '_' */
  int64_t process;
  uint64_t start;
  uint32_t place;
} writer;

static writer find_self(void) {
  const tri_process_identity id = tri_process_identity_self();
  char processes[32];
  writer self = {.process = id.process, .start = id.start};
  snprintf(processes, sizeof processes, " %" PRIu64, id.processes);
  uint64_t place = tri_fnv1a(tri_fnv1a(tri_fnv1a(TRI_FNV1A_BEGIN, id.host), id.boot), processes);
  if (tri_process_identity_is_known(&id))
    self.place = (uint32_t)(place ^ place >> 32) | 1; /* never 0, which means that the place is unknown */
  for (size_t i = 0; i + 1 < sizeof self.host && id.host[i] != '\0'; i++) {
    self.host[i] = isalnum((unsigned char)id.host[i]) || id.host[i] == '.' ? id.host[i] : '_';
  }
  return self;
}

static void print_suffix(const writer *w, char out[SUFFIX_BYTES]) {
  snprintf(out, SUFFIX_BYTES, BEGINNING "%s-%" PRId64 "-%" PRIx64 "-%08" PRIx32 ENDING, w->host, w->process, w->start,
           w->place);
}

/* Parses the suffix after the name of the file; only accepts the output of print_suffix. */
static bool parse_suffix(const char *text, writer *out) {
  char again[SUFFIX_BYTES];
  *out = (writer){.process = 0};
  if (sscanf(text, BEGINNING "%32[A-Za-z0-9._]-%" SCNd64 "-%" SCNx64 "-%" SCNx32, out->host, &out->process, &out->start,
             &out->place) != 4) {
    return false;
  }
  print_suffix(out, again);
  return out->process > 0 && strcmp(text, again) == 0;
}

/* Returns whether the writer of a file of this host has ended. After a restart of the host, or in another container of
 * the same name, process ids are not comparable, and only the age of the file counts. */
static bool has_ended(const writer *other, const writer *self, const char *path) {
  struct stat facts;
  if (strcmp(other->host, self->host) != 0 || lstat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
  if (other->place == 0 || other->place != self->place) return difftime(time(NULL), facts.st_mtime) > left_s;
  return tri_process_find(other->process, other->start) == TRI_PROCESS_DEAD;
}

/* Returns whether a file has a temporary name of earlier versions, the target's name with ".tmp.PID", and no process
 * has that number. */
static bool is_left_by_earlier_version(const char *suffix, const char *path) {
  struct stat facts;
  int64_t process = 0;
  int length = 0;
  if (sscanf(suffix, ".tmp.%9" SCNd64 "%n", &process, &length) != 1 || suffix[length] != '\0' || process <= 0)
    return false;
  if (!isdigit((unsigned char)suffix[sizeof ".tmp." - 1]) || lstat(path, &facts) != 0) return false;
  return S_ISREG(facts.st_mode) && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}

/* Returns the number of bytes of a file's name with which its temporary name begins. */
static size_t kept_bytes(const char *last) {
  const size_t bytes = strlen(last), most = NAME_MAX - SUFFIX_BYTES;
  return bytes < most ? bytes : most;
}

static const char *last_part(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static void clear(const char *path, const writer *self) {
  const char *last = last_part(path);
  const size_t kept = kept_bytes(last);
  char folder[TRI_PATH_BYTES], left[TRI_PATH_BYTES];
  writer other;
  snprintf(folder, sizeof folder, "%.*s", last == path ? 1 : (int)(last - path), last == path ? "." : path);
  DIR *directory = opendir(folder);
  if (directory == NULL) return;
  for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    const char *suffix = entry->d_name + kept;
    if (strncmp(entry->d_name, last, kept) != 0) continue;
    if (snprintf(left, sizeof left, "%.*s%s", (int)(last - path), path, entry->d_name) >= (int)sizeof left) continue;
    const bool ended =
        parse_suffix(suffix, &other) ? has_ended(&other, self, left) : is_left_by_earlier_version(suffix, left);
    if (ended) (void)unlink(left); /* a file that cannot be removed does no harm */
  }
  closedir(directory);
}

void tri_temporary_clear(const char *path) {
  const writer self = find_self();
  clear(path, &self);
}

tri_status tri_temporary_name(const char *path, char out[TRI_PATH_BYTES]) {
  const writer self = find_self();
  const char *last = last_part(path);
  char suffix[SUFFIX_BYTES];
  print_suffix(&self, suffix);
  clear(path, &self);
  int length = snprintf(out, TRI_PATH_BYTES, "%.*s%s", (int)(last - path) + (int)kept_bytes(last), path, suffix);
  if (length >= 0 && length < TRI_PATH_BYTES && strlen(last) <= NAME_MAX) return TRI_OK;
  return tri_fail(TRI_BAD_USAGE, "the path %s is too long", path);
}
