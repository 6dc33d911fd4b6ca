#include "plan/preset_file.h"

#include "config/preset.h"

#include <stdio.h>
#include <string.h>

static tri_status unknown(const tri_preset_file *kind, const char *name) {
  char all[TRI_PRESET_ALL_BYTES], nearest[TRI_PRESET_NAME_BYTES], excerpt[TRI_YAML_EXCERPT_BYTES], meant[128] = "";
  tri_preset_suggest(kind->folder, name, all, nearest);
  tri_yaml_excerpt(name, excerpt);
  if (all[0] == '\0') {
    return tri_fail(TRI_BAD_CONFIG,
                    "there is no %s `%s`: none were found; set TRIREME_CONFIGS to Trireme's folder `configs`",
                    kind->noun, excerpt);
  }
  if (nearest[0] != '\0') snprintf(meant, sizeof meant, "did you mean `%s`? ", nearest);
  return tri_fail(TRI_BAD_CONFIG, "there is no %s `%s`; %sThere are %s (a file's name ends in .yaml)", kind->noun,
                  excerpt, meant, all);
}

tri_status tri_preset_file_load(const tri_preset_file *kind, const char *name_or_file, void *values, char *name,
                                size_t bytes) {
  char path[TRI_PATH_BYTES];
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  if (tri_preset_is_path(name_or_file)) {
    snprintf(path, sizeof path, "%s", name_or_file);
    if (!tri_path_exists(path)) return tri_fail(TRI_BAD_CONFIG, "there is no %s file %s", kind->noun, path);
  } else if (!tri_preset_find(kind->folder, name_or_file, path)) {
    return unknown(kind, name_or_file);
  }
  TRI_TRY(tri_yaml_create(&tree));
  tri_status status = tri_yaml_read(tree, path, &root);
  if (status == TRI_OK) status = tri_config_read(kind->table, tree, root, values);
  bool named = status == TRI_OK && tri_yaml_find(root, "name") != NULL;
  tri_yaml_destroy(tree);
  TRI_TRY(status);
  if (named) return TRI_OK;
  const char *slash = strrchr(path, '/');
  snprintf(name, bytes, "%.*s", (int)strcspn(slash == NULL ? path : slash + 1, "."), slash == NULL ? path : slash + 1);
  return TRI_OK;
}
