#include "checkpoint/peft_targets.h"

#include "base/python_pattern.h"
#include "checkpoint/folder.h"
#include "checkpoint/peft.h"
#include "files/json_reader.h"
#include "model/family.h"
#include "model/module_names.h"
#include "model/trainable_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT_BYTES = 1 << 24 };

/* ---- the keys ---------------------------------------------------------------------------------------------------- */

/* Returns whether a module's name is `word` or ends in it after a dot: "q_proj" or "self_attn.q_proj" for
 * "model.layers.0.self_attn.q_proj". */
static bool ends_in(const char *module, const char *word) {
  const size_t length = strlen(module), tail = strlen(word);
  return length >= tail && strcmp(module + length - tail, word) == 0 &&
         (length == tail || module[length - tail - 1] == '.');
}

/* Returns whether a key's value names a module; sets *whole to whether it does so by the whole name. Returns
 * `otherwise` for a pattern that cannot be translated. */
static bool is_named(const json_t *value, const char *module, bool otherwise, bool *whole) {
  const char *pattern = json_string_value(value);
  const json_t *entry = NULL;
  bool found = false;
  size_t i = 0;
  *whole = pattern != NULL;
  if (pattern != NULL) return tri_python_pattern_matches(pattern, module, otherwise);
  json_array_foreach(value, i, entry) {
    const char *word = json_string_value(entry);
    if (word == NULL || !ends_in(module, word)) continue;
    found = true;
    *whole = *whole || strcmp(word, module) == 0;
  }
  return found;
}

/* Returns the layer of a module: the first number in its name that follows one of `patterns`; without patterns, the
 * first number that follows at least two other parts. Returns -1 if the name has no such number. */
static int64_t layer_of(const char *module, const json_t *patterns) {
  const json_t *one = NULL;
  size_t i = 0;
  const bool any = json_array_size(patterns) == 0 && json_string_length(patterns) == 0;
  for (const char *dot = strchr(module, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
    char *end = NULL, before[TRI_PEFT_NAME_BYTES];
    const long long number = strtoll(dot + 1, &end, 10);
    if (end == dot + 1 || *end != '.') continue;
    snprintf(before, sizeof before, "%.*s", (int)(dot - module), module);
    if (any && strchr(before, '.') != NULL) return number;
    if (json_is_string(patterns) && ends_in(before, json_string_value(patterns))) return number;
    json_array_foreach(patterns, i, one) {
      if (json_is_string(one) && ends_in(before, json_string_value(one))) return number;
    }
  }
  return -1;
}

static bool is_of_layers(const json_t *layers, int64_t layer) {
  const json_t *one = NULL;
  size_t i = 0;
  if (json_is_integer(layers)) return json_integer_value(layers) == layer;
  json_array_foreach(layers, i, one) {
    if (json_integer_value(one) == layer) return true;
  }
  return false;
}

/* Returns whether a module may be tied to another one: ensure_weight_tying is set, and the module is outside of the
 * layers. PEFT keeps only one of two tied modules among the targets. */
static bool is_tied(const json_t *config, const char *module) {
  return json_is_true(json_object_get(config, "ensure_weight_tying")) && layer_of(module, NULL) < 0;
}

/* Returns the key that excludes a module from having factors; NULL if the module has factors. */
static const char *left_out_by(const json_t *config, const char *module) {
  const json_t *targets = json_object_get(config, "target_modules"),
               *excluded = json_object_get(config, "exclude_modules"),
               *layers = json_object_get(config, "layers_to_transform");
  bool whole = false;
  if (is_named(excluded, module, false, &whole)) return "exclude_modules";
  if (is_tied(config, module)) return NULL;
  if (!json_is_string(targets) && !json_is_array(targets))
    return NULL; /* PEFT then has targets of its own for the model_type, which are not checked here */
  if (json_is_string(targets) && strcmp(json_string_value(targets), TRI_TRAINABLE_ALL_LINEAR) == 0) return NULL;
  if (!is_named(targets, module, true, &whole)) return "target_modules";
  if (whole || !(json_is_integer(layers) || json_array_size(layers) > 0)) return NULL;
  return is_of_layers(layers, layer_of(module, json_object_get(config, "layers_pattern"))) ? NULL
                                                                                           : "layers_to_transform";
}

/* Returns whether factors of a module belong to the stacked parameters of a layer's experts: the module is `experts` or
 * its base layer, and `target_parameters` names one of these parameters. */
static bool are_parameters(const json_t *config, const char *module) {
  static const char *const parameters[] = {"gate_up_proj", "down_proj"};
  const json_t *targets = json_object_get(config, "target_parameters");
  const char *end = strstr(module, ".experts");
  char name[TRI_PEFT_NAME_BYTES];
  bool whole = false;
  if (end == NULL || !(strcmp(end, ".experts") == 0 || strcmp(end, ".experts.base_layer") == 0)) return false;
  for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
    snprintf(name, sizeof name, "%.*s.experts.%s", (int)(end - module), module, parameters[i]);
    if (json_is_array(targets) && is_named(targets, name, false, &whole)) return true;
  }
  return false;
}

