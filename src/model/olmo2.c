/* OLMo 2 (2025, arXiv 2501.00656): Llama with norms after the branches instead of before them, and norms over all of q
 * and all of k. */
#include "model/family.h"

static const tri_hf_keys hf_keys[] = {
    {.model_type = "olmo2",
     .architecture = "Olmo2ForCausalLM",
     .absent = {.vocab_size = 50304,
                .max_sequence = 2048,
                .hidden_size = 4096,
                .ffn_size = 11008,
                .num_layers = 32,
                .num_heads = 32,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias}},
    {.model_type = NULL},
};

const tri_family_table tri_family_olmo2 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {.post1 = "post_attention_layernorm",
                         .post2 = "post_feedforward_layernorm",
                         TRI_BLOCKS_LLAMA_ATTENTION,
                         TRI_BLOCKS_QK_NORMS,
                         TRI_BLOCKS_LLAMA_MLP},
               .qk_norm = TRI_QK_NORM_WHOLE},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", "activation"),
    .hf_keys = hf_keys};
