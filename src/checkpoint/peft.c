#include "checkpoint/peft.h"

#include "base/memory.h"
#include "base/python_pattern.h"
#include "checkpoint/folder.h"
#include "checkpoint/huggingface_parts.h"
#include "checkpoint/peft_experts.h"
#include "checkpoint/peft_singles.h"
#include "checkpoint/state.h"
#include "config/config.h"
#include "files/file.h"
#include "files/hub.h"
#include "files/json_reader.h"
#include "model/family.h"
#include "model/module_names.h"
#include "model/trainable_experts.h"
#include "model/trainable_match.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT "trireme" /* key of our own object in adapter_config.json */

enum { CONFIG_LIMIT_BYTES = 1 << 24, MOST_RANK = 1 << 16 };

TRI_CONFIG_WORDS(quantises, tri_quantise, TRI_QUANTISES)
TRI_CONFIG_WORDS(scalings, tri_scaling, TRI_SCALINGS)

const char *tri_peft_quantise_word(tri_quantise quantise) { return quantises_word(quantise); }

/* Returns the length of "model.norm" in "model.norm.weight". */
static int module_length(const char *name) {
  const char *end = strrchr(name, '.');
  return end == NULL ? (int)strlen(name) : (int)(end - name);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Adds a word of `length` bytes, with module names as in transformers 5, if the list does not have it yet. */
static void add_word(json_t *list, const char *word, int length) {
  char own[TRI_PARAMETER_NAME_BYTES], name[TRI_PARAMETER_NAME_BYTES];
  json_t *found = NULL;
  size_t i;
  snprintf(own, sizeof own, "%.*s", length, word);
  tri_module_names(own, name, sizeof name);
  json_array_foreach(list, i, found) {
    if (strcmp(json_string_value(found), name) == 0) return;
  }
  json_array_append_new(list, json_string(name));
}

static bool has_pattern_target(const tri_adapter *adapter) {
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    if (tri_trainable_is_pattern(adapter->targets.words[i].text)) return true;
  }
  return false;
}

/* Returns `target_modules`: the last parts of modules' names; but whole names if a target is a pattern, because PEFT's
 * lists have no patterns, or if the model has experts, because their matrices have the same last parts as others. */
static json_t *targets_json(const tri_adapter *adapter, const tri_parameter_table *table, bool experts) {
  json_t *list = json_array();
  const bool whole = experts || has_pattern_target(adapter);
  for (int64_t i = 0; i < adapter->targets.count && !whole && !tri_trainable_is_for_all(adapter); i++) {
    add_word(list, adapter->targets.words[i].text, (int)strlen(adapter->targets.words[i].text));
  }
  if (json_array_size(list) > 0) return list;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (tri_trainable_is_of_experts(entry) || !tri_trainable_is_target(adapter, entry)) continue;
    if (experts && tri_peft_is_parameter(entry)) continue;
    const char *end = entry->name + module_length(entry->name), *word = end;
    while (word > entry->name && (whole || word[-1] != '.')) word--;
    add_word(list, word, (int)(end - word));
  }
  return list;
}

/* Returns whether the module of a tensor has factors. */
static bool is_of_target(const tri_adapter *adapter, const tri_parameter_table *table, const char *name) {
  const int length = module_length(name);
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (module_length(entry->name) != length || strncmp(entry->name, name, (size_t)length) != 0) continue;
    if (tri_trainable_is_target(adapter, entry)) return true;
  }
  return false;
}

/* Returns whether all tensors of a tensor's module are trained. */
static bool is_whole(const tri_adapter *adapter, const tri_parameter_table *table, const char *name) {
  const int length = module_length(name);
  for (int64_t i = 0; i < table->num_entries; i++) {
    for (int64_t t = 0, first; t < tri_parameter_num_tensors(&table->entries[i]); t++) {
      const tri_parameter tensor = tri_parameter_tensor(&table->entries[i], t, &first);
      const bool same = module_length(tensor.name) == length && strncmp(tensor.name, name, (size_t)length) == 0;
      if (same && !tensor.factor && !tri_trainable_matches(&adapter->train, tensor.name)) return false;
    }
  }
  return true;
}