/* Writes the name of a module's weight, and returns whether `target_parameters` names it. */
static bool is_parameter(const json_t *config, const char *module, char name[2 * TRI_PEFT_NAME_BYTES]) {
  const json_t *targets = json_object_get(config, "target_parameters");
  bool whole = false;
  snprintf(name, 2 * TRI_PEFT_NAME_BYTES, "%s.weight", module);
  return json_is_array(targets) && is_named(targets, name, false, &whole);
}

/* Refuses patterns that match a weight in `target_parameters`, because PEFT compares patterns with the name of the
 * weight instead of the module's. */
static tri_status check_pattern(const char *file, const tri_adapter *settings, const char *module, const char *weight) {
  const tri_adapter_patterns *const patterns[] = {&settings->rank_pattern, &settings->alpha_pattern};
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    if (tri_trainable_pattern_of(patterns[i], module) < 0 && tri_trainable_pattern_of(patterns[i], weight) < 0)
      continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `target_parameters` of %s names %.200s, and `%s` has a pattern for it, which is not read "
                    "here; merge this adapter with PEFT's merge_and_unload and use the resulting model",
                    file, TRI_FILE_ADAPTER_CONFIG, weight, i == 0 ? "rank_pattern" : "alpha_pattern");
  }
  return TRI_OK;
}

static tri_status check_parameter(const char *file, const char *weight, const tri_model *base) {
  if (!tri_family_of(base)->blocks.in_out) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: `target_parameters` of %s names %.200s, a matrix [in, out], and factors of such a parameter are "
                  "not read here; merge this adapter with PEFT's merge_and_unload and use the resulting model, or "
                  "train it again with `target_modules`",
                  file, TRI_FILE_ADAPTER_CONFIG, weight);
}

/* ---- the tensors ------------------------------------------------------------------------------------------------- */

static tri_status check_tensor(const tri_checkpoint_entry *entry, const json_t *config, const tri_model *base) {
  const char *name = entry->tensor->name, *own = tri_peft_own_name(name), *factor = strstr(own, ".lora_");
  char module[TRI_PEFT_NAME_BYTES], wanted[TRI_PEFT_NAME_BYTES], weight[2 * TRI_PEFT_NAME_BYTES];
  if (own == name) {
    tri_peft_name(name, wanted);
    return tri_fail(TRI_BAD_FILE,
                    "%s: PEFT ignores the tensor `%.200s`, because its name must be `%s`; save the adapter with PEFT, "
                    "or rename its tensors",
                    entry->file, name, wanted);
  }
  if (factor == NULL) return TRI_OK;
  snprintf(module, sizeof module, "%.*s", (int)(factor - own), own);
  if (are_parameters(config, module)) return TRI_OK;
  if (is_parameter(config, module, weight)) return check_parameter(entry->file, weight, base);
  const char *key = left_out_by(config, module);
  if (key == NULL) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "%s: PEFT ignores the tensor `%.200s`, because `%s` of %s does not include its module; correct that, "
                  "or remove such tensors",
                  entry->file, name, key, TRI_FILE_ADAPTER_CONFIG);
}

static tri_status load(const char *folder, json_t **out) {
  return tri_json_read_in(folder, TRI_FILE_ADAPTER_CONFIG, CONFIG_LIMIT_BYTES, out);
}

