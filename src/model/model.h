/* What a model is: the numbers that describe it. Its parameters are in parameters.h, its operations in gpt2.c and
 * llama.c. */
#ifndef TRI_MODEL_MODEL_H
#define TRI_MODEL_MODEL_H

#include "base/status.h"
#include "device/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tri_family { TRI_FAMILY_GPT2, TRI_FAMILY_LLAMA } tri_family;

/* Llama 3.1's stretching of the rotary frequencies; factor 1 is none. */
typedef struct tri_rope_scaling {
  double factor, low_freq_factor, high_freq_factor;
  int64_t original_max_sequence;
} tri_rope_scaling;

typedef enum tri_activation { TRI_ACTIVATION_GELU_TANH, TRI_ACTIVATION_GELU_ERF } tri_activation;

typedef struct tri_model {
  char name[64]; /* the preset's, or "inline" */
  tri_family family;
  int64_t num_layers, hidden_size, num_heads;
  int64_t num_kv_heads; /* equal to num_heads unless grouped-query attention (llama) */
  int64_t head_dim;     /* hidden_size / num_heads unless given                      */
  int64_t ffn_size;     /* 4 * hidden_size unless given (gpt2); asked for (llama)    */
  int64_t vocab_size, max_sequence;
  bool tied;                 /* the output projection is the token embedding             */
  bool attention_bias;       /* biases on q, k, v (llama family: Qwen 2); gpt2 always has */
  tri_activation activation; /* gpt2 */
  double dropout;            /* gpt2: embedding and both residual branches           */
  double norm_eps;
  double init_std;
  double rope_theta;
  tri_rope_scaling rope_scaling;
} tri_model;

/* Longer sequences than this are never assumed: what they cost depends on their length, and most are shorter. */
enum { TRI_LONGEST_ASSUMED_SEQUENCE = 8192 };

/* The length of sequences where nobody gave one: the longest that the model takes, unless that is long; then a
 * failure of this code asks for it and says how to give it ("give --sequence, for example --sequence 4096"). */
tri_status tri_model_assume_sequence(const tri_model *model, tri_status code, const char *how, int64_t *out);

/* Whether its numbers are still what they say where they are used, beside activations of a type; `prefix` ("model.")
 * comes before the key in the message. */
tri_status tri_model_check_numbers(const tri_model *model, tri_dtype activations, const char *prefix);

/* Checks that the numbers go together and fills in what was left at 0; the message names the key. */
tri_status tri_model_complete(tri_model *model);

#endif