/* Returns `modules_to_save`, with whole names. Modules with factors are left out, because PEFT reads their tensors by
 * the name of the base layer (tri_peft_base_layer_name). Partly trained modules are left out, because PEFT would read
 * all tensors of a module from the file; a single tensor in the file replaces the base's without the key. */
static json_t *saved_json(const tri_adapter *adapter, const tri_parameter_table *table) {
  json_t *list = json_array();
  for (int64_t i = 0; i < table->num_entries; i++) {
    for (int64_t t = 0, first; t < tri_parameter_num_tensors(&table->entries[i]); t++) {
      const tri_parameter tensor = tri_parameter_tensor(&table->entries[i], t, &first);
      if (tensor.tied_to >= 0 || !tri_trainable_matches(&adapter->train, tensor.name)) continue;
      if (tensor.placement.has_holders || is_of_target(adapter, table, tensor.name)) continue;
      if (!is_whole(adapter, table, tensor.name)) continue;
      add_word(list, tensor.name, module_length(tensor.name));
    }
  }
  if (json_array_size(list) > 0) return list;
  json_decref(list);
  return json_null();
}

/* Returns whether tied tensors are trained. */
static bool trains_tied(const tri_adapter *adapter, const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    const int64_t other = table->entries[i].tied_to;
    if (other >= 0 && tri_trainable_matches(&adapter->train, table->entries[other].name)) return true;
  }
  return false;
}

json_t *tri_peft_words_json(const tri_trainable_words *words) {
  json_t *list = json_array();
  for (int64_t i = 0; i < words->count; i++) json_array_append_new(list, json_string(words->words[i].text));
  return list;
}

static json_t *own_json(const tri_peft *peft) {
  return json_pack("{s:s, s:s, s:s, s:o, s:o}", "base", peft->signature.frame, "base_values", peft->signature.values,
                   "quantise", quantises_word(peft->adapter.quantise), "targets",
                   tri_peft_words_json(&peft->adapter.targets), "train", tri_peft_words_json(&peft->adapter.train));
}

static json_t *number_json(double value) {
  return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value) : json_real(value);
}

/* Returns PEFT's word for the initial values of A. */
static json_t *init_json(tri_adapter_init init) {
  switch (init) {
    case TRI_ADAPTER_KAIMING: break;
    case TRI_ADAPTER_GAUSSIAN: return json_string("gaussian");
    case TRI_ADAPTER_PISSA: return json_string("pissa");
  }
  return json_true();
}

/* Returns the patterns with their ranks (with their alphas if `alphas`), in their order, because the first match
 * counts. */
static json_t *patterns_json(const tri_adapter_patterns *patterns, bool alphas) {
  json_t *out = json_object();
  for (int64_t i = 0; i < patterns->count; i++) {
    const tri_adapter_pattern *entry = &patterns->entries[i];
    char pattern[2 * TRI_TRAINABLE_WORD_BYTES];
    tri_module_names(entry->pattern, pattern, sizeof pattern);
    json_object_set_new(out, pattern, alphas ? number_json(entry->alpha) : json_integer(entry->rank));
  }
  return out;
}

/* Returns the revision of a base, if the base is a name on the hub with a revision (files/hub.h); NULL for other bases.
 */
static const char *revision_of(const tri_peft *peft) {
  const size_t length = tri_hub_name_length(peft->base);
  return length > 0 && peft->base[length] == '@' && !tri_path_exists(peft->base) ? peft->base + length + 1 : NULL;
}

static json_t *base_json(const tri_peft *peft) {
  if (peft->base[0] == '\0') return json_null();
  return json_stringn(peft->base, revision_of(peft) == NULL ? strlen(peft->base) : tri_hub_name_length(peft->base));
}