tri_status tri_peft_saves(const char *folder, const char *tensor, bool *out) {
  json_t *config = NULL, *entry = NULL;
  char module[TRI_PEFT_NAME_BYTES], word[TRI_PEFT_NAME_BYTES];
  size_t i = 0;
  *out = false;
  tri_module_names(tensor, module, sizeof module);
  module[tri_trainable_module_length(module)] = '\0';
  TRI_TRY(load(folder, &config));
  json_array_foreach(json_object_get(config, "modules_to_save"), i, entry) {
    if (!json_is_string(entry)) continue;
    tri_module_names(json_string_value(entry), word, sizeof word);
    const size_t length = strlen(module), tail = strlen(word);
    *out = *out || (tail <= length && strcmp(module + length - tail, word) == 0);
  }
  json_decref(config);
  return TRI_OK;
}

tri_status tri_peft_check_parameters(const tri_checkpoint *adapter, const tri_adapter *settings) {
  json_t *config = NULL;
  tri_status status = load(tri_checkpoint_path(adapter), &config);
  const bool ours = json_object_get(config, "trireme") != NULL; /* the patterns of our adapters match modules */
  for (int64_t i = 0; status == TRI_OK && !ours && i < tri_checkpoint_num_tensors(adapter); i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(adapter, i);
    const char *own = tri_peft_own_name(entry.tensor->name), *factor = strstr(own, ".lora_");
    char module[TRI_PEFT_NAME_BYTES], weight[2 * TRI_PEFT_NAME_BYTES];
    if (factor == NULL) continue;
    snprintf(module, sizeof module, "%.*s", (int)(factor - own), own);
    if (are_parameters(config, module) || !is_parameter(config, module, weight)) continue;
    status = check_pattern(entry.file, settings, module, weight);
  }
  json_decref(config);
  return status;
}

/* Returns the key that makes PEFT refuse or misread a module's weight in `target_parameters`; NULL: none. */
static const char *in_the_way(const json_t *config, const char *module) {
  static const char *const patterns[] = {"rank_pattern", "alpha_pattern"};
  const char *key = NULL;
  json_t *value = NULL;
  for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
    json_object_foreach(json_object_get(config, patterns[i]), key, value) {
      if (tri_python_pattern_ends(key, module)) return patterns[i];
    }
  }
  if (json_is_true(json_object_get(config, "use_dora"))) return "use_dora";
  return json_number_value(json_object_get(config, "lora_dropout")) > 0 ? "lora_dropout" : NULL;
}

tri_status tri_peft_check_written(const char *folder) {
  json_t *config = NULL, *entry = NULL;
  size_t i = 0;
  tri_status status = load(folder, &config);
  json_array_foreach(json_object_get(config, "target_parameters"), i, entry) {
    char module[TRI_PEFT_NAME_BYTES];
    const char *name = json_string_value(entry), *end = name == NULL ? NULL : strrchr(name, '.');
    if (status != TRI_OK || end == NULL || strcmp(end, ".weight") != 0) continue;
    snprintf(module, sizeof module, "%.*s", (int)(end - name), name);
    const char *key = in_the_way(config, module);
    if (key == NULL) continue;
    status = tri_fail(TRI_UNSUPPORTED,
                      "%s has factors of %.100s, which PEFT has in models with experts by `target_parameters` alone, "
                      "and `%s` of %s is not for these; write a model with --merge",
                      folder, module, key, TRI_FILE_ADAPTER_CONFIG);
  }
  json_decref(config);
  return status;
}

tri_status tri_peft_check_targets(const tri_checkpoint *adapter, const tri_model *base) {
  json_t *config = NULL;
  tri_status status = load(tri_checkpoint_path(adapter), &config);
  /* In our adapters, the tensors in the file are the trained ones. */
  const bool own = json_object_get(config, "trireme") != NULL;
  for (int64_t i = 0; status == TRI_OK && !own && i < tri_checkpoint_num_tensors(adapter); i++) {
    const tri_checkpoint_entry entry = tri_checkpoint_get_entry(adapter, i);
    status = check_tensor(&entry, config, base);
  }
  json_decref(config);
  return status;
}
