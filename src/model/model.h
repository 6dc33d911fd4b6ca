/* What a model is: the numbers that describe it. Its parameters are in parameters.h, its operations in its family's
 * file. */
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

/* The families. Each is a file, which defines its table: tri_family_gpt2 (family.h). */
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

/* "gpt2"; NULL if it is not one of them. */
const char *tri_family_name(tri_family family);

/* How a layer's two branches, attention and the feed-forward part, are added to its input. */
typedef enum tri_residual {
  TRI_RESIDUAL_SEQUENTIAL,        /* one behind the other */
  TRI_RESIDUAL_PARALLEL,          /* both of the same input, each behind a norm of its own (GPT-NeoX) */
  TRI_RESIDUAL_PARALLEL_ONE_NORM, /* both behind the same norm (Phi-2) */
} tri_residual;

typedef struct tri_model {
  char name[64]; /* the preset's, or "inline" */
  tri_family family;
  char model_type[32]; /* what its config.json called it; "": what its numbers say */
  int64_t num_layers, hidden_size, num_heads;
  int64_t num_kv_heads; /* equal to num_heads unless grouped-query attention (llama) */
  int64_t head_dim;     /* hidden_size / num_heads unless given                      */
  int64_t ffn_size;     /* 4 * hidden_size unless given (gpt2); asked for (llama)    */
  int64_t vocab_size, max_sequence;
  bool tied;                 /* the output projection is the token embedding             */
  bool attention_bias;       /* biases on q, k, v, and where the family has it (tri_biases) on attention's output */
  bool output_bias;          /* llama: on that, too */
  bool mlp_bias;             /* biases on all products of feed-forward parts, of families that have them not always */
  tri_activation activation; /* of the feed-forward part, or of its gates */
  tri_residual residual;
  double dropout; /* of both residual branches, and of the embedding in some families */
  /* Factors and caps: 0 stands for what the family has usually, or for none. */
  double attention_scale;                    /* of queries times keys; 0: 1 / sqrt(head_dim)                       */
  double attention_soft_cap, logit_soft_cap; /* c: c tanh(x / c); 0: none                                          */
  double embedding_scale, residual_scale, logit_divisor;
  /* Experts; num_experts 0: every layer is dense. */
  int64_t num_experts, experts_per_token, expert_ffn_size;
  int64_t shared_experts; /* that all tokens meet: as one of shared_experts * expert_ffn_size */
  int64_t dense_layers;   /* the first layers, which have none, but a dense part of ffn_size */
  tri_router_scoring router_scoring;
  int64_t router_groups, router_kept_groups; /* 1 unless given */
  bool router_quota, router_normalised, router_bias;
  double router_scale; /* 1 unless given */
  tri_balance_experts balance;
  double balance_rate, z_loss;
  double norm_eps;
  double init_std;
  double rope_theta, local_rope_theta;   /* the second of layers with a window; 0: the same */
  double rotary_fraction;                /* of each head's components, from the first on, that are rotated */
  char rope_layers[TRI_LAYER_SET_BYTES]; /* the layers with rotary positions */
  tri_rope_scaling rope_scaling;
  int64_t window;                          /* keys that a query sees at most, itself among them; 0: all */
  char window_layers[TRI_LAYER_SET_BYTES]; /* the layers that have it: window.h                         */
  tri_trainable tuning;                    /* what of it is trained                                     */
} tri_model;

/* Longer sequences than this are never assumed: what they cost depends on their length, and most are shorter. */
enum { TRI_LONGEST_ASSUMED_SEQUENCE = 8192 };

/* The length of sequences if none was given: the longest that the model takes, unless that is long; then a
 * failure of this code asks for it and says how to give it ("give --sequence, for example --sequence 4096"). */
tri_status tri_model_assume_sequence(const tri_model *model, tri_status code, const char *how, int64_t *out);

/* Whether its numbers are still what they say where they are used, beside activations of a type; `prefix` ("model.")
 * comes before the key in the message. */
tri_status tri_model_check_numbers(const tri_model *model, tri_dtype activations, const char *prefix);

/* The model of the same family and width of which nothing else is said, as far as it is filled in. */
void tri_model_plain(const tri_model *model, tri_model *out);

/* Checks that the numbers go together and fills in what was left at 0; the message names the key. */
tri_status tri_model_complete(tri_model *model);

/* The divisor of n nearest to `wanted`: for messages. */
int64_t tri_nearest_divisor(int64_t n, int64_t wanted);

#endif
