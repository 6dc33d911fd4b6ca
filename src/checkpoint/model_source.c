#include "checkpoint/model_source.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/parent.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface.h"
#include "config/preset.h"
#include "files/file.h"
#include "files/hub.h"
#include "model/model_config.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- from a folder to keys --------------------------------------------------------------------------------------- */

static void drop_key(tri_yaml *mapping, const char *key) {
  tri_yaml *before = NULL;
  for (tri_yaml *child = mapping->first; child != NULL; before = child, child = child->next) {
    if (strcmp(child->key, key) != 0) continue;
    if (before == NULL) mapping->first = child->next;
    if (before != NULL) before->next = child->next;
    if (mapping->last == child) mapping->last = before;
    return;
  }
}

/* Drops keys of a folder's mapping whose values follow from others. A preset has only the values that differ from
 * defaults, so another num_heads also changes head_dim; a folder, whose config.json has all values, must behave the
 * same. */
static void drop_derived(tri_yaml *mapping, const tri_model *m) {
  for (size_t i = 0; i < tri_model_table.num_keys; i++) {
    const tri_config_key *key = &tri_model_table.keys[i];
    if (tri_model_is_derived(m, key)) drop_key(mapping, key->name);
  }
}

/* Names a model after its folder if config.json has no name. A name that YAML cannot print becomes "model". */
static void name_model(const char *folder, tri_model *model) {
  char path[TRI_PATH_BYTES];
  if (strcmp(model->name, "inline") == 0) {
    const size_t hub = tri_path_exists(folder)
                           ? 0
                           : tri_hub_name_length(folder); /* length of a name on the hub without its revision */
    snprintf(path, sizeof path, "%.*s", hub > 0 ? (int)hub : TRI_PATH_BYTES, folder);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') path[--length] = '\0';
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    bool says = name[0] != '\0' && name[0] != '.' && strncmp(name, "step-", 5) != 0 && strcmp(name, "checkpoints") != 0;
    if (says) snprintf(model->name, sizeof model->name, "%.*s", (int)sizeof model->name - 1, name);
  }
  if (!tri_yaml_is_printable(model->name)) snprintf(model->name, sizeof model->name, "model");
}

/* Loads the model of a folder, and names it (name_model); sets `folder` to the folder with the config.json. */
static tri_status load_folder(const char *given, char folder[TRI_PATH_BYTES], tri_model *out) {
  TRI_TRY(tri_checkpoint_find(given, &(tri_checkpoint_use){.settings_only = true}, folder));
  TRI_TRY(tri_huggingface_load(folder, out));
  name_model(given, out);
  return TRI_OK;
}

/* Returns whether this process is a rank of a job. Ranks log nothing here, because their launcher has done so. */
static bool is_a_rank(void) { return getenv(TRI_LAUNCHED) != NULL; }