static json_t *config_json(const tri_peft *peft, const tri_model *model, const tri_parameter_table *table) {
  const tri_adapter *adapter = &peft->adapter;
  const double alpha = adapter->alpha;
  return json_pack(
      "{s:o, s:n, s:o, s:s, s:b, s:n, s:b, s:b, s:o, s:n, s:n, s:n, s:{}, s:o, s:b, s:f, s:n, s:s, s:o, s:s, "
      "s:I, s:o, s:s?, s:o, s:o*, s:s, s:o, s:b, s:b}",
      "alpha_pattern", patterns_json(&adapter->alpha_pattern, true), "auto_mapping", "base_model_name_or_path",
      base_json(peft), "bias", "none", "ensure_weight_tying",
      adapter->ensure_weight_tying || trains_tied(adapter, table), "exclude_modules", "fan_in_fan_out",
      tri_family_of(model)->blocks.in_out, "inference_mode", 1, "init_lora_weights", init_json(adapter->init),
      "layer_replication", "layers_pattern", "layers_to_transform", "loftq_config", "lora_alpha", number_json(alpha),
      "lora_bias", 0, "lora_dropout", adapter->dropout, "megatron_config", "megatron_core", "megatron.core",
      "modules_to_save", saved_json(adapter, table), "peft_type", "LORA", "r", (json_int_t)adapter->rank,
      "rank_pattern", patterns_json(&adapter->rank_pattern, false), "revision", revision_of(peft), "target_modules",
      targets_json(adapter, table, model->num_experts > 0), "target_parameters",
      tri_peft_target_parameters(adapter, table), "task_type", "CAUSAL_LM", OBJECT, own_json(peft), "use_dora",
      adapter->magnitude, "use_rslora", adapter->scaling == TRI_SCALING_RSLORA);
}

tri_status tri_peft_print(const tri_peft *peft, const tri_model *model, char **out) {
  tri_parameter_table *table = NULL;
  tri_model whole = *model;
  whole.tuning = (tri_trainable){.freeze = {.count = 0}};
  TRI_TRY(tri_parameter_table_create(&whole, NULL, &table));
  json_t *document = config_json(peft, model, table);
  tri_parameter_table_destroy(table);
  char *text = document == NULL ? NULL : tri_huggingface_text(document);
  json_decref(document);
  if (text == NULL) {
    return tri_fail_internal("an adapter's description cannot be written as JSON: not UTF-8, or no memory");
  }
  tri_status status = tri_strdup(text, out);
  free(text);
  return status;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Returns whether a key is read, or has no effect once factors exist. All other keys must be empty, false or null. */
static bool is_known(const char *key) {
  static const char *const known[] = {"alpha_pattern",
                                      "auto_mapping",
                                      "base_model_name_or_path",
                                      "bias",
                                      "corda_config",
                                      "ensure_weight_tying",
                                      "eva_config",
                                      "exclude_modules",
                                      "fan_in_fan_out",
                                      "inference_mode",
                                      "init_lora_weights",
                                      "layers_pattern",
                                      "layers_to_transform",
                                      "loftq_config",
                                      "lora_alpha",
                                      "lora_dropout",
                                      "megatron_core",
                                      "modules_to_save",
                                      "peft_type",
                                      "peft_version",
                                      "qalora_group_size",
                                      "rank_pattern",
                                      "r",
                                      "revision",
                                      "runtime_config",
                                      "target_modules",
                                      "target_parameters",
                                      "task_type",
                                      "use_dora",
                                      "use_rslora",
                                      OBJECT};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(key, known[i]) == 0) return true;
  }
  return false;
}

static bool says_nothing(const json_t *value) {
  const bool empty =
      (json_is_object(value) && json_object_size(value) == 0) || (json_is_array(value) && json_array_size(value) == 0);
  return json_is_null(value) || json_is_false(value) || empty;
}

