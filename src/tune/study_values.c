#include "tune/study_values.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 1024 };

static tri_status join(tri_yaml_tree *tree, tri_yaml *entry, const tri_yaml *list) {
  char text[LONGEST] = "";
  size_t length = 0;
  tri_yaml *joined = NULL;
  for (const tri_yaml *item = list->first; item != NULL; item = item->next) {
    if (item->kind != TRI_YAML_SCALAR || item->text[0] == '\0' || strpbrk(item->text, " ,\t\n") != NULL) {
      return tri_yaml_fail(item, "a value of `space`", " is not a single number or word; write values: [1, 2, 4]");
    }
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", length == 0 ? "" : " ", item->text);
    if (length >= sizeof text) return tri_yaml_fail(list, "`values`", " has more than %d characters", LONGEST - 1);
  }
  TRI_TRY(tri_yaml_make(tree, list, text, &joined));
  return tri_yaml_put(tree, entry, "values", joined);
}

static tri_status join_of(tri_yaml_tree *tree, tri_yaml *entry) {
  if (entry->kind != TRI_YAML_MAPPING) return TRI_OK;
  const tri_yaml *values = tri_yaml_find(entry, "values");
  if (values == NULL || values->kind != TRI_YAML_LIST) return TRI_OK;
  return join(tree, entry, values);
}

tri_status tri_study_join_values(tri_yaml_tree *tree, tri_yaml *root) {
  if (root->kind != TRI_YAML_MAPPING) return TRI_OK;
  const tri_yaml *space = tri_yaml_find(root, "space");
  if (space == NULL || space->kind != TRI_YAML_LIST) return TRI_OK;
  for (tri_yaml *entry = space->first; entry != NULL; entry = entry->next) TRI_TRY(join_of(tree, entry));
  return TRI_OK;
}
