#include "plan/preset_file.h"

#include "base/memory.h"
#include "config/preset.h"
#include "files/file.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static tri_status unknown(const tri_preset_file *kind, const char *name) {
  char all[TRI_PRESET_ALL_BYTES], nearest[TRI_PRESET_NAME_BYTES], excerpt[TRI_YAML_EXCERPT_BYTES], meant[128] = "they";
  tri_preset_suggest(kind->folder, name, all, nearest);
  tri_yaml_excerpt(name, excerpt);
  if (all[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "cannot find the %s `%s`, because the presets are not installed; set TRIREME_CONFIGS to Trireme's "
                    "folder `configs`",
                    kind->noun, excerpt);
  }
  if (nearest[0] != '\0') snprintf(meant, sizeof meant, "did you mean `%s`? They", nearest);
  return tri_fail(TRI_BAD_CONFIG, "there is no %s `%s`; %s are %s (a file's name ends in .yaml)", kind->noun, excerpt,
                  meant, all);
}

/* Returns whether the list `also` of a file has the name. */
static bool has_also(const tri_yaml *root, const char *name) {
  if (root->kind != TRI_YAML_MAPPING) return false;
  const tri_yaml *also = tri_yaml_find(root, "also");
  for (const tri_yaml *item = also == NULL ? NULL : also->first; item != NULL; item = item->next) {
    if (item->kind == TRI_YAML_SCALAR && strcasecmp(item->text, name) == 0) return true;
  }
  return false;
}

static bool is_also(const char *path, const char *name) {
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  if (tri_yaml_create(&tree) != TRI_OK) return false;
  const bool found = tri_yaml_read(tree, path, &root) == TRI_OK && has_also(root, name);
  tri_yaml_destroy(tree);
  return found;
}

/* Sets `path` to the path of the preset that lists the name in `also`; to "" if none does. Fails with TRI_BAD_CONFIG
 * if several presets list it. */
static tri_status find_also(const tri_preset_file *kind, const char *name, char path[TRI_PATH_BYTES]) {
  static _Thread_local char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  char found[256] = "", one[TRI_PATH_BYTES];
  int count = 0;
  path[0] = '\0';
  const size_t all = kind->also ? tri_preset_list(kind->folder, names) : 0;
  for (size_t i = 0; i < all; i++) {
    if (!tri_preset_find(kind->folder, names[i], one) || !is_also(one, name)) continue;
    const size_t held = strlen(found);
    snprintf(found + held, sizeof found - held, "%s%s", count == 0 ? "" : " or ", names[i]);
    snprintf(path, TRI_PATH_BYTES, "%s", one);
    count++;
  }
  if (count < 2) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "the %s `%s` is ambiguous: it is %s; name one of them", kind->noun, name, found);
}

/* Sets kind->about to the first sentence of the comment at the top of a file, without its period. */
static void read_about(const tri_preset_file *kind, const char *path) {
  enum { HEAD_BYTES = 1 << 16 };
  char *text = NULL, *rest = NULL;
  size_t held = 0;
  if (kind->about == NULL) return;
  kind->about[0] = '\0';
  if (tri_file_read(path, HEAD_BYTES, &text, NULL) != TRI_OK) return;
  for (char *line = strtok_r(text, "\n", &rest); line != NULL && *line == '#'; line = strtok_r(NULL, "\n", &rest)) {
    line += 1 + strspn(line + 1, " ");
    const char *end = strstr(line, ". ");
    const int length = end != NULL ? (int)(end - line) : (int)strlen(line);
    if (held + (size_t)length + 2 > kind->about_bytes) break;
    held +=
        (size_t)snprintf(kind->about + held, kind->about_bytes - held, "%s%.*s", held == 0 ? "" : " ", length, line);
    if (end != NULL || kind->about[held - 1] == '.') break;
  }
  if (held > 0 && kind->about[held - 1] == '.') kind->about[held - 1] = '\0';
  tri_free(text);
}

tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes) {
  char path[TRI_PATH_BYTES];
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  if (tri_preset_is_path(kind->folder, name_or_file)) {
    snprintf(path, sizeof path, "%s", name_or_file);
    if (!tri_path_exists(path)) return tri_fail(TRI_BAD_CONFIG, "there is no %s file %s", kind->noun, path);
  } else if (!tri_preset_find(kind->folder, name_or_file, path)) {
    TRI_TRY(find_also(kind, name_or_file, path));
    if (path[0] == '\0') return unknown(kind, name_or_file);
  }
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_read(tree, path, &root);
  if (status == TRI_OK) status = tri_config_read(kind->table, tree, root, values);
  if (status == TRI_OK && tri_yaml_find(root, "name") == NULL) {
    const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
    snprintf(name, bytes, "%.*s", (int)strcspn(file, "."), file);
  }
  if (status == TRI_OK && kind->complete != NULL) kind->complete(root, values);
  if (status == TRI_OK && kind->check != NULL) status = tri_config_blame(root, kind->check(values));
  tri_yaml_destroy(tree);
  TRI_TRY(status);
  read_about(kind, path);
  return TRI_OK;
}