/* Returns the meaning of a refused PEFT key, for the message. */
static const char *meaning_of(const char *key) {
  static const struct {
    const char *key, *meaning;
  } rows[] = {
      {"alora_invocation_tokens", "activated LoRA, whose factors count from some token on"},
      {"arrow_config", "routing between several adapters"},
      {"bias", "biases that are trained beside factors"},
      {"init_lora_weights", "a beginning that changes the base's weights too"},
      {"kasa_config", "KaSA's singular values"},
      {"layer_replication", "layers of the base that are repeated"},
      {"lora_bias", "factors with biases"},
      {"megatron_config", "factors beside Megatron-LM's parallel layers"},
      {"monteclora_config", "MonteCLoRA's sampled factors"},
      {"peft_type", "another kind of adapter than LORA"},
      {"task_type", "another task than CAUSAL_LM"},
      {"trainable_token_indices", "trained rows of the embedding"},
      {"use_bdlora", "block-diagonal factors"},
      {"use_qalora", "QA-LoRA, whose factors see groups of inputs"},
      {"velora_config", "VeLoRA's compressed activations"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strcmp(key, rows[i].key) == 0) return rows[i].meaning;
  }
  return NULL;
}

static tri_status unsupported(const tri_json_reader *from, const char *key) {
  const char *meaning = meaning_of(key);
  char *text = json_dumps(json_object_get(from->object, key), JSON_ENCODE_ANY | JSON_COMPACT);
  tri_status status =
      tri_fail(TRI_UNSUPPORTED,
               "%s: `%.60s` is %.100s%s%s, which is not supported; only plain LoRA is. Merge this adapter with PEFT's "
               "merge_and_unload and use the resulting model",
               from->path, key, text == NULL ? "?" : text, meaning == NULL ? "" : ": ", meaning == NULL ? "" : meaning);
  free(text);
  return status;
}

/* Checks that a word is absent or the supported one. */
static tri_status check_word(const tri_json_reader *from, const char *key, const char *wanted) {
  const char *word = NULL;
  TRI_TRY(tri_reader_word(from, key, wanted, &word));
  return strcmp(word, wanted) == 0 ? TRI_OK : unsupported(from, key);
}

/* Reads init_lora_weights. Some initialisations also change the base's weights, and their factors belong to the changed
 * weights: of these only pissa is supported, and all others fail with TRI_UNSUPPORTED. pissa_niter_N subtracts a random
 * approximation that no other program can reproduce. */
