/* Factors of experts in an adapter: as PEFT 0.21 has them, one pair of tensors for all experts of a parameter
 * (model/trainable_experts.h); or as it had them for transformers 4, a pair for each expert's matrix under its own
 * name, "model.layers.0.mlp.experts.3.gate_proj.lora_A.weight". PEFT makes the former of the latter when it opens them
 * (peft/utils/transformers_weight_conversion.py): gate and up get one pair of twice the rank and twice alpha, so that
 * with `use_rslora` they are multiplied by sqrt(2) more than they were trained with. */
#ifndef TRI_CHECKPOINT_PEFT_EXPERTS_H
#define TRI_CHECKPOINT_PEFT_EXPERTS_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/peft.h"
#include "model/parameters.h"

#include <jansson.h>

/* Whether PEFT knows a matrix of a model with experts by its parameter alone: it takes a target module gate_proj,
 * up_proj or down_proj of such a model, whole name or not, for the experts', and passes over the factors of a dense
 * layer's or shared experts'. */
bool tri_peft_is_parameter(const tri_parameter *entry);

/* `target_parameters` of adapter_config.json: the targets that name experts, with the names that a pattern matches in
 * its place; NULL if no target does. */
json_t *tri_peft_target_parameters(const tri_adapter *adapter, const tri_parameter_table *table);

/* Whether the name is that of a factor of one expert's matrix: "...experts.3.gate_proj.lora_A.weight". */
bool tri_peft_is_of_single_expert(const char *name);

/* The pair of a matrix of an expert, `tensor`, which tri_parameter_tensor made. */
typedef struct tri_peft_expert_pair {
  char a[TRI_PEFT_NAME_BYTES], b[TRI_PEFT_NAME_BYTES]; /* names in the adapter; "": it has none */
  bool single;                                         /* of this matrix alone */
  tri_adapter_pair pair;
} tri_peft_expert_pair;

/* LOCAL. TRI_BAD_FILE: one factor without the other, or of another shape than rank and matrix say. */
tri_status tri_peft_find_expert_pair(const tri_checkpoint *from, const tri_adapter *adapter,
                                     const tri_parameter *tensor, tri_peft_expert_pair *out);

/* LOCAL. The factors of the matrix alone, a[rank, in] and b[out, rank], as fp64; release both with tri_free. */
tri_status tri_peft_read_expert_pair(const tri_checkpoint *from, const tri_parameter *tensor,
                                     const tri_peft_expert_pair *pair, double **a, double **b);

#endif
