/* The layers of a decoder: attention and a feed-forward part, each in a residual branch. A family's tri_blocks
 * describes the differences of its layers from other families, and the names of its parameters on disk; sizes are in
 * tri_model. */
#ifndef TRI_MODEL_BLOCKS_H
#define TRI_MODEL_BLOCKS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/list.h"
#include "ops/ops.h"

/* Norms of the residual stream, and of queries and keys. */
typedef enum tri_norm_kind {
  TRI_NORM_RMS,
  TRI_NORM_RMS_AROUND_1, /* the stored weights are differences from 1 (Gemma) */
  TRI_NORM_LAYER,        /* with biases */
} tri_norm_kind;

/* RMS norm of queries and keys before the rotary embedding. */
typedef enum tri_qk_norm {
  TRI_QK_NORM_NONE,
  TRI_QK_NORM_HEADS, /* each head separately, all with the same weights (Qwen 3) */
  TRI_QK_NORM_WHOLE, /* all heads of q together, and all of k (OLMoE) */
} tri_qk_norm;

/* The order of rows if q, k and v are one tensor on disk (tri_block_names.qkv). */
typedef enum tri_qkv_order {
  TRI_QKV_STACKED,  /* all of q, all of k, all of v (Phi-3) */
  TRI_QKV_BY_HEADS, /* each head of k and v follows the heads of q that share it (GPT-NeoX, Falcon) */
} tri_qkv_order;

/* The GEMMs of a layer with biases. With the first three values, `mlp_bias` decides about feed-forward parts. */
typedef enum tri_biases {
  TRI_BIASES_NONE,
  TRI_BIASES_QKV,         /* q, k and v if attention_bias; attention's output projection if output_bias */
  TRI_BIASES_ATTENTION,   /* all GEMMs of attention if attention_bias */
  TRI_BIASES_AND_FFN,     /* all GEMMs of attention if attention_bias; GEMMs of feed-forward parts always (GPT-NeoX) */
  TRI_BIASES_ALL_OR_NONE, /* all GEMMs of a layer if attention_bias */
  TRI_BIASES_ALL,         /* always all GEMMs of a layer */
} tri_biases;

/* Layers that may have a sliding window: any set of layers, or only all layers together. */
typedef enum tri_windows { TRI_WINDOWS_ANY, TRI_WINDOWS_ALL } tri_windows;

/* Names of the modules of a layer: the part before ".weight" and ".bias". NULL: no such module. */
typedef struct tri_block_names {
  const char *norm1, *norm2; /* before attention, and before the feed-forward part */
  const char *post1, *post2; /* norms at the end of each branch */
  const char *both1, *both2; /* names of both norms if model.residual is TRI_RESIDUAL_PARALLEL; NULL: the same names as
                                norm1 and norm2 */
  const char *q, *k, *v, *qkv, *out;
  const char *q_norm, *k_norm;
  const char *gate, *up, *gate_up, *down; /* neither gate nor gate_up: the feed-forward part is not gated */
  /* Names of experts' tensors on disk; `router` NULL: the family has no experts. Names of the router end in ".weight"
   * and do not include the prefix tri_blocks.layer. Names of an expert's matrices are complete: the first %ld is the
   * layer, the second the expert. */
  const char *router, *router_bias;
  const char *expert_gate_up[2], *expert_down;
} tri_block_names;

/* The comment of a bool member describes a family for which the member is true. */
typedef struct tri_blocks {
  const char *embedding, *positions, *norm, *head; /* modules; `positions`: learned positions, NULL: rotary embedding */
  const char *layer;                               /* prefix of a layer's modules; %ld: its number */
  tri_block_names names;
  tri_norm_kind norm_kind;
  tri_qk_norm qk_norm;
  tri_qkv_order qkv_order;
  tri_biases biases;
  tri_windows windows;
  bool in_out;           /* matrices of layers are [in, out], and q, k and v are one parameter (GPT-2's Conv1D) */
  bool head_bias;        /* the output projection has a bias */
  bool drops_embedding;  /* dropout applies after the embedding as well */
  bool scales_embedding; /* the embedding is multiplied by the root of hidden_size, in the activations' type (Gemma) */
  int64_t position_offset; /* row of the learned positions for position 0 (OPT) */
  bool dense_layers;       /* the first layers may have no experts */
  bool shared_experts;     /* layers may have shared experts, which every token uses */
} tri_blocks;

/* Names of Llama and of most later families. */
#define TRI_BLOCKS_LLAMA_MODULES                                                                                       \
  .embedding = "model.embed_tokens", .norm = "model.norm", .head = "lm_head", .layer = "model.layers.%ld."
#define TRI_BLOCKS_LLAMA_NORMS .norm1 = "input_layernorm", .norm2 = "post_attention_layernorm"
#define TRI_BLOCKS_LLAMA_ATTENTION                                                                                     \
  .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj", .out = "self_attn.o_proj"
#define TRI_BLOCKS_QK_NORMS .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define TRI_BLOCKS_LLAMA_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define TRI_BLOCKS_LLAMA_NAMES TRI_BLOCKS_LLAMA_NORMS, TRI_BLOCKS_LLAMA_ATTENTION, TRI_BLOCKS_LLAMA_MLP

/* Names of experts' tensors in Qwen and most later families. */
#define TRI_BLOCKS_EXPERT_NAMES                                                                                        \
  .router = "mlp.gate.weight", .router_bias = "mlp.gate.e_score_correction_bias",                                      \
  .expert_gate_up = {"model.layers.%ld.mlp.experts.%ld.gate_proj.weight",                                              \
                     "model.layers.%ld.mlp.experts.%ld.up_proj.weight"},                                               \
  .expert_down = "model.layers.%ld.mlp.experts.%ld.down_proj.weight"

/* Input and parameters of the output projection. */
typedef struct tri_blocks_head {
  int32_t hidden; /* slot of the input of the output projection */
  int32_t weight; /* number of the projection's weight among the parameters */
  tri_logits logits;
} tri_blocks_head;

/* Checks that a model's numbers fit its family's layers; the message names the key. */
tri_status tri_blocks_check(const tri_model *model);
/* Returns the number of elements of a layer's matrices by which one token is multiplied. */
double tri_blocks_layer_weights(const tri_model *model, int64_t layer);
/* Appends the parameters of a model to a table, except layers that the table leaves out (tri_parameter_table_lacks). */
tri_status tri_blocks_parameters(const tri_model *model, tri_parameter_table *table);
/* Appends the calls that compute the input of the first layer from the tokens, and sets *x to its slot. `positions`:
 * maximum number of tokens of a sequence. */
tri_status tri_blocks_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x);
/* Appends the calls that compute one layer from slot *x, and sets *x to the slot of its output. */
tri_status tri_blocks_append(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list, int32_t *x);
/* Appends the calls that compute the input of the output projection from slot x, and sets *out. */
tri_status tri_blocks_end(const tri_model *model, tri_op_list *list, int32_t x, tri_blocks_head *out);

#endif
