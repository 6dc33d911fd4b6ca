/* Factors of experts in an adapter. PEFT 0.21 has one pair of tensors for all experts of a parameter
 * (model/trainable_experts.h). Adapters for transformers 4 have a pair for each expert's matrix under its own name,
 * "model.layers.0.mlp.experts.3.gate_proj.lora_A.weight". PEFT converts these when it opens them
 * (peft/utils/transformers_weight_conversion.py): gate and up get one pair of twice the rank and twice alpha, so with
 * `use_rslora` their scale is sqrt(2) times that of the training. */
#ifndef TRI_CHECKPOINT_PEFT_EXPERTS_H
#define TRI_CHECKPOINT_PEFT_EXPERTS_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/peft.h"
#include "model/parameters.h"

#include <jansson.h>

/* Returns whether PEFT can address a matrix of a model with experts by `target_parameters` only. If a target module of
 * such a model is called gate_proj, up_proj or down_proj, PEFT takes it for that of the experts, even if the target is
 * the whole name of another module, and ignores factors of dense layers and shared experts. */
bool tri_peft_is_parameter(const tri_parameter *entry);

/* Returns a new list, `target_parameters` of adapter_config.json: the targets that name experts, with the matching
 * names instead of a pattern, and in models with experts the targeted matrices that tri_peft_is_parameter accepts; NULL
 * if there are none. */
json_t *tri_peft_target_parameters(const tri_adapter *adapter, const tri_parameter_table *table);

/* Returns whether a name is that of a factor of one expert's matrix: "...experts.3.gate_proj.lora_A.weight". */
bool tri_peft_is_of_single_expert(const char *name);

/* The pair of factors of one expert's matrix, a tensor that tri_parameter_tensor made. */
typedef struct tri_peft_expert_pair {
  char a[TRI_PEFT_NAME_BYTES], b[TRI_PEFT_NAME_BYTES]; /* names in the adapter; "": the adapter has no pair */
  bool single;                                         /* whether the pair belongs to this matrix alone */
  tri_adapter_pair pair;                               /* rank and scale */
} tri_peft_expert_pair;

/* LOCAL. Finds the pair of a matrix; sets out->a and out->b to "" if the adapter has no pair. Fails with TRI_BAD_FILE
 * if one factor is missing, or has another shape than rank and matrix require. */
tri_status tri_peft_find_expert_pair(const tri_checkpoint *from, const tri_adapter *adapter,
                                     const tri_parameter *tensor, tri_peft_expert_pair *out);

/* LOCAL. Reads the factors of one matrix, a[rank, in] and b[out, rank], as fp64; release both with tri_free. */
tri_status tri_peft_read_expert_pair(const tri_checkpoint *from, const tri_parameter *tensor,
                                     const tri_peft_expert_pair *pair, double **a, double **b);

#endif
