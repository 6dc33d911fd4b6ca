#include "report/differing_keys.h"

#include "config/yaml.h"
#include "files/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 256 };

static bool is_left_out(const char *key) { return strcmp(key, "output") == 0 || strcmp(key, "model.name") == 0; }

/* Returns a node's flow form as a new string; NULL without memory, and if the text is not UTF-8. */
static json_t *flow_text(const tri_yaml *node) {
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (to == NULL) return NULL;
  tri_yaml_write_flow(node, to);
  json_t *string = fclose(to) == 0 ? json_string(text) : NULL;
  free(text);
  return string;
}

/* Adds the values below a mapping under their full names. The recursion is at most TRI_YAML_MAX_DEPTH deep. */
/* NOLINTNEXTLINE(misc-no-recursion) */
static void flatten(const tri_yaml *mapping, const char *name, json_t *out) {
  char below[KEY_BYTES];
  for (const tri_yaml *child = mapping->first; child != NULL; child = child->next) {
    const int length = snprintf(below, sizeof below, "%s%s%s", name, name[0] == '\0' ? "" : ".", child->key);
    if (length >= (int)sizeof below || is_left_out(below)) continue;
    if (child->kind == TRI_YAML_MAPPING) {
      flatten(child, below, out);
    } else {
      json_object_set_new(out, below, flow_text(child));
    }
  }
}

/* Returns a new object with the values of a run by their full names; an empty one if the file cannot be read, and NULL
 * if memory is exhausted. */
static json_t *read_values(const char *folder) {
  char path[TRI_PATH_BYTES];
  tri_yaml_tree *tree = NULL;
  tri_yaml *root = NULL;
  json_t *values = json_object();
  if (values == NULL || tri_path_join(path, folder, "config.yaml") != TRI_OK) return values;
  if (tri_yaml_create(&tree) != TRI_OK) return values;
  if (tri_yaml_read(tree, path, &root) == TRI_OK && root->kind == TRI_YAML_MAPPING) flatten(root, "", values);
  tri_yaml_destroy(tree);
  return values;
}

/* Returns whether a key has two values. `runs`: the values of each run. */
static bool differs(const json_t *runs, const char *key) {
  const json_t *first = NULL;
  for (size_t r = 0; r < json_array_size(runs); r++) {
    const json_t *value = json_object_get(json_array_get(runs, r), key);
    if (first == NULL) first = value;
    if (value != NULL && !json_equal(value, first)) return true;
  }
  return false;
}

static tri_status add_key(const json_t *runs, const char *key, json_t *out) {
  json_t *list = json_array();
  for (size_t r = 0; list != NULL && r < json_array_size(runs); r++) {
    json_t *value = json_object_get(json_array_get(runs, r), key);
    json_array_append_new(list, value == NULL ? json_null() : json_incref(value));
  }
  if (json_object_set_new(out, key, list) == 0) return TRI_OK;
  return tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the keys of runs");
}

tri_status tri_differing_keys(const char *const *folders, int64_t num_folders, json_t **out) {
  json_t *runs = json_array(), *found = json_object();
  tri_status status = TRI_OK;
  for (int64_t r = 0; r < num_folders && status == TRI_OK; r++) {
    if (json_array_append_new(runs, read_values(folders[r])) != 0)
      status = tri_fail(TRI_OUT_OF_MEMORY, "out of memory: the keys of runs");
  }
  for (size_t r = 0; r < json_array_size(runs) && status == TRI_OK; r++) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach(json_array_get(runs, r), key, value) {
      if (json_object_get(found, key) == NULL && differs(runs, key)) status = add_key(runs, key, found);
      if (status != TRI_OK) break;
    }
  }
  json_decref(runs);
  if (status == TRI_OK) {
    *out = found;
  } else {
    json_decref(found);
  }
  return status;
}
