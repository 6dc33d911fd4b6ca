/* The architectures of llama.cpp that the families have, and the keys of a GGUF file that describe a model.
 *
 * llama.cpp knows an architecture by its name ("qwen3moe"), reads its numbers from keys, and finds everything else in
 * its own code: the activation, the order of norms, which tensors must be there. So a model that differs from this code
 * cannot be written, and tri_llamacpp_find refuses it by the name of the difference. Sources: llama.cpp's
 * convert_hf_to_gguf.py and src/models of 2026. */
#ifndef TRI_LLAMACPP_ARCHITECTURE_H
#define TRI_LLAMACPP_ARCHITECTURE_H

#include "gguf/writer.h"
#include "model/model.h"

/* The tensor output.weight of an architecture. */
typedef enum tri_llamacpp_output {
  TRI_LLAMACPP_OUTPUT_IF_UNTIED, /* without it llama.cpp uses the embedding */
  TRI_LLAMACPP_OUTPUT_ALWAYS,    /* a tied model has a copy of the embedding */
  TRI_LLAMACPP_OUTPUT_NEVER,     /* all models are tied */
} tri_llamacpp_output;

/* The comment of a bool member describes an architecture for which the member is true. */
typedef struct tri_llamacpp_arch {
  const char *model_type; /* model_type in config.json */
  const char *name;       /* llama.cpp's name */
  tri_family family;
  tri_llamacpp_output output;
  bool in_pairs;     /* rotary embeddings rotate components 2i and 2i + 1 of a head; in other architectures i and
                        i + head_dim / 2, as in Hugging Face's models */
  bool no_rope;      /* positions are learned; there are no rotary embeddings */
  bool gelu;         /* the activation is GELU; else it is SiLU */
  bool any_head_dim; /* head_dim may differ from hidden_size / num_heads */
  bool biases;       /* GEMMs other than those of q, k and v may have biases */
  bool needs_biases; /* attention and feed-forward parts must have biases, which are 0 if the model has none */
  bool equal_kv;     /* num_kv_heads must be num_heads */
  bool llama3;       /* rope_scaling of type llama3 is supported */
  bool part_rotates; /* only a part of each head may rotate */
  bool windows;      /* sliding windows are supported */
  bool expert_ffn;   /* the key feed_forward_length is the width of an expert */
} tri_llamacpp_arch;

enum { TRI_LLAMACPP_LAYERS = 512, TRI_LLAMACPP_EXPERTS = 1024 }; /* llama.cpp's largest numbers of layers and experts */

/* Keys of our own with the settings of llama3, from which llama.cpp has only a tensor of divisors. */
#define TRI_LLAMACPP_KEY_FACTOR "trireme.rope_scaling.factor"
#define TRI_LLAMACPP_KEY_LOW "trireme.rope_scaling.low_freq_factor"
#define TRI_LLAMACPP_KEY_HIGH "trireme.rope_scaling.high_freq_factor"
#define TRI_LLAMACPP_KEY_ORIGINAL "trireme.rope_scaling.original_max_sequence"

/* Finds the architecture of a model. Fails with TRI_UNSUPPORTED if llama.cpp has none, or computes another function;
 * the message names the difference. Logs differences that most users accept: the approximation of GELU, and windows in
 * architectures without them. */
tri_status tri_llamacpp_find(const tri_model *model, const tri_llamacpp_arch **out);

/* Returns the architecture with a name of llama.cpp's, the first of those with that name; NULL if there is none.
 * experts: whether the model has experts. */
const tri_llamacpp_arch *tri_llamacpp_arch_named(const char *name, bool experts);

/* Returns the scale of scores that llama.cpp has for Gemma 2 and 3. */
double tri_llamacpp_gemma_scale(const tri_llamacpp_arch *arch, const tri_model *model);

/* Adds general.architecture and the keys of the architecture. */
tri_status tri_llamacpp_add_model(tri_gguf_header *header, const tri_llamacpp_arch *arch, const tri_model *model);

/* Returns the number by which llama.cpp divides the frequency of a pair of components, for llama3 and longrope. longer:
 * for longrope, whether sequences are longer than the original ones. */
double tri_llamacpp_rope_divisor(const tri_model *model, int64_t pair, bool longer);

#endif
