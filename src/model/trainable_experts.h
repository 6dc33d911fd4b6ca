/* Factors of experts. Each expert has one pair of factors for gate and up together, and one pair for down.
 *
 * In transformers 5 the experts of a layer are two parameters, `mlp.experts.gate_up_proj` [experts, 2 * ffn, width],
 * gate above up, and `mlp.experts.down_proj` [experts, width, ffn], independent of the names of the experts' tensors on
 * disk. PEFT (0.21) adds factors to such a parameter by `target_parameters`, and here `adapter.targets` has the same
 * names. In its files the factors of all experts of a parameter are one pair of tensors, A [experts * rank, in] and
 * B [out, rank * experts] (tri_stacking). PEFT wraps the module `experts` once for each of its parameters with factors,
 * in their order: if both have factors, gate and up's are `mlp.experts.base_layer.lora_A.weight` and down's
 * `mlp.experts.lora_A.weight`; if only one has factors, they have the latter name. */
#ifndef TRI_MODEL_TRAINABLE_EXPERTS_H
#define TRI_MODEL_TRAINABLE_EXPERTS_H

#include "model/parameters.h"
#include "model/trainable.h"

/* Returns whether an entry is a stack of experts' matrices. */
bool tri_trainable_is_of_experts(const tri_parameter *entry);

/* Writes the name of a matrix that targets and patterns use. It is the name in transformers 5; for experts
 * "model.layers.0.mlp.experts.down_proj.weight". */
void tri_trainable_target_name(const tri_parameter *entry, char out[TRI_PARAMETER_NAME_BYTES]);

/* Returns whether a target names the experts' matrices `name` (tri_trainable_target_name). `down_proj` alone names
 * other modules. */
bool tri_trainable_names_experts(const char *target, const char *name);

/* Returns whether the experts of an entry are among the targets. */
bool tri_trainable_is_expert_target(const tri_adapter *adapter, const tri_parameter *entry);

/* Makes a stack of a factor A or B (`which`: 0 or 1) of experts' matrices, with its name on disk. */
void tri_trainable_stack_factor(const tri_adapter *adapter, const tri_parameter *matrix, int which,
                                tri_parameter *factor);

/* Fails if factors of experts are combined with adapter.dropout or with PiSSA. */
tri_status tri_trainable_check_experts(const tri_adapter *adapter, const tri_parameter_table *table);

#endif
