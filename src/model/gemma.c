/* Gemma (2024, arXiv 2403.08295): Llama with GELU gates, embeddings multiplied by the root of their width, and norms
 * whose weights are stored as differences from 1. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
/* The first files of Gemma have "gelu" for the tanh form: transformers always uses this form for Gemma. */
static const tri_hf_key keys[] = {
    {.key = "hidden_act", .kind = TRI_HF_KEYS_FIXED, .value = "\"gelu_pytorch_tanh\"", .other_value = "\"gelu\""},
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "gemma",
     .architecture = "GemmaForCausalLM",
     .absent = {.vocab_size = 256000,
                .max_sequence = 8192,
                .hidden_size = 3072,
                .ffn_size = 24576,
                .num_layers = 28,
                .num_heads = 16,
                .num_kv_heads = 16,
                .head_dim = 256,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 10000,
                .tied = true},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, tri_hf_keys_rms_norm_eps,
                tri_hf_keys_others, keys, tri_hf_keys_attention_bias}},
    {.model_type = NULL},
};

const tri_family_table tri_family_gemma = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION, .names = {TRI_BLOCKS_LLAMA_NAMES},
               .norm_kind = TRI_NORM_RMS_AROUND_1, .scales_embedding = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_GELU_TANH, .tied = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias"),
    .hf_keys = hf_keys};
