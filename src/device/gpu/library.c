/* Finds and opens a vendor's library (library.h has the order of the places). The first file that opens and has all
 * required functions is used. The search records the errors of files that could not be used, and the folders that it
 * visited. If it fails, it also looks for other versions. The error message has the most specific of these facts. */
#include "device/gpu/library.h"

#include "base/memory.h"
#include "device/gpu/python_path.h"
#include "files/file.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A search: its parameters and its results. */
typedef struct search {
  const tri_gpu_library *what;
  void *table;
  const char **path;
  bool found;
  char faults[2048]; /* errors of files that could not be used: "PATH: why; " */
  char others[1024]; /* files of versions that were not requested */
  char places[2048]; /* existing folders, for the message */
} search;

/* Appends an item to a list, unless the list has it. An item for which there is too little room is cut. */
static void append(char *list, size_t list_bytes, const char *separator, const char *more) {
  size_t used = strlen(list), length = strlen(more);
  for (const char *at = list; (at = strstr(at, more)) != NULL; at++) {
    if ((at == list || at[-1] == ' ') && (at[length] == '\0' || at[length] == separator[0])) return;
  }
  snprintf(list + used, list_bytes - used, "%s%s", used == 0 ? "" : separator, more);
}

/* ---- one file ---------------------------------------------------------------------------------------------------- */

/* Records why a file cannot be used. */
static void fault(search *s, const char *name, const char *why) {
  char line[1024];
  snprintf(line, sizeof line, "%s: %s", name, why);
  append(s->faults, sizeof s->faults, "; ", line);
}

/* Resolves all functions. Returns NULL, or the name of a missing one. */
static const char *resolve_symbols(const tri_gpu_symbol *symbols, void *handle, void *table) {
  for (const tri_gpu_symbol *symbol = symbols; symbol->name != NULL; symbol++) {
    void *address = dlsym(handle, symbol->name);
    if (address == NULL && !symbol->optional) return symbol->name;
    memcpy((char *)table + symbol->offset, &address, sizeof address);
  }
  return NULL;
}

/* Opens a file by its path, or by its name in the loader's folders, and resolves its functions. Records the error if
 * the file exists but cannot be used. */
static void try_open(search *s, const char *name) {
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const struct link_map *map = NULL;
  if (handle == NULL) {
    const char *said = dlerror(), *why = said == NULL ? "the loader does not say why" : said;
    size_t length = strlen(name);
    /* The loader's message begins with the name of the missing file. If the library itself is missing, nothing is
     * recorded, because other folders are searched; a missing dependency is recorded. */
    if (strchr(name, '/') == NULL && strncmp(why, name, length) == 0 && strstr(why, "No such file") != NULL) return;
    fault(s, name, why);
    return;
  }
  const char *missing = resolve_symbols(s->what->symbols, handle, s->table);
  if (missing != NULL) {
    char why[256];
    snprintf(why, sizeof why, "has no function `%s`: it is of another version than this program knows", missing);
    fault(s, dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name, why);
    dlclose(handle);
    return;
  }
  *s->path = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : s->what->names[0];
  s->found = true;
}

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Returns whether a file has one of the requested names. */
static bool is_asked_for(const tri_gpu_library *what, const char *file) {
  for (const char *const *name = what->names; *name != NULL; name++) {
    if (strcmp(*name, file) == 0) return true;
  }
  return false;
}

/* Records files of the preferred name, in a folder, that have a version number that was not requested. */
static void note_others(search *s, const char *folder) {
  char pattern[TRI_PATH_BYTES];
  glob_t found;
  const char *name = s->what->names[0], *end = strstr(name, ".so");
  int written = snprintf(pattern, sizeof pattern, "%s/%.*s.so.*", folder, end == NULL ? 0 : (int)(end - name), name);
  if (end == NULL || written >= (int)sizeof pattern || glob(pattern, 0, NULL, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; i++) {
    const char *slash = strrchr(found.gl_pathv[i], '/');
    if (!is_asked_for(s->what, slash + 1)) append(s->others, sizeof s->others, ", ", found.gl_pathv[i]);
  }
  globfree(&found);
}

/* Tries the requested names in a folder, and adds the folder to `places`. Does nothing if a library is found already or
 * if there is no such folder. */
static void try_folder(search *s, const char *folder) {
  char path[TRI_PATH_BYTES];
  if (s->found || !tri_path_is_directory(folder)) return;
  append(s->places, sizeof s->places, ", ", folder);
  for (const char *const *name = s->what->names; *name != NULL && !s->found; name++) {
    int written = snprintf(path, sizeof path, "%s/%s", folder, *name);
    if (written < (int)sizeof path && access(path, F_OK) == 0) try_open(s, path);
  }
}

static int newer_first(const void *a, const void *b) { return strverscmp(*(char *const *)b, *(char *const *)a); }

/* Visits the folders that match a pattern, in descending order of the version in their names. */
static void each_folder(search *s, const char *pattern, void (*visit)(search *s, const char *folder)) {
  glob_t found;
  if (s->found || glob(pattern, 0, NULL, &found) != 0) return;
  qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, newer_first);
  for (size_t i = 0; i < found.gl_pathc && !s->found; i++) visit(s, found.gl_pathv[i]);
  globfree(&found);
}