static tri_status read_init(const tri_json_reader *from, tri_adapter_init *out) {
  static const char key[] = "init_lora_weights";
  const json_t *value = tri_reader_get(from, key);
  const char *word = json_string_value(value);
  if (word != NULL && strcmp(word, "gaussian") == 0) *out = TRI_ADAPTER_GAUSSIAN;
  if (word != NULL && strcmp(word, "pissa") == 0) *out = TRI_ADAPTER_PISSA;
  if (word != NULL && strncmp(word, "pissa_niter_", strlen("pissa_niter_")) == 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s` is %.60s. Its vectors are random, so the base that they were subtracted from is unknown; "
                    "save the adapter in PEFT with path_initial_model_for_weight_conversion, which makes plain LoRA, "
                    "or merge it with merge_and_unload",
                    from->path, key, word);
  }
  if (value == NULL || json_is_boolean(value)) return TRI_OK;
  static const char *const plain[] = {"gaussian", "eva", "orthogonal", "pissa"};
  for (size_t i = 0; word != NULL && i < sizeof plain / sizeof plain[0]; i++) {
    if (strcmp(word, plain[i]) == 0) return TRI_OK;
  }
  return unsupported(from, key);
}

static tri_status check_keys(const tri_json_reader *from) {
  const char *key = NULL;
  json_t *value = NULL;
  if (!json_is_object(from->object)) return tri_fail(TRI_BAD_FILE, "%s is not an object", from->path);
  if (tri_reader_get(from, "peft_type") == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has no `peft_type`: it is not an adapter's description", from->path);
  }
  TRI_TRY(check_word(from, "peft_type", "LORA"));
  TRI_TRY(check_word(from, "task_type", "CAUSAL_LM"));
  TRI_TRY(check_word(from, "bias", "none"));
  json_object_foreach((json_t *)(uintptr_t)from->object, key, value) {
    if (!is_known(key) && !says_nothing(value)) return unsupported(from, key);
  }
  return TRI_OK;
}

static void append_word(const json_t *value, tri_trainable_words *out) {
  const char *word = json_string_value(value);
  if (word == NULL || strlen(word) >= TRI_TRAINABLE_WORD_BYTES || out->count == TRI_TRAINABLE_WORDS) return;
  snprintf(out->words[out->count++].text, TRI_TRAINABLE_WORD_BYTES, "%s", word);
}

/* Reads a string or a list of strings; words that are too long or too many for `out` are left out. */
static tri_status read_words(const tri_json_reader *from, const char *key, tri_trainable_words *out) {
  const json_t *value = tri_reader_get(from, key), *word = NULL;
  size_t i;
  out->count = 0;
  if (value == NULL || json_is_string(value)) {
    append_word(value, out);
    return TRI_OK;
  }
  if (!json_is_array(value)) return tri_reader_wrong(from, key, "a list of strings");
  json_array_foreach(value, i, word) {
    if (!json_is_string(word)) return tri_reader_wrong(from, key, "a list of strings");
    append_word(word, out);
  }
  return TRI_OK;
}

static tri_status read_pattern(const tri_json_reader *from, const char *key, const char *pattern, const json_t *value,
                               tri_adapter_patterns *out) {
  const double number = json_number_value(value);
  const bool is_rank = strcmp(key, "rank_pattern") == 0;
  if (out->count == TRI_ADAPTER_PATTERNS) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s` has more than %d patterns, which is the most that is read; write fewer with regular "
                    "expressions, or merge this adapter with PEFT's merge_and_unload and use the resulting model",
                    from->path, key, TRI_ADAPTER_PATTERNS);
  }
  if (strlen(pattern) >= TRI_TRAINABLE_WORD_BYTES || !tri_python_pattern_is_known(pattern)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s: `%s`: %.100s is not a regular expression that is read here, which are names, \\., \\d, sets, "
                    "groups, | and repeats such as .* in at most %d bytes; write it so, or merge this adapter with "
                    "PEFT's merge_and_unload and use the resulting model",
                    from->path, key, pattern, TRI_TRAINABLE_WORD_BYTES - 1);
  }
  if (is_rank && !(json_is_integer(value) && number >= 1 && number <= MOST_RANK)) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s` of %.100s must be a rank from 1 to 65536", from->path, key, pattern);
  }
  if (!is_rank && !(json_is_number(value) && number >= 1e-6 && number <= 1e6)) {
    return tri_fail(TRI_BAD_FILE, "%s: `%s` of %.100s must be a number from 1e-6 to 1e6", from->path, key, pattern);
  }
  tri_adapter_pattern *entry = &out->entries[out->count++];
  snprintf(entry->pattern, sizeof entry->pattern, "%s", pattern);
  if (is_rank) entry->rank = (int64_t)number;
  if (!is_rank) entry->alpha = number;
  return TRI_OK;
}

static tri_status read_patterns(const tri_json_reader *from, const char *key, tri_adapter_patterns *out) {
  const json_t *value = tri_reader_get(from, key);
  const char *pattern = NULL;
  json_t *one = NULL;
  out->count = 0;
  if (value == NULL) return TRI_OK;
  if (!json_is_object(value)) return tri_reader_wrong(from, key, "an object of patterns");
  json_object_foreach((json_t *)(uintptr_t)value, pattern, one) { TRI_TRY(read_pattern(from, key, pattern, one, out)); }
  return TRI_OK;
}

static tri_status read_numbers(const tri_json_reader *from, tri_adapter *out) {
  bool stabilised = false;
  if (tri_reader_get(from, "r") == NULL) return tri_fail(TRI_BAD_FILE, "%s has no `r`, the rank", from->path);
  if (tri_reader_get(from, "lora_alpha") == NULL) {
    return tri_fail(TRI_BAD_FILE, "%s has no `lora_alpha`, which is needed for the scale of the factors", from->path);
  }
  TRI_TRY(tri_reader_size(from, "r", 0, &out->rank));
  if (out->rank > MOST_RANK) return tri_reader_wrong(from, "r", "a rank of at most 65536");
  TRI_TRY(tri_reader_positive(from, "lora_alpha", 0, &out->alpha));
  if (!(out->alpha >= 1e-6 && out->alpha <= 1e6)) return tri_reader_wrong(from, "lora_alpha", "from 1e-6 to 1e6");
  TRI_TRY(tri_reader_bool(from, "use_rslora", false, &stabilised));
  out->scaling = stabilised ? TRI_SCALING_RSLORA : TRI_SCALING_LORA;
  TRI_TRY(tri_reader_bool(from, "use_dora", false, &out->magnitude));
  TRI_TRY(tri_reader_number(from, "lora_dropout", 0, &out->dropout));
  return out->dropout >= 0 && out->dropout < 1 ? TRI_OK : tri_reader_wrong(from, "lora_dropout", "from 0 to below 1");
}

static tri_status read_signature(const tri_json_reader *from, const char *key, char out[TRI_BASE_SIGNATURE_BYTES]) {
  const char *word = NULL;
  TRI_TRY(tri_reader_word(from, key, "", &word));
  const size_t length = strlen(word);
  const bool valid = length == 0 || (length == 16 && strspn(word, "0123456789abcdef") == 16);
  if (!valid) return tri_reader_wrong(from, key, "16 hexadecimal digits");
  memcpy(out, word, length + 1);
  return TRI_OK;
}

/* Reads the quantisation of the base; older adapters do not have the key. */
static tri_status read_quantise(const tri_json_reader *from, tri_quantise *out) {
  const char *word = NULL;
  TRI_TRY(tri_reader_word(from, "quantise", "none", &word));
  return quantises_find(word, out) ? TRI_OK : tri_reader_wrong(from, "quantise", "none or nf4");
}

/* Reads our own object, whose keys take precedence over PEFT's. */
static tri_status read_own(const tri_json_reader *from, tri_peft *out) {
  const tri_json_reader own = {.path = from->path, .object = tri_reader_get(from, OBJECT)};
  if (own.object == NULL) return TRI_OK;
  if (!json_is_object(own.object)) return tri_reader_wrong(from, OBJECT, "an object");
  out->own = out->keeps_ties = true; /* in our adapters, training one of two tied tensors changes both */
  TRI_TRY(read_signature(&own, "base", out->signature.frame));
  TRI_TRY(read_signature(&own, "base_values", out->signature.values));
  TRI_TRY(read_quantise(&own, &out->adapter.quantise));
  if (tri_reader_get(&own, "targets") != NULL) TRI_TRY(read_words(&own, "targets", &out->adapter.targets));
  return tri_reader_get(&own, "train") == NULL ? TRI_OK : read_words(&own, "train", &out->adapter.train);
}

static tri_status read_config(const tri_json_reader *from, tri_peft *out) {
  const char *base = NULL, *revision = NULL;
  bool given = false;
  TRI_TRY(check_keys(from));
  TRI_TRY(read_init(from, &out->adapter.init));
  TRI_TRY(read_numbers(from, &out->adapter));
  TRI_TRY(read_patterns(from, "rank_pattern", &out->adapter.rank_pattern));
  TRI_TRY(read_patterns(from, "alpha_pattern", &out->adapter.alpha_pattern));
  TRI_TRY(tri_reader_bool(from, "ensure_weight_tying", false, &out->keeps_ties));
  out->adapter.ensure_weight_tying = out->keeps_ties;
  TRI_TRY(
      tri_reader_bool(from, "fan_in_fan_out", false, &given)); /* only checked: the base's model decides the layout */
  TRI_TRY(read_words(from, "target_modules", &out->adapter.targets));
  TRI_TRY(read_words(from, "modules_to_save", &out->adapter.train));
  TRI_TRY(tri_reader_word(from, "base_model_name_or_path", "", &base));
  if (strlen(base) >= sizeof out->base) return tri_reader_wrong(from, "base_model_name_or_path", "a shorter path");
  TRI_TRY(tri_reader_word(from, "revision", "", &revision));
  const bool revised = revision[0] != '\0' && tri_hub_name_length(base) == strlen(base) && !tri_path_exists(base);
  snprintf(out->base, sizeof out->base, "%s%s%s", base, revised ? "@" : "", revised ? revision : "");
  return read_own(from, out);
}

tri_status tri_peft_parse(const char *path, const char *text, size_t bytes, tri_peft *out) {
  json_t *document = NULL;
  TRI_TRY(tri_json_parse_last(path, text, bytes, &document));
  *out = (tri_peft){.base = ""};
  tri_status status = read_config(&(tri_json_reader){.path = path, .object = document}, out);
  json_decref(document);
  return status;
}

tri_status tri_peft_load(const char *folder, bool verify, tri_peft *out) {
  char path[TRI_PATH_BYTES], *text = NULL;
  size_t bytes = 0;
  TRI_TRY(tri_path_join(path, folder, TRI_FILE_ADAPTER_CONFIG));
  TRI_TRY(tri_file_read_plain(path, CONFIG_LIMIT_BYTES, &text, &bytes));
  tri_status status = verify ? tri_state_verify_read(folder, TRI_FILE_ADAPTER_CONFIG, text, bytes) : TRI_OK;
  if (status == TRI_OK) status = tri_peft_parse(path, text, bytes, out);
  tri_free(text);
  return status;
}

/* ---- runs that start from an adapter ----------------------------------------------------------------------------- */

static bool has_pattern(const tri_adapter_patterns *patterns, const tri_adapter_pattern *wanted) {
  for (int64_t i = 0; i < patterns->count; i++) {
    const tri_adapter_pattern *entry = &patterns->entries[i];
    if (strcmp(entry->pattern, wanted->pattern) == 0) {
      return entry->rank == wanted->rank && entry->alpha == wanted->alpha;
    }
  }
  return false;
}

/* Compares patterns in any order, because PEFT sorts patterns when it saves them; the run's order is used. */
static tri_status check_same(const char *folder, const char *key, const tri_adapter_patterns *from,
                             const tri_adapter_patterns *own) {
  bool same = from->count == own->count;
  for (int64_t i = 0; i < own->count && same; i++) same = has_pattern(from, &own->entries[i]);
  if (same) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`adapter.from`: `%s` of %s/" TRI_FILE_ADAPTER_CONFIG
                  " differs from `adapter.%s`; give the run the same patterns",
                  key, folder, key);
}

/* Adds the patterns that PEFT adds when it converts factors of single experts (peft_singles.h). Sets *converted to
 * whether the folder has factors of single gates. */
static tri_status convert_singles(const char *folder, tri_adapter *adapter, bool *converted) {
  tri_checkpoint *from = NULL;
  TRI_TRY(tri_checkpoint_open(folder, &from));
  (void)tri_peft_has_singles(from, converted);
  tri_checkpoint_close(from);
  return *converted ? tri_peft_convert_singles(folder, adapter) : TRI_OK;
}

static tri_status check_all_patterns(const char *folder, tri_adapter *from, const tri_adapter *own) {
  bool converted = false;
  TRI_TRY(convert_singles(folder, from, &converted));
  tri_status status = check_same(folder, "rank_pattern", &from->rank_pattern, &own->rank_pattern);
  if (status == TRI_OK) status = check_same(folder, "alpha_pattern", &from->alpha_pattern, &own->alpha_pattern);
  if (status == TRI_OK || !converted) return status;
  return tri_fail(TRI_BAD_CONFIG,
                  "`adapter.from`: %s has factors of single experts. PEFT joins the factors of gate and up of an "
                  "expert to one pair with twice the rank and twice alpha; give the run the folder's patterns, and "
                  "rank_pattern: {\".*\\\\.gate_up_proj\": %ld}, alpha_pattern: {\".*\\\\.gate_up_proj\": %g}",
                  folder, (long)(2 * from->rank), 2 * from->alpha);
}

static tri_status check_same_ties(const char *folder, const tri_adapter *from, const tri_adapter *own) {
  if (from->ensure_weight_tying == own->ensure_weight_tying || !tri_trainable_names_tied(own)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`adapter.from`: the factors of the embedding and the output projection are %s in %s "
                  "(`ensure_weight_tying`), and `adapter.ensure_weight_tying` is %s; make them equal",
                  from->ensure_weight_tying ? "the same" : "each its own", folder,
                  own->ensure_weight_tying ? "true" : "false");
}

tri_status tri_peft_check_from(const char *folder, const tri_adapter *adapter, const tri_base_signature *base) {
  tri_peft *peft = NULL;
  char there[TRI_BASE_SIGNATURE_TEXT_BYTES], here[TRI_BASE_SIGNATURE_TEXT_BYTES];
  if (!tri_peft_is_folder(folder)) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`adapter.from`: %s has no " TRI_FILE_ADAPTER_CONFIG
                    "; name a folder of PEFT's, or "
                    "a checkpoint of a run with an adapter",
                    folder);
  }
  TRI_TRY(tri_alloc("an adapter's description", 1, sizeof *peft, &peft));
  tri_status status = tri_peft_load(folder, true, peft);
  const tri_adapter *from = &peft->adapter;
  if (status == TRI_OK && from->rank != adapter->rank) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`adapter.from`: the factors of %s have rank %ld, but `adapter.rank` is %ld; make them equal",
                      folder, (long)from->rank, (long)adapter->rank);
  }
  if (status == TRI_OK && from->scaling != adapter->scaling) {
    status = tri_fail(
        TRI_BAD_CONFIG,
        "`adapter.from`: the factors of %s are for the scale of %s, but `adapter.scaling` is %s; make them equal",
        folder, scalings_word(from->scaling), scalings_word(adapter->scaling));
  }
  if (status == TRI_OK && from->alpha != adapter->alpha) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`adapter.from`: the factors of %s are for alpha %g, but `adapter.alpha` is %g; make them equal",
                      folder, from->alpha, adapter->alpha);
  }
  if (status == TRI_OK && from->magnitude != adapter->magnitude) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`adapter.from`: %s has %s (`use_dora` of " TRI_FILE_ADAPTER_CONFIG
                      ") and `adapter.magnitude` is %s; make them equal",
                      folder, from->magnitude ? "magnitudes" : "no magnitudes", adapter->magnitude ? "true" : "false");
  }
  if (status == TRI_OK && tri_adapter_is_principal(from) != tri_adapter_is_principal(adapter)) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`adapter.from`: the factors of %s %s parts of the base, which are subtracted from it "
                      "(`init_lora_weights: pissa`), but `adapter.init` differs; %s",
                      folder, tri_adapter_is_principal(from) ? "began as" : "did not begin as",
                      tri_adapter_is_principal(from) ? "set it to pissa" : "leave it out");
  }
  if (status == TRI_OK) status = check_same_ties(folder, from, adapter);
  if (status == TRI_OK) status = check_all_patterns(folder, &peft->adapter, adapter);
  if (status == TRI_OK && base != NULL && !tri_base_signature_same(&peft->signature, base)) {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`adapter.from`: %s is an adapter of another base than `init` names: its base has signature %s, "
                      "not %s; name that base with `init`",
                      folder, tri_base_signature_text(&peft->signature, there), tri_base_signature_text(base, here));
  }
  tri_free(peft);
  return status;
}
