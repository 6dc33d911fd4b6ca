#include "launch/error_files.h"

#include "base/parent.h"
#include "base/status.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Name of a folder: .trireme-words-HOST-CHANCE. */
#define BEGIN ".trireme-words-"
enum { CHANCE_DIGITS = 16, NAME_BYTES = 128 };

static const time_t DEAD_S = 24 * 3600;

static void find_place(const char *output, char out[TRI_PATH_BYTES]) {
  char above[TRI_PATH_BYTES];
  const char *temporary = getenv("TMPDIR");
  bool found = false;
  snprintf(above, sizeof above, "./%s", output == NULL ? "" : output);
  char *from = output != NULL && output[0] == '/' ? above + 2 : above;
  for (char *slash; output != NULL && !found && (slash = strrchr(from, '/')) != NULL;) {
    *slash = '\0';
    found = realpath(*from == '\0' ? "/" : from, out) != NULL && access(out, W_OK | X_OK) == 0;
  }
  if (!found) snprintf(out, TRI_PATH_BYTES, "%s", temporary == NULL ? "/tmp" : temporary);
}

static bool is_ours(const char *name) {
  size_t length = strlen(name);
  if (strncmp(name, BEGIN, strlen(BEGIN)) != 0 || length < strlen(BEGIN) + 1 + CHANCE_DIGITS) return false;
  const char *chance = name + length - CHANCE_DIGITS;
  return chance[-1] == '-' && strspn(chance, "0123456789abcdef") == CHANCE_DIGITS;
}

static void remove_dead(const char *place, time_t now) {
  DIR *folder = opendir(place);
  if (folder == NULL) return;
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[TRI_PATH_BYTES];
    struct stat facts;
    if (!is_ours(entry->d_name) || tri_path_join(path, place, entry->d_name) != TRI_OK) continue;
    if (lstat(path, &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid()) continue;
    if (now - facts.st_mtime > DEAD_S) (void)tri_directory_remove(path);
  }
  closedir(folder);
}

void tri_error_files_make(const char *output, char out[TRI_PATH_BYTES]) {
  char place[TRI_PATH_BYTES], host[64] = "", name[NAME_BYTES];
  uint64_t chance = 0;
  struct stat facts;
  out[0] = '\0';
  find_place(output, place);
  (void)gethostname(host, sizeof host - 1);
  if (getrandom(&chance, sizeof chance, 0) != (ssize_t)sizeof chance) return;
  snprintf(name, sizeof name, BEGIN "%s-%0*llx", host, (int)CHANCE_DIGITS, (unsigned long long)chance);
  if (tri_path_join(out, place, name) != TRI_OK || mkdir(out, 0700) != 0) {
    out[0] = '\0';
    return;
  }
  if (stat(out, &facts) == 0) remove_dead(place, facts.st_mtime);
}

void tri_error_files_touch(const char *folder) {
  if (folder[0] != '\0') (void)utimensat(AT_FDCWD, folder, NULL, 0);
}

/* Reads a file of base/parent.c, "STATUS KIND RANK" and the error message, and passes it to `take`. */
static void read_file(const char *path, tri_error_file_handler take, void *context) {
  char text[TRI_MESSAGE_BYTES + 64] = "";
  int exit_status, kind, rank, begin = 0;
  FILE *from = fopen(path, "re");
  if (from == NULL) return;
  text[fread(text, 1, sizeof text - 1, from)] = '\0';
  fclose(from);
  if (sscanf(text, "%d %d %d%n", &exit_status, &kind, &rank, &begin) != 3 || text[begin] != '\n') return;
  take(context, kind == TRI_PARENT_SECONDARY, exit_status, text + begin + 1);
}

void tri_error_files_collect(const char *folder, tri_error_file_handler take, void *context) {
  DIR *entries = folder[0] == '\0' ? NULL : opendir(folder);
  if (entries == NULL) return;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    char path[TRI_PATH_BYTES];
    if (entry->d_name[0] == '.' || tri_path_join(path, folder, entry->d_name) != TRI_OK)
      continue; /* incomplete files have names with a dot */
    read_file(path, take, context);
  }
  closedir(entries);
  (void)tri_directory_remove(folder);
}