/* Visits the folders below `root` that match the pattern `rest`. */
static void try_below(search *s, const char *root, const char *rest, void (*visit)(search *s, const char *folder)) {
  char pattern[TRI_PATH_BYTES];
  int written = snprintf(pattern, sizeof pattern, "%s/%s", root, rest);
  if (written < (int)sizeof pattern) each_folder(s, pattern, visit);
}

/* Tries a folder below the one that an environment variable names. */
static void try_variable(search *s, const char *name, const char *rest) {
  const char *root = getenv(name);
  if (root != NULL && root[0] != '\0') try_below(s, root, rest, try_folder);
}

/* Tries the folders of toolkits. */
static void try_toolkits(search *s) {
  static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "HIP_PATH"};
  for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
    try_variable(s, variables[i], "lib64");
    try_variable(s, variables[i], "lib");
  }
  for (const char *const *folder = s->what->folders; folder != NULL && *folder != NULL; folder++)
    each_folder(s, *folder, try_folder);
}

/* ---- Python's packages ------------------------------------------------------------------------------------------- */

/* Tries the folders of packages below a site-packages folder. */
static void try_site(search *s, const char *site) {
  for (const char *const *wheel = s->what->wheels; *wheel != NULL && !s->found; wheel++)
    try_below(s, site, *wheel, try_folder);
}

/* Tries the packages of the Python environment that a variable names. */
static void try_environment(search *s, const char *variable) {
  const char *root = getenv(variable);
  if (root == NULL || root[0] == '\0') return;
  try_below(s, root, "lib/python3*/site-packages", try_site);
  try_below(s, root, "lib", try_folder); /* conda's own packages */
}

/* Searches the folders of python3, but only if the library has not been found elsewhere: python3 takes a moment to
 * start. */
static void try_python(search *s) {
  char *folders = NULL;
  if (s->found || tri_python_path(&folders) != TRI_OK) return;
  char *rest = folders;
  for (char *folder = strtok_r(folders, "\n", &rest); folder != NULL; folder = strtok_r(NULL, "\n", &rest)) {
    if (folder[0] == '/') try_site(s, folder);
  }
  tri_free(folders);
}

/* ---- all places -------------------------------------------------------------------------------------------------- */

/* Records libraries of other versions in the loader's folders, as far as these are known. */
static void note_others_of_loader(search *s) {
  static const char *const usual[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
                                      "/usr/lib", "/usr/local/lib"};
  const char *set = getenv("LD_LIBRARY_PATH");
  char list[TRI_PATH_BYTES];
  for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) note_others(s, usual[i]);
  snprintf(list, sizeof list, "%s", set == NULL ? "" : set);
  char *rest = list;
  for (char *folder = strtok_r(list, ":", &rest); folder != NULL; folder = strtok_r(NULL, ":", &rest))
    note_others(s, folder);
}

/* Records libraries of other versions in the folders that the search has visited. */
static void note_others_of_places(search *s) {
  char list[sizeof s->places];
  snprintf(list, sizeof list, "%s", s->places);
  char *rest = list;
  for (char *folder = strtok_r(list, ",", &rest); folder != NULL; folder = strtok_r(NULL, ",", &rest))
    note_others(s, folder + (folder[0] == ' '));
}

/* Fails with TRI_UNSUPPORTED, and tells the reason: why the files that were found cannot be used, or which other
 * versions exist, or where the library was looked for. */
static tri_status tell(search *s) {
  char names[256] = "";
  for (const char *const *name = s->what->names; *name != NULL; name++) append(names, sizeof names, ", ", *name);
  if (s->faults[0] != '\0') {
    return tri_fail(TRI_UNSUPPORTED, "%s cannot be used: %s. %s", s->what->what, s->faults, s->what->how);
  }
  note_others_of_loader(s);
  note_others_of_places(s);
  if (s->others[0] != '\0') {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is there only in versions that this program does not know (%s); it takes %s. %s", s->what->what,
                    s->others, names, s->what->how);
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "%s was not found: looked for %s where the loader looks (LD_LIBRARY_PATH, ldconfig)%s%s%s. %s",
                  s->what->what, names, s->places[0] == '\0' ? "" : ", in ", s->places,
                  s->what->wheels == NULL ? "" : " and in Python's site-packages", s->what->how);
}

tri_status tri_gpu_library_open(const tri_gpu_library *what, void *table, const char **path) {
  search s = {.what = what, .table = table, .path = path};
  for (const char *const *name = what->names; *name != NULL && !s.found; name++) try_open(&s, *name);
  try_toolkits(&s);
  if (what->wheels != NULL) {
    try_environment(&s, "VIRTUAL_ENV");
    try_environment(&s, "CONDA_PREFIX");
    try_python(&s);
  }
  return s.found ? TRI_OK : tell(&s);
}
