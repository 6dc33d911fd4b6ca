#include "base/preset.h"

#include "base/format.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NUM_PLACES = 5 };

/* The folder of the program's own file, or "" where the system does not say. */
static void program_directory(char out[TRI_PATH_BYTES]) {
  ssize_t length = readlink("/proc/self/exe", out, TRI_PATH_BYTES - 1);
  out[length > 0 ? length : 0] = '\0';
  char *slash = strrchr(out, '/');
  if (slash != NULL) *slash = '\0';
}

/* Writes "PLACE/FOLDER" of the index-th place to look at; false if there is no such place. */
static bool place(int index, const char *folder, char out[TRI_PATH_BYTES]) {
  static const char *const beside_program[NUM_PLACES] = {
      [1] = "/../configs", [2] = "/../../configs", [4] = "/../share/trireme/configs"};
  char program[TRI_PATH_BYTES] = "";
  const char *base = "";
  const char *below = "";
  if (index == 0) {
    const char *chosen = getenv("TRIREME_CONFIGS");
    base = chosen == NULL ? "" : chosen;
  } else if (index == 3) {
    base = TRIREME_CONFIG_DIR;
  } else {
    program_directory(program);
    base = program;
    below = beside_program[index];
  }
  int length = snprintf(out, TRI_PATH_BYTES, "%s%s/%s", base, below, folder);
  return base[0] != '\0' && length < TRI_PATH_BYTES;
}

bool tri_preset_find(const char *folder, const char *name, char path[TRI_PATH_BYTES]) {
  char directory[TRI_PATH_BYTES];
  if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) return false;
  for (int i = 0; i < NUM_PLACES; i++) {
    if (!place(i, folder, directory)) continue;
    int length = snprintf(path, TRI_PATH_BYTES, "%s/%s.yaml", directory, name);
    if (length < TRI_PATH_BYTES && tri_path_exists(path)) return true;
  }
  return false;
}

/* Puts a name where it belongs in the sorted list unless it is there. */
static size_t insert_name(char names[][TRI_PRESET_NAME_BYTES], size_t count, const char *name) {
  size_t at = 0;
  while (at < count && strcmp(names[at], name) < 0) at++;
  if (count == TRI_PRESET_MOST || (at < count && strcmp(names[at], name) == 0)) return count;
  memmove(names[at + 1], names[at], (count - at) * TRI_PRESET_NAME_BYTES);
  snprintf(names[at], TRI_PRESET_NAME_BYTES, "%s", name);
  return count + 1;
}

size_t tri_preset_list(const char *folder, char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES]) {
  size_t count = 0;
  char path[TRI_PATH_BYTES];
  for (int i = 0; i < NUM_PLACES; i++) {
    DIR *directory = place(i, folder, path) ? opendir(path) : NULL;
    if (directory == NULL) continue;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
      char name[256];
      snprintf(name, sizeof name, "%s", entry->d_name);
      size_t length = strlen(name);
      if (length <= 5 || strcmp(name + length - 5, ".yaml") != 0 || name[0] == '.') continue;
      name[length - 5] = '\0';
      if (length - 5 < TRI_PRESET_NAME_BYTES) count = insert_name(names, count, name);
    }
    closedir(directory);
  }
  return count;
}

static bool ends_in(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool tri_preset_is_path(const char *text) {
  return strchr(text, '/') != NULL || ends_in(text, ".yaml") || ends_in(text, ".yml");
}

void tri_preset_suggest(const char *folder, const char *name, char all[TRI_PRESET_ALL_BYTES],
                        char nearest[TRI_PRESET_NAME_BYTES]) {
  char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  const char *pointers[TRI_PRESET_MOST];
  size_t count = tri_preset_list(folder, names);
  all[0] = '\0';
  for (size_t i = 0; i < count; i++) {
    size_t held = strlen(all);
    snprintf(all + held, TRI_PRESET_ALL_BYTES - held, "%s%s", i == 0 ? "" : ", ", names[i]);
    pointers[i] = names[i];
  }
  const char *meant = count == 0 ? NULL : tri_nearest_word(name, pointers, count);
  snprintf(nearest, TRI_PRESET_NAME_BYTES, "%s", meant == NULL ? "" : meant);
}
