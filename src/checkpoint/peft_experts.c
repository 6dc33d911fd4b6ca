#include "checkpoint/peft_experts.h"

#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/peft_tensors.h"
#include "checkpoint/safetensors.h"
#include "model/trainable_experts.h"
#include "model/trainable_match.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EXPERTS "model.layers.%ld.mlp.experts"

bool tri_peft_is_parameter(const tri_parameter *entry) {
  static const char *const taken[] = {"gate_proj", "up_proj", "down_proj"};
  for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
    if (tri_trainable_is_module(taken[i], entry->name)) return tri_trainable_is_linear(entry);
  }
  return false;
}

/* Adds a target that names experts to the list; if the target is a pattern, adds the whole names of the matching
 * parameters. */
static void add_experts(json_t *list, const tri_parameter_table *table, const char *target) {
  char name[TRI_PARAMETER_NAME_BYTES];
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (!tri_trainable_is_of_experts(&table->entries[i])) continue;
    tri_trainable_target_name(&table->entries[i], name);
    if (!tri_trainable_names_experts(target, name)) continue;
    if (!tri_trainable_is_pattern(target)) {
      json_array_append_new(list, json_string(target));
      return;
    }
    json_array_append_new(list, json_stringn(name, (size_t)tri_trainable_module_length(name)));
  }
}

static bool has_experts(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    if (tri_trainable_is_of_experts(&table->entries[i])) return true;
  }
  return false;
}

json_t *tri_peft_target_parameters(const tri_adapter *adapter, const tri_parameter_table *table) {
  json_t *list = json_array();
  for (int64_t i = 0; i < adapter->targets.count; i++) add_experts(list, table, adapter->targets.words[i].text);
  for (int64_t i = 0; i < table->num_entries && has_experts(table); i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || !tri_peft_is_parameter(entry) || !tri_trainable_is_target(adapter, entry)) continue;
    json_array_append_new(list, json_string(entry->name));
  }
  if (json_array_size(list) > 0) return list;
  json_decref(list);
  return NULL;
}

bool tri_peft_is_of_single_expert(const char *name) {
  static const char module[] = ".experts.";
  const char *at = strstr(name, module);
  if (at == NULL || strstr(at, ".lora_") == NULL) return false;
  at += strlen(module);
  return *at >= '0' && *at <= '9';
}

/* ---- finding factors --------------------------------------------------------------------------------------------- */

/* Computes the shapes of the pair in the adapter. */
static void shapes_of(const tri_parameter *tensor, const tri_peft_expert_pair *pair, int64_t a[2], int64_t b[2]) {
  const int64_t rank = pair->pair.rank, members = pair->single ? 1 : tensor->stacked.members;
  a[0] = members * rank;
  a[1] = tensor->shape[1];
  b[0] = (pair->single ? 1 : tensor->stacked.kinds) * tensor->shape[0];
  b[1] = rank * members;
}

static bool is_gate_or_up(const tri_parameter *tensor) { return tensor->stacked.kinds > 1; }

static bool has(const tri_checkpoint *from, const char *name) { return tri_checkpoint_index_of(from, name) >= 0; }

/* Returns whether the adapter has a factor of a module. If so, writes the names of both factors to `out`, else "". */
static bool set_names(const tri_checkpoint *from, const char *module, int length, tri_peft_expert_pair *out) {
  snprintf(out->a, sizeof out->a, "%.*s.lora_A.weight", length, module);
  snprintf(out->b, sizeof out->b, "%.*s.lora_B.weight", length, module);
  if (has(from, out->a) || has(from, out->b)) return true;
  out->a[0] = out->b[0] = '\0';
  return false;
}

/* Returns whether the factors of the module `experts` belong to this parameter. If there is only one pair, it may
 * belong to gate and up or to down, which its numbers of outputs and inputs show: [2 * ffn, width] or [width, ffn].
 * With only one factor of the pair, the answer is true for down, for which check_shape then reports the other. */
static bool are_of(const tri_checkpoint *from, const tri_parameter *tensor, const tri_peft_expert_pair *pair) {
  const int64_t a = tri_checkpoint_index_of(from, pair->a), b = tri_checkpoint_index_of(from, pair->b);
  if (a < 0 || b < 0) return !is_gate_or_up(tensor);
  return tri_checkpoint_get_entry(from, a).tensor->shape[1] == tensor->shape[1] &&
         tri_checkpoint_get_entry(from, b).tensor->shape[0] == tensor->stacked.kinds * tensor->shape[0];
}

static void find_stacked(const tri_checkpoint *from, const tri_parameter *tensor, tri_peft_expert_pair *out) {
  char module[TRI_PEFT_NAME_BYTES];
  const bool gate_up = is_gate_or_up(tensor);
  int length = snprintf(module, sizeof module, EXPERTS ".base_layer", (long)tensor->layer);
  const bool both = set_names(from, module, length, out);
  if (both && gate_up) return;
  length = snprintf(module, sizeof module, EXPERTS, (long)tensor->layer);
  if (set_names(from, module, length, out) && (both || are_of(from, tensor, out))) return;
  out->a[0] = out->b[0] = '\0';
}

