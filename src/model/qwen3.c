/* Qwen 3 (2025, arXiv 2505.09388): Llama with a norm of each head of q and k, and with heads of a width that is
 * independent of hidden_size. */
#include "model/family.h"

static const tri_hf_keys hf_keys[] = {
    {.model_type = "qwen3",
     .architecture = "Qwen3ForCausalLM",
     .absent = {.vocab_size = 151936,
                .max_sequence = 32768,
                .hidden_size = 4096,
                .ffn_size = 22016,
                .num_layers = 32,
                .num_heads = 32,
                .num_kv_heads = 32,
                .head_dim = 128,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 10000,
                .window = 4096},
     .window = {.known = true, .switched = true, .by_layer = true, .full_layers = 28},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias}},
    {.model_type = NULL},
};

const tri_family_table tri_family_qwen3 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_BLOCKS_LLAMA_NAMES, TRI_BLOCKS_QK_NORMS}, .qk_norm = TRI_QK_NORM_HEADS},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", TRI_FAMILY_WINDOW_KEYS, "activation"),
    .hf_keys = hf_keys};
