/* What the layers of a decoder are made of: attention and a feed-forward part, each in a residual branch. A family says
 * by a tri_blocks what is not the same everywhere, and what its parameters are called on disk; its numbers are in the
 * model. */
#ifndef TRI_MODEL_BLOCKS_H
#define TRI_MODEL_BLOCKS_H

#include "model/model.h"
#include "model/parameters.h"
#include "ops/list.h"
#include "ops/ops.h"

/* Norms of the residual stream, and of queries and keys. */
typedef enum tri_norm_kind {
  TRI_NORM_RMS,
  TRI_NORM_RMS_AROUND_1, /* weights are kept as what they differ from 1 (Gemma) */
  TRI_NORM_LAYER,        /* with biases */
} tri_norm_kind;

/* Whether queries and keys are normalised, by RMS norm, before they rotate. */
typedef enum tri_qk_norm {
  TRI_QK_NORM_NONE,
  TRI_QK_NORM_HEADS, /* each head by itself, all with the same weights (Qwen 3) */
  TRI_QK_NORM_WHOLE, /* all heads of q together, and all of k (OLMoE) */
} tri_qk_norm;

/* How q, k and v lie in one tensor on disk, where they do (tri_block_names.qkv). */
typedef enum tri_qkv_order {
  TRI_QKV_STACKED,  /* all of q, all of k, all of v (Phi-3) */
  TRI_QKV_BY_HEADS, /* each head of k and v behind the heads of q that share it (GPT-NeoX, Falcon) */
} tri_qkv_order;

/* Of the products of a layer. With the first three `mlp_bias` says whether feed-forward parts have them. */
typedef enum tri_biases {
  TRI_BIASES_NONE,
  TRI_BIASES_QKV,       /* on q, k and v, where attention_bias says so; on attention's output where output_bias does */
  TRI_BIASES_ATTENTION, /* on all products of attention, where attention_bias says so */
  TRI_BIASES_AND_FFN,   /* the same, and on those of feed-forward parts always (GPT-NeoX) */
  TRI_BIASES_ALL_OR_NONE, /* on all products of a layer, where attention_bias says so */
  TRI_BIASES_ALL,         /* on all products of a layer, always */
} tri_biases;

/* Which layers may look back through a sliding window. */
typedef enum tri_windows { TRI_WINDOWS_ANY, TRI_WINDOWS_ALL } tri_windows;

/* Modules of a layer: what stands before ".weight" and ".bias". NULL: no such module. */
typedef struct tri_block_names {
  const char *norm1, *norm2; /* before attention, and before the feed-forward part */
  const char *post1, *post2; /* behind them, in the branch */
  const char *both1, *both2; /* norm1 and norm2 of a layer whose branches are parallel and have a norm each; NULL: as
                                they are */
  const char *q, *k, *v, *qkv, *out;
  const char *q_norm, *k_norm;
  const char *gate, *up, *gate_up, *down; /* neither gate nor gate_up: the feed-forward part is not gated */
  /* Experts; no `router`: none. Whole names, of the matrices of an expert with %ld for the layer and for the expert. */
  const char *router, *router_bias;
  const char *expert_gate_up[2], *expert_down;
} tri_block_names;

typedef struct tri_blocks {
  const char *embedding, *positions, *norm, *head; /* modules; `positions` are learned ones, NULL: rotary */
  const char *layer;                               /* what modules of a layer begin with; %ld is its number */
  tri_block_names names;
  tri_norm_kind norm_kind;
  tri_qk_norm qk_norm;
  tri_qkv_order qkv_order;
  tri_biases biases;
  tri_windows windows;
  bool in_out;             /* matrices of layers are [in, out], and q, k and v are one parameter (GPT-2's Conv1D) */
  bool head_bias;          /* the output projection has one */
  bool drops_embedding;    /* dropout behind the embedding, too */
  bool scales_embedding;   /* by the root of hidden_size, in the activations' type (Gemma) */
  int64_t position_offset; /* of the learned positions' rows (OPT) */
  bool dense_layers;       /* the first layers may be without experts */
  bool shared_experts;     /* there may be one that all tokens meet */
} tri_blocks;

/* The names of Llama, and of most that came after it. */
#define TRI_BLOCKS_LLAMA_MODULES                                                                                       \
  .embedding = "model.embed_tokens", .norm = "model.norm", .head = "lm_head", .layer = "model.layers.%ld."
#define TRI_BLOCKS_LLAMA_NORMS .norm1 = "input_layernorm", .norm2 = "post_attention_layernorm"
#define TRI_BLOCKS_LLAMA_ATTENTION                                                                                     \
  .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj", .out = "self_attn.o_proj"
#define TRI_BLOCKS_QK_NORMS .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define TRI_BLOCKS_LLAMA_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define TRI_BLOCKS_LLAMA_NAMES TRI_BLOCKS_LLAMA_NORMS, TRI_BLOCKS_LLAMA_ATTENTION, TRI_BLOCKS_LLAMA_MLP

/* The usual names of what experts are made of: Qwen's, and of all that took them. */
#define TRI_BLOCKS_EXPERT_NAMES                                                                                        \
  .router = "mlp.gate.weight", .router_bias = "mlp.gate.e_score_correction_bias",                                      \
  .expert_gate_up = {"model.layers.%ld.mlp.experts.%ld.gate_proj.weight",                                              \
                     "model.layers.%ld.mlp.experts.%ld.up_proj.weight"},                                               \
  .expert_down = "model.layers.%ld.mlp.experts.%ld.down_proj.weight"

/* What the output projection takes, and its parameters. */
typedef struct tri_blocks_head {
  int32_t hidden, weight;
  tri_logits logits;
} tri_blocks_head;

/* Whether the numbers of a model go together with what its family is made of; the message names the key. */
tri_status tri_blocks_check(const tri_model *model);
/* Elements of a layer's matrices that one token meets. */
double tri_blocks_layer_weights(const tri_model *model, int64_t layer);
/* Appends the entries of a model's table. */
tri_status tri_blocks_parameters(const tri_model *model, tri_parameter_table *table);
/* Append calls: what makes the first layer's input out of tokens; layer `layer`, from x to x; what comes behind the
 * last one, up to what the output projection takes. `positions` is the most that a sequence can reach. */
tri_status tri_blocks_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x);
tri_status tri_blocks_append(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list, int32_t *x);
tri_status tri_blocks_end(const tri_model *model, tri_op_list *list, int32_t x, tri_blocks_head *out);

#endif