static tri_status check_shape(const tri_checkpoint *from, const char *name, const int64_t shape[2],
                              const tri_peft_expert_pair *pair) {
  char found[TRI_SAFETENSORS_SHAPE_BYTES];
  const int64_t at = tri_checkpoint_index_of(from, name);
  if (at < 0) return tri_fail(TRI_BAD_FILE, "%s lacks `%s`, one of a pair of factors", tri_checkpoint_path(from), name);
  const tri_checkpoint_entry entry = tri_checkpoint_get_entry(from, at);
  if (entry.tensor->num_dims == 2 && entry.tensor->shape[0] == shape[0] && entry.tensor->shape[1] == shape[1]) {
    return TRI_OK;
  }
  return tri_fail(TRI_BAD_FILE,
                  "%s: tensor `%s` has shape %s, and the experts and the rank %ld, `%s` of " TRI_FILE_ADAPTER_CONFIG
                  ", make it [%ld, %ld]",
                  entry.file, entry.tensor->name,
                  tri_safetensors_shape_text(entry.tensor->num_dims, entry.tensor->shape, found), (long)pair->pair.rank,
                  pair->pair.rank_from < 0 ? "r" : "rank_pattern", (long)shape[0], (long)shape[1]);
}

/* Returns the scale of the pair with twice the rank and twice alpha that PEFT makes of gate and up of an expert. */
static double converted_scale(const tri_adapter *adapter) {
  const double rank = (double)adapter->rank;
  switch (adapter->scaling) {
    case TRI_SCALING_LORA: break;
    case TRI_SCALING_RSLORA: return 2 * adapter->alpha / sqrt(2 * rank);
  }
  return adapter->alpha / rank;
}

static void set_pair(const tri_adapter *adapter, const tri_parameter *tensor, tri_peft_expert_pair *out) {
  char name[TRI_PARAMETER_NAME_BYTES];
  snprintf(name, sizeof name, EXPERTS ".%s.weight", (long)tensor->layer,
           is_gate_or_up(tensor) ? "gate_up_proj" : "down_proj");
  out->pair = tri_adapter_pair_of(adapter, name);
  if (!out->single || !is_gate_or_up(tensor)) return;
  out->pair = (tri_adapter_pair){adapter->rank, adapter->alpha, converted_scale(adapter), -1};
}

tri_status tri_peft_find_expert_pair(const tri_checkpoint *from, const tri_adapter *adapter,
                                     const tri_parameter *tensor, tri_peft_expert_pair *out) {
  int64_t a[2], b[2];
  const char *end = strrchr(tensor->name, '.');
  *out = (tri_peft_expert_pair){.a = ""};
  out->single = set_names(from, tensor->name, (int)(end - tensor->name), out);
  if (!out->single) find_stacked(from, tensor, out);
  if (out->a[0] == '\0') return TRI_OK;
  set_pair(adapter, tensor, out);
  shapes_of(tensor, out, a, b);
  TRI_TRY(check_shape(from, out->a, a, out));
  return check_shape(from, out->b, b, out);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Reads the factor of one matrix out of the factor of all experts, in which factor->stacked.as is the layout of the
 * stack. */
static tri_status read_part(const tri_checkpoint *from, const char *name, const int64_t whole[2],
                            const tri_parameter *factor, double **out) {
  const int64_t count = factor->shape[0] * factor->shape[1];
  double *values = NULL;
  TRI_TRY(tri_alloc("a factor", (size_t)count, sizeof *values, &values));
  const tri_checkpoint_slice slice = {.part = factor, .count = count, .data = values};
  tri_status status = tri_checkpoint_read_slice(from, name, TRI_FP64, 2, whole, &slice);
  if (status == TRI_OK) status = tri_peft_check_numbers(from, name, false, count, values);
  if (status == TRI_OK) *out = values;
  if (status != TRI_OK) tri_free(values);
  return status;
}

static tri_parameter factor_of(const tri_parameter *tensor, const tri_peft_expert_pair *pair, bool is_b) {
  const int64_t kinds = is_b ? tensor->stacked.kinds : 1, rank = pair->pair.rank;
  const int64_t member = tensor->stacked.number / tensor->stacked.kinds;
  tri_parameter whole = {.num_dims = 2, .split = tri_split_none()};
  whole.shape[0] = is_b ? tensor->shape[0] : rank;
  whole.shape[1] = is_b ? rank : tensor->shape[1];
  tri_parameter factor = tri_parameter_of_rank(&whole, 1, 0);
  factor.stacked = (tri_stacked){.as = is_b ? TRI_STACKING_COLUMNS : TRI_STACKING_ROWS,
                                 .members = tensor->stacked.members,
                                 .kinds = kinds,
                                 .number = is_b ? tensor->stacked.number : member};
  if (pair->single) factor.stacked = (tri_stacked){.as = TRI_STACKING_NONE};
  return factor;
}

tri_status tri_peft_read_expert_pair(const tri_checkpoint *from, const tri_parameter *tensor,
                                     const tri_peft_expert_pair *pair, double **a, double **b) {
  int64_t shape_a[2], shape_b[2];
  double *first = NULL;
  const tri_parameter of_a = factor_of(tensor, pair, false), of_b = factor_of(tensor, pair, true);
  shapes_of(tensor, pair, shape_a, shape_b);
  TRI_TRY(read_part(from, pair->a, shape_a, &of_a, &first));
  const tri_status status = read_part(from, pair->b, shape_b, &of_b, b);
  if (status == TRI_OK) *a = first;
  if (status != TRI_OK) tri_free(first);
  return status;
}
