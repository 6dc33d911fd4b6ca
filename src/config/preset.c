#include "config/preset.h"

#include "base/text.h"
#include "config/nearest_word.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Folder of a place: $TRIREME_CONFIGS, the folder of the program, the folder of the library (object_directory), or the
 * folder that was set at build time. */
typedef enum beside { CHOSEN, PROGRAM, OBJECT, BUILT } beside;

/* Places of presets, in order: a folder, and a path below it. */
static const struct {
  beside of;
  const char *below;
} places[] = {{CHOSEN, ""},
              {PROGRAM, "/../share/trireme/configs"},
              {OBJECT, "/../share/trireme/configs"},    /* lib/libtrireme.so.0 */
              {OBJECT, "/../../share/trireme/configs"}, /* lib/x86_64-linux-gnu/libtrireme.so.0 */
              {PROGRAM, "/../configs"},
              {PROGRAM, "/../../configs"},
              {BUILT, ""}};
enum { NUM_PLACES = sizeof places / sizeof places[0] };

static void cut_name(char path[TRI_PATH_BYTES]) {
  char *slash = strrchr(path, '/');
  if (slash != NULL) *slash = '\0';
}

/* Sets `out` to the folder of the program's file; to "" if the system does not report it. */
static void program_directory(char out[TRI_PATH_BYTES]) {
  ssize_t length = readlink("/proc/self/exe", out, TRI_PATH_BYTES - 1);
  out[length > 0 ? length : 0] = '\0';
  cut_name(out);
}

/* Sets `out` to the folder of the library, or else of the program, from which this code was loaded; to "" if it is not
 * known. */
static void object_directory(char out[TRI_PATH_BYTES]) {
  static const char here = 0; /* its address is in this object */
  Dl_info facts;
  out[0] = '\0';
  if (dladdr(&here, &facts) == 0 || facts.dli_fname == NULL || strchr(facts.dli_fname, '/') == NULL) return;
  char *whole = realpath(facts.dli_fname, NULL);
  if (whole == NULL) return;
  snprintf(out, TRI_PATH_BYTES, "%s", whole);
  free(whole);
  cut_name(out);
}

/* Sets `out` to "PLACE/FOLDER" of place `index`. Returns false if that place is not known, or if the path is too
 * long. */
static bool place(int index, const char *folder, char out[TRI_PATH_BYTES]) {
  char base[TRI_PATH_BYTES] = "";
  const char *chosen = NULL;
  switch (places[index].of) {
    case CHOSEN: chosen = getenv("TRIREME_CONFIGS"); break;
    case PROGRAM: program_directory(base); break;
    case OBJECT: object_directory(base); break;
    case BUILT: chosen = TRIREME_CONFIG_DIR; break;
  }
  if (chosen != NULL) snprintf(base, sizeof base, "%s", chosen);
  int length = snprintf(out, TRI_PATH_BYTES, "%s%s/%s", base, places[index].below, folder);
  return base[0] != '\0' && length < TRI_PATH_BYTES;
}

/* Returns the ending of the files in a folder of presets. */
static const char *suffix_of(const char *folder) { return strcmp(folder, "templates") == 0 ? ".jinja" : ".yaml"; }

/* Returns the length of the ending .yaml or .yml; 0 if the name has neither. */
static size_t ending_of(const char *name) {
  static const char *const endings[] = {".yaml", ".yml"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    if (tri_ends_with(name, endings[i])) return strlen(endings[i]);
  }
  return 0;
}

static bool find_exactly(const char *folder, const char *name, char path[TRI_PATH_BYTES]) {
  char directory[TRI_PATH_BYTES];
  for (int i = 0; i < NUM_PLACES; i++) {
    if (!place(i, folder, directory)) continue;
    int length = snprintf(path, TRI_PATH_BYTES, "%s/%s%s", directory, name, suffix_of(folder));
    if (length < TRI_PATH_BYTES && tri_path_exists(path)) return true;
  }
  return false;
}

bool tri_preset_find(const char *folder, const char *name, char path[TRI_PATH_BYTES]) {
  char plain[TRI_PRESET_NAME_BYTES];
  if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL) return false;
  if (find_exactly(folder, name, path)) return true;
  const size_t length = strlen(name) - ending_of(name);
  if (length == 0 || length >= sizeof plain) return false;
  for (size_t i = 0; i < length; i++) plain[i] = (char)tolower((unsigned char)name[i]);
  plain[length] = '\0';
  return find_exactly(folder, plain, path);
}

/* Inserts a name into the sorted list unless the list has it already or is full. Returns the number of names. */
static size_t insert_name(char names[][TRI_PRESET_NAME_BYTES], size_t count, const char *name) {
  size_t at = 0;
  while (at < count && strcmp(names[at], name) < 0) at++;
  if (count == TRI_PRESET_MOST || (at < count && strcmp(names[at], name) == 0)) return count;
  memmove(names[at + 1], names[at], (count - at) * TRI_PRESET_NAME_BYTES);
  snprintf(names[at], TRI_PRESET_NAME_BYTES, "%s", name);
  return count + 1;
}

size_t tri_preset_list(const char *folder, char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES]) {
  const char *suffix = suffix_of(folder);
  const size_t tail = strlen(suffix);
  size_t count = 0;
  char path[TRI_PATH_BYTES];
  for (int i = 0; i < NUM_PLACES; i++) {
    DIR *directory = place(i, folder, path) ? opendir(path) : NULL;
    if (directory == NULL) continue;
    for (const struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
      char name[256];
      snprintf(name, sizeof name, "%s", entry->d_name);
      size_t length = strlen(name);
      if (length <= tail || !tri_ends_with(name, suffix) || name[0] == '.') continue;
      name[length - tail] = '\0';
      if (length - tail < TRI_PRESET_NAME_BYTES) count = insert_name(names, count, name);
    }
    closedir(directory);
  }
  return count;
}

bool tri_preset_is_path(const char *folder, const char *text) {
  char path[TRI_PATH_BYTES];
  if (strchr(text, '/') != NULL) return true;
  if (ending_of(text) == 0) return false;
  return tri_path_exists(text) || !tri_preset_find(folder, text, path);
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
