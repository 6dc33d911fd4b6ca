/* Blocks of Llama and its relatives, of which a family says what is not the same everywhere: rotary positions, pre-norm
 * blocks with RMS norm, grouped-query attention, SwiGLU. */
#ifndef TRI_MODEL_BLOCKS_H
#define TRI_MODEL_BLOCKS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/list.h"

/* Whether queries and keys are normalised, by RMS norm, before they turn. */
typedef enum tri_qk_norm {
  TRI_QK_NORM_NONE,
  TRI_QK_NORM_HEADS, /* each head by itself, all with the same weights (Qwen 3) */
  TRI_QK_NORM_WHOLE, /* all heads of q together, and all of k (OLMoE) */
} tri_qk_norm;

/* Which layers may look back through a sliding window. */
typedef enum tri_windows { TRI_WINDOWS_ANY, TRI_WINDOWS_ALL, TRI_WINDOWS_NONE } tri_windows;

/* What a family's blocks are made of, beside what all have. */
typedef struct tri_blocks {
  bool biased; /* q, k and v may have biases: attention_bias */
  tri_qk_norm qk_norm;
  tri_windows windows;
  /* Experts; no `router`: none. Names behind "model.layers.%ld.", but whole ones of the matrices of an expert, with %ld
   * for the layer and %ld for the expert. */
  const char *router, *router_bias;
  const char *gate_up[2], *down;
  bool dense_layers;   /* the first layers may be without */
  bool shared_experts; /* there may be one that all tokens meet */
} tri_blocks;

/* The usual names of what experts are made of: Qwen's, and of all that took them. */
#define TRI_BLOCKS_EXPERT_NAMES                                                                                        \
  .router = "mlp.gate.weight", .router_bias = "mlp.gate.e_score_correction_bias",                                      \
  .gate_up = {"model.layers.%ld.mlp.experts.%ld.gate_proj.weight", "model.layers.%ld.mlp.experts.%ld.up_proj.weight"}, \
  .down = "model.layers.%ld.mlp.experts.%ld.down_proj.weight"

/* For the family's table: all of it at once, and its check, which a family may begin its own with. */
#define TRI_BLOCKS_FUNCTIONS                                                                                           \
  .layer_weights = tri_blocks_layer_weights, .parameters = tri_blocks_parameters, .begin = tri_blocks_begin,           \
  .block = tri_blocks_append, .end = tri_blocks_end

tri_status tri_blocks_check(const tri_model *model);
double tri_blocks_layer_weights(const tri_model *model, int64_t layer);
tri_status tri_blocks_parameters(const tri_model *model, tri_parameter_table *table);
tri_status tri_blocks_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x);
tri_status tri_blocks_append(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list, int32_t *x);
tri_status tri_blocks_end(const tri_model *model, tri_op_list *list, int32_t x, int32_t *hidden, int32_t *head_weight);

#endif