static tri_status expand_folder(tri_yaml_tree *tree, const tri_yaml *reference, tri_yaml **out_mapping) {
  char folder[TRI_PATH_BYTES], config[TRI_PATH_BYTES], *text = NULL;
  tri_model model;
  tri_yaml *mapping = NULL;
  tri_status status = load_folder(reference->text, folder, &model);
  if (status != TRI_OK && reference->line > 0) {
    return tri_fail(status, "%s (`model:` at line %d of %s)", tri_status_message(), reference->line, reference->source);
  }
  TRI_TRY(status);
  TRI_TRY(tri_path_join(config, folder, TRI_FILE_CONFIG));
  if (!is_a_rank()) tri_huggingface_note(folder, true);
  TRI_TRY(tri_model_print(&model, &text));
  /* parse the text like an option, because its lines are not in a file */
  status = tri_yaml_parse(tree, config, true, text, strlen(text), &mapping);
  tri_free(text);
  TRI_TRY(status);
  drop_derived(mapping, &model);
  *out_mapping = mapping;
  return TRI_OK;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static void warn_of_shadowed_path(const char *name) {
  tri_model model;
  char folder[TRI_PATH_BYTES];
  if (is_a_rank() || load_folder(name, folder, &model) != TRI_OK) return;
  tri_warn("the model `%s` is the preset; for the folder of that name write ./%s", name, name);
}

/* Reads the next word of a name in lower case. A word ends at one of - . _ / @ and between a letter and a digit:
 * "llama", "3", "8b". Returns false at the end. */
static bool next_word(const char **at, char word[TRI_PRESET_NAME_BYTES]) {
  size_t length = 0;
  while (**at != '\0' && strchr("-._/@", **at) != NULL) ++*at;
  while (**at != '\0' && strchr("-._/@", **at) == NULL) {
    if (length + 1 < TRI_PRESET_NAME_BYTES) word[length++] = (char)tolower((unsigned char)**at);
    ++*at;
    if (isalpha((unsigned char)(*at)[-1]) && isdigit((unsigned char)**at)) break;
  }
  word[length] = '\0';
  return length > 0;
}

/* Returns whether `name` has all words of `part` in their order, in any case; *count: their number.
 * `Meta-Llama-3.1-8B-Instruct` has all words of `llama-3-8b`. */
static bool has_words(const char *name, const char *part, int *count) {
  char word[TRI_PRESET_NAME_BYTES], other[TRI_PRESET_NAME_BYTES];
  *count = 0;
  while (next_word(&part, word)) {
    bool found = false;
    while (!found && next_word(&name, other)) found = strcmp(word, other) == 0;
    if (!found) return false;
    ++*count;
  }
  return true;
}

/* Returns the preset with the most words, at least two, among the presets whose words are all in a name on the hub;
 * NULL if there is no such preset. The result is in static memory. */
static const char *nearest_preset(const char *name) {
  static char names[TRI_PRESET_MOST][TRI_PRESET_NAME_BYTES];
  const size_t length = tri_hub_name_length(name), presets = length == 0 ? 0 : tri_preset_list("models", names);
  const char *slash = strchr(name, '/'), *best = NULL;
  int most = 1, count = 0;
  if (length > 0 && strcasecmp(slash, "/gpt2") == 0) return "gpt2-124m"; /* names without a size */
  if (length > 0 && strcasecmp(slash, "/gpt2-xl") == 0) return "gpt2-1.5b";
  for (size_t i = 0; i < presets; i++) {
    if (!has_words(slash + 1, names[i], &count) || count <= most) continue;
    most = count;
    best = names[i];
  }
  return best;
}

tri_status tri_model_source_expand(tri_yaml_tree *tree, const tri_yaml *reference, tri_yaml **out_mapping) {
  const char *name = reference->text;
  char path[TRI_PATH_BYTES], excerpt[TRI_YAML_EXCERPT_BYTES], advice[TRI_HUB_ADVICE_BYTES];
  TRI_TRY(tri_hub_resolve(name, path));
  bool is_folder = tri_path_is_directory(path), is_path = tri_preset_is_path("models", name);
  if (!is_path && tri_preset_find("models", name, path)) {
    if (is_folder) warn_of_shadowed_path(name);
    return tri_model_expand(tree, reference, out_mapping);
  }
  if (is_folder) return expand_folder(tree, reference, out_mapping);
  if (tri_path_exists(name) && tri_ends_with(name, TRI_FILE_CONFIG)) {
    return tri_yaml_fail(reference, "the model", " is a %s; name the folder that it is in: %.*s", TRI_FILE_CONFIG,
                         is_path ? (int)(strlen(name) - strlen(TRI_FILE_CONFIG)) : 1, is_path ? name : ".");
  }
  if (is_path && !tri_path_exists(name) && !tri_ends_with(name, ".yaml") && !tri_ends_with(name, ".yml")) {
    const char *preset = nearest_preset(name);
    return tri_yaml_fail(
        reference, "the model",
        " is neither an existing folder nor an existing file: %s (relative to the current directory)%s%s%s%s",
        tri_yaml_excerpt(name, excerpt), preset == NULL ? "" : "; its architecture is the preset `",
        preset == NULL ? "" : preset, preset == NULL ? "" : "`", tri_hub_advice(name, advice));
  }
  return tri_model_expand(tree, reference, out_mapping);
}

tri_status tri_model_source_load(const char *name, tri_model *out) {
  return tri_model_load_by(tri_model_source_expand, name, out);
}
