/* The numbers that describe a model. Its parameters are in parameters.h, its layers in blocks.h. */
#ifndef TRI_MODEL_MODEL_H
#define TRI_MODEL_MODEL_H

#include "base/router.h"
#include "base/status.h"
#include "device/activation.h"
#include "device/dtype.h"
#include "model/layer_set.h"
#include "model/trainable.h"
#include "ops/rope_scaling.h"

#include <stdbool.h>
#include <stdint.h>

/* The families. Each has a file, which defines its table: tri_family_gpt2 (family.h). */
#define TRI_FAMILIES(X)                                                                                                \
  X(GPT2, gpt2)                                                                                                        \
  X(LLAMA, llama)                                                                                                      \
  X(QWEN3, qwen3)                                                                                                      \
  X(MIXTRAL, mixtral)                                                                                                  \
  X(QWEN3_MOE, qwen3_moe)                                                                                              \
  X(OLMOE, olmoe)                                                                                                      \
  X(DOTS1, dots1)                                                                                                      \
  X(GEMMA, gemma)                                                                                                      \
  X(GEMMA2, gemma2)                                                                                                    \
  X(GEMMA3, gemma3)                                                                                                    \
  X(PHI, phi)                                                                                                          \
  X(PHI3, phi3)                                                                                                        \
  X(GPT_NEOX, gpt_neox)                                                                                                \
  X(OLMO2, olmo2)                                                                                                      \
  X(SMOLLM3, smollm3)                                                                                                  \
  X(FALCON, falcon)                                                                                                    \
  X(STABLELM, stablelm)                                                                                                \
  X(GRANITE, granite)                                                                                                  \
  X(OPT, opt)                                                                                                          \
  X(STARCODER2, starcoder2)
#define TRI_FAMILY_VALUE(VALUE, name) TRI_FAMILY_##VALUE,
typedef enum tri_family { TRI_FAMILIES(TRI_FAMILY_VALUE) } tri_family;

/* Returns the name of a family, "gpt2"; NULL if it is not a family. */
const char *tri_family_name(tri_family family);

/* The residual connection of a layer's two branches, attention and the feed-forward part. */
typedef enum tri_residual {
  TRI_RESIDUAL_SEQUENTIAL,        /* one after the other */
  TRI_RESIDUAL_PARALLEL,          /* both have the same input, and each its own norm (GPT-NeoX) */
  TRI_RESIDUAL_PARALLEL_ONE_NORM, /* both have the same input and the same norm (Phi-2) */
} tri_residual;

typedef struct tri_model {
  char name[64]; /* name of the preset or of the model file, or "inline" */
  tri_family family;
  char model_type[32]; /* model_type in config.json; "": found from the model's numbers (tri_hf_keys.is) */
  int64_t num_layers, hidden_size, num_heads;
  int64_t num_kv_heads; /* number of heads of keys and values; equal to num_heads without grouped-query attention */
  int64_t head_dim;     /* hidden_size / num_heads unless given                      */
  int64_t ffn_size; /* 4 * hidden_size unless given; some families require it (tri_family_table.asks_for_ffn_size) */
  int64_t vocab_size, max_sequence;
  bool tied;                 /* whether the output projection has the values of the token embedding */
  bool attention_bias;       /* whether q, k and v have biases, and in some families attention's output, too
                                (tri_biases) */
  bool output_bias;          /* whether attention's output has a bias (llama) */
  bool mlp_bias;             /* whether all GEMMs of feed-forward parts have biases, in families with this choice */
  tri_activation activation; /* activation of the feed-forward part, or of its gates */
  tri_residual residual;
  double dropout; /* dropout probability of both residual branches, and in some families of the embedding */
  /* Factors and caps. tri_model_complete replaces 0 in embedding_scale, residual_scale and logit_divisor by their
   * defaults. */
  double attention_scale;                    /* factor of the scores q k; 0: 1 / sqrt(head_dim) */
  double attention_soft_cap, logit_soft_cap; /* cap c: x becomes c tanh(x / c); 0: no cap */
  double embedding_scale, residual_scale, logit_divisor;
  /* Experts; num_experts 0: every layer is dense. */
  int64_t num_experts, experts_per_token, expert_ffn_size;
  int64_t shared_experts; /* experts that every token uses; they are computed as one expert of width shared_experts *
                             expert_ffn_size */
  int64_t dense_layers; /* number of layers, from the first on, that have a dense feed-forward part of ffn_size in place
                           of experts */
  tri_router_scoring router_scoring;
  int64_t router_groups, router_kept_groups; /* 1 unless given */
  bool router_quota, router_normalised, router_bias;
  double router_scale; /* 1 unless given */
  tri_balance_experts balance;
  double balance_rate, z_loss;
  double norm_eps;
  double init_std;
  double rope_theta, local_rope_theta;   /* rotary base; base of layers with a window, 0: rope_theta */
  double rotary_fraction;                /* share of each head's components, from the first on, that rotate */
  char rope_layers[TRI_LAYER_SET_BYTES]; /* the layers with rotary embeddings (layer_set.h) */
  tri_rope_scaling rope_scaling;
  int64_t window; /* maximum number of keys that a query attends to, including its own; 0: all */
  char window_layers[TRI_LAYER_SET_BYTES]; /* the layers with the window (layer_set.h)                  */
  tri_trainable tuning;                    /* which parameters are trained                              */
} tri_model;

/* Longest sequence length that is assumed without a request for it. Costs grow with the length, and most sequences are
 * shorter than a model's maximum. */
enum { TRI_LONGEST_ASSUMED_SEQUENCE = 8192 };

/* Sets *out to max_sequence, as the length of sequences that the user has not given. If max_sequence is above
 * TRI_LONGEST_ASSUMED_SEQUENCE, fails with `code` and a message that ends in `how`, a hint ("give --sequence, for
 * example --sequence 4096"). */
tri_status tri_model_assume_sequence(const tri_model *model, tri_status code, const char *how, int64_t *out);

/* Checks that none of the model's numbers is rounded to 0, 1 or infinity in the wide type of `activations`, in which
 * they are used. `prefix`: prefix of the key in the error message ("model."). */
tri_status tri_model_check_numbers(const tri_model *model, tri_dtype activations, const char *prefix);

/* Sets *out to a model with the family, hidden_size, num_heads, head_dim and ffn_size of `model`, and defaults
 * elsewhere. */
void tri_model_plain(const tri_model *model, tri_model *out);

/* Replaces 0 by defaults, and checks that the numbers fit together; the message names the key. */
tri_status tri_model_complete(tri_model *model);

/* Returns the divisor of n that is nearest to `wanted`, for messages. */
int64_t tri_nearest_divisor(int64_t n, int64_t wanted);

#endif
