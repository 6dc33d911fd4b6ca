/* Mixtral (Jiang et al. 2024, arXiv 2401.04088): Llama with experts in every layer. The experts with the largest
 * softmax probabilities are chosen, and their weights divided by their sum. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
#define ALSO TRI_HF_KEYS_ALSO
static const tri_hf_key keys[] = {
    FIELD("num_local_experts", SIZE, num_experts),
    ALSO("num_experts", SIZE, num_experts),
    FIELD("num_experts_per_tok", SIZE, experts_per_token),
    {.key = NULL},
};
static const tri_hf_key widths[] = {FIELD("intermediate_size", SIZE, expert_ffn_size), {.key = NULL}};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "mixtral",
     .architecture = "MixtralForCausalLM",
     .absent = {.vocab_size = 32000,
                .max_sequence = 131072,
                .hidden_size = 4096,
                .expert_ffn_size = 14336,
                .num_layers = 32,
                .num_heads = 32,
                .num_kv_heads = 8,
                .num_experts = 8,
                .experts_per_token = 2,
                .router_normalised = true,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 1e6},
     .window = {.known = true},
     .tables = {tri_hf_keys_llama_sizes, widths, TRI_HF_KEYS_LLAMA_REST, keys}},
    {.model_type = NULL},
};

#define EXPERT "model.layers.%ld.block_sparse_moe.experts.%ld."

const tri_family_table tri_family_mixtral = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES,
               .names = {TRI_BLOCKS_LLAMA_NAMES, .router = "block_sparse_moe.gate.weight",
                         .router_bias = "block_sparse_moe.gate.e_score_correction_bias",
                         .expert_gate_up = {EXPERT "w1.weight", EXPERT "w3.weight"}, .expert_down = EXPERT "w2.weight"},
               .windows = TRI_WINDOWS_ALL},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU, .router_normalised = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, TRI_FAMILY_WINDOW_KEYS, "activation"),
    .hf_keys = hf_keys};
