#include "model/trainable_experts.h"

#include "model/module_names.h"
#include "model/trainable_match.h"

#include <stdio.h>
#include <string.h>

#define EXPERTS "model.layers.%ld.mlp.experts"
#define MEMBER EXPERTS ".%ld."

bool tri_trainable_is_of_experts(const tri_parameter *entry) {
  return tri_trainable_can_quantise(entry) && entry->placement.has_holders;
}

/* Returns whether a stack has gate and up, two matrices per expert; down is one. */
static bool is_gate_up(const tri_parameter *entry) { return entry->kinds > 1; }

static void name_of(int64_t layer, bool gate_up, char out[TRI_PARAMETER_NAME_BYTES]) {
  snprintf(out, TRI_PARAMETER_NAME_BYTES, EXPERTS ".%s.weight", (long)layer, gate_up ? "gate_up_proj" : "down_proj");
}

void tri_trainable_target_name(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]) {
  if (tri_trainable_is_of_experts(entry)) {
    name_of(entry->layer, is_gate_up(entry), out);
  } else {
    tri_module_names(entry->name, out, TRI_PARAMETER_NAME_BYTES);
  }
}

bool tri_trainable_names_experts(const char *target, const char *name) {
  const bool is_of_them = strstr(target, "experts") != NULL || strcmp(target, "gate_up_proj") == 0;
  return is_of_them && tri_trainable_is_module(target, name);
}

static bool is_target(const tri_adapter *adapter, int64_t layer, bool gate_up) {
  char name[TRI_PARAMETER_NAME_BYTES];
  name_of(layer, gate_up, name);
  for (int64_t i = 0; i < adapter->targets.count; i++) {
    if (tri_trainable_names_experts(adapter->targets.words[i].text, name)) return true;
  }
  return false;
}

bool tri_trainable_is_expert_target(const tri_adapter *adapter, const tri_parameter *entry) {
  return tri_trainable_is_of_experts(entry) && is_target(adapter, entry->layer, is_gate_up(entry));
}

/* Names of the factors of one expert's matrix, for optimizer states. */
static const char *const names_of_a[] = {MEMBER "down_proj.lora_A.weight", MEMBER "gate_up_proj.lora_A.weight"};
static const char *const names_of_b[][TRI_PARAMETER_KINDS] = {
    {MEMBER "down_proj.lora_B.weight", NULL}, {MEMBER "gate_proj.lora_B.weight", MEMBER "up_proj.lora_B.weight"}};

void tri_trainable_stack_factor(const tri_adapter *adapter, const tri_parameter *matrix, int which,
                                tri_parameter *factor) {
  const bool gate_up = is_gate_up(matrix);
  const bool wrapped = gate_up && is_target(adapter, matrix->layer, false);
  factor->kinds = which == 0 ? 1 : matrix->kinds;
  for (int64_t kind = 0; kind < TRI_PARAMETER_KINDS; kind++) {
    factor->names[kind] = which == 1 ? names_of_b[gate_up][kind] : kind == 0 ? names_of_a[gate_up] : NULL;
  }
  factor->stacked = (tri_stacked){
      .as = which == 0 ? TRI_STACKING_ROWS : TRI_STACKING_COLUMNS, .members = factor->stack, .kinds = factor->kinds};
  snprintf(factor->name, sizeof factor->name, EXPERTS "%s.lora_%c.weight", (long)matrix->layer,
           wrapped ? ".base_layer" : "", "AB"[which]);
}

/* Refuses dropout, because PEFT adds the product of the factors to the experts' parameter before each GEMM. Refuses
 * PiSSA as well. */
tri_status tri_trainable_check_experts(const tri_adapter *adapter, const tri_parameter_table *table) {
  char name[TRI_PARAMETER_NAME_BYTES];
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->factor || entry->factors[0] < 0 || !tri_trainable_is_of_experts(entry)) continue;
    tri_trainable_target_name(entry, name);
    if (adapter->dropout > 0) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`adapter.dropout` %g is not for factors of experts, as those of %.*s are, and PEFT refuses it "
                      "too; leave it out, or leave the experts out of `adapter.targets`",
                      adapter->dropout, tri_trainable_module_length(name), name);
    }
    if (tri_adapter_is_principal(adapter)) {
      return tri_fail(TRI_BAD_CONFIG,
                      "`adapter.init`: pissa is not for factors of experts, as those of %.*s are; use kaiming or "
                      "gaussian, or leave the experts out of `adapter.targets`",
                      tri_trainable_module_length(name), name);
    }
  }
  return TRI_OK;
}
