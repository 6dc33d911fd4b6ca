#include "model/trainable_match.h"

#include "base/python_pattern.h"
#include "model/module_names.h"
#include "model/trainable_experts.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

bool tri_trainable_matches(const tri_trainable_words *patterns, const char *name) {
  char module[TRI_PARAMETER_NAME_BYTES];
  tri_module_names(name, module, sizeof module);
  for (int64_t i = 0; i < patterns->count; i++) {
    const char *pattern = patterns->words[i].text;
    if (fnmatch(pattern, name, 0) == 0 || fnmatch(pattern, module, 0) == 0) return true;
  }
  return false;
}

void tri_trainable_name_on_disk(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]) {
  int64_t first = 0;
  const tri_parameter tensor = tri_parameter_tensor(entry, 0, &first);
  memcpy(out, tensor.name, TRI_PARAMETER_NAME_BYTES);
}

bool tri_trainable_can_quantise(const tri_parameter *entry) {
  if (entry->num_dims < 2) return false;
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP: return true;
    case TRI_PART_EMBEDDING:
    case TRI_PART_NORM:
    case TRI_PART_HEAD:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

bool tri_trainable_is_linear(const tri_parameter *entry) {
  return tri_trainable_can_quantise(entry) && !entry->placement.has_holders;
}

bool tri_trainable_may_have_factors(const tri_parameter *entry) {
  switch (entry->part) {
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP: return tri_trainable_is_linear(entry);
    case TRI_PART_HEAD: return entry->num_dims == 2;
    case TRI_PART_EMBEDDING: return entry->split.dim >= 0; /* false for learned positions, which are never split */
    case TRI_PART_NORM:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

bool tri_trainable_is_quantised(const tri_trainable *tuning) {
  switch (tuning->adapter.quantise) {
    case TRI_QUANTISE_NONE: return false;
    case TRI_QUANTISE_NF4: break;
  }
  return true;
}

int tri_trainable_module_length(const char *name) {
  const char *end = strrchr(name, '.');
  return end == NULL ? (int)strlen(name) : (int)(end - name);
}

bool tri_trainable_is_table(const tri_parameter *matrix) {
  switch (matrix->part) {
    case TRI_PART_EMBEDDING: return true;
    case TRI_PART_ATTENTION:
    case TRI_PART_MLP:
    case TRI_PART_NORM:
    case TRI_PART_HEAD:
    case TRI_PART_ROUTER: break;
  }
  return false;
}

bool tri_trainable_is_in_out(const tri_parameter *matrix) { return matrix->in_out || tri_trainable_is_table(matrix); }

void tri_trainable_factor_name(const tri_parameter *matrix, char which, char *out, size_t out_bytes) {
  const int length = tri_trainable_module_length(matrix->name);
  if (tri_trainable_is_table(matrix)) snprintf(out, out_bytes, "%.*s.lora_embedding_%c", length, matrix->name, which);
  if (!tri_trainable_is_table(matrix)) snprintf(out, out_bytes, "%.*s.lora_%c.weight", length, matrix->name, which);
}

bool tri_trainable_is_pattern(const char *target) { return strpbrk(target, "*?[") != NULL; }

bool tri_trainable_is_module(const char *target, const char *name) {
  char word[2 * TRI_TRAINABLE_WORD_BYTES], module[TRI_PARAMETER_NAME_BYTES];
  const bool pattern = tri_trainable_is_pattern(target);
  tri_module_names(target, word, sizeof word);
  tri_module_names(name, module, sizeof module);
  module[tri_trainable_module_length(module)] = '\0';
  for (const char *end = module; end != NULL; end = strchr(end, '.')) {
    end += *end == '.';
    if (pattern ? fnmatch(word, end, 0) == 0 : strcmp(word, end) == 0) return true;
  }
  return false;
}

bool tri_trainable_is_for_all(const tri_adapter *adapter) {
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    if (strcmp(adapter->targets.words[i].text, TRI_TRAINABLE_ALL_LINEAR) == 0) return true;
  }
  return adapter->targets.count == 0;
}

bool tri_trainable_is_target(const tri_adapter *adapter, const tri_parameter *entry) {
  if (tri_trainable_is_of_experts(entry)) return tri_trainable_is_expert_target(adapter, entry);
  if (!tri_trainable_may_have_factors(entry)) return false;
  if (tri_trainable_is_for_all(adapter) && tri_trainable_is_linear(entry)) return true;
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    if (tri_trainable_is_module(adapter->targets.words[i].text, entry->name)) return true;
  }
  return false;
}

bool tri_trainable_names_tied(const tri_adapter *adapter) {
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    char target[2 * TRI_TRAINABLE_WORD_BYTES];
    tri_module_names(adapter->targets.words[i].text, target, sizeof target);
    const char *dot = strrchr(target, '.'), *end = dot == NULL ? target : dot + 1;
    if (strcmp(end, "embed_tokens") == 0 || strcmp(end, "lm_head") == 0) return true;
    if (!tri_trainable_is_pattern(target)) continue;
    if (tri_trainable_is_module(target, "model.embed_tokens.weight")) return true;
    if (tri_trainable_is_module(target, "lm_head.weight")) return true;
  }
  return false;
}

bool tri_trainable_ties_factors(const tri_adapter *adapter, const tri_parameter_table *table) {
  if (!adapter->ensure_weight_tying) return false;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *head = &table->entries[i];
    if (head->tied_to < 0 || head->factor) continue;
    return tri_trainable_is_target(adapter, head) || tri_trainable_is_target(adapter, &table->entries[head->tied_to]);
  }
  return false;
}

int64_t tri_trainable_pattern_of(const tri_adapter_patterns *patterns, const char *module) {
  char name[TRI_PARAMETER_NAME_BYTES];
  tri_module_names(module, name, sizeof name);
  for (int64_t i = 0; i < patterns->count; i++) {
    char pattern[2 * TRI_TRAINABLE_WORD_BYTES];
    tri_module_names(patterns->entries[i].pattern, pattern, sizeof pattern);
    if (tri_python_pattern_ends(pattern, name)) return i;
  }
  return -1;
}

int64_t tri_trainable_num_named(const tri_trainable_words *patterns, const tri_parameter *entry) {
  int64_t count = 0, first = 0;
  for (int64_t t = 0; t < tri_parameter_num_tensors(entry) && patterns->count > 0; t++) {
    const tri_parameter tensor = tri_parameter_tensor(entry, t, &first);
    count += tri_trainable_matches(patterns, tensor.name);
  }
  return count;
}
