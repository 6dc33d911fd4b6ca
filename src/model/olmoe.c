/* OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama with experts in every layer, and norms over all of q and all
 * of k. Weights of the chosen experts come from a softmax over all experts, and are not renormalised unless
 * `norm_topk_prob` is true. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
#define ALSO TRI_HF_KEYS_ALSO
static const tri_hf_key keys[] = {
    FIELD("num_experts", SIZE, num_experts),
    ALSO("num_local_experts", SIZE, num_experts),
    FIELD("num_experts_per_tok", SIZE, experts_per_token),
    FIELD("norm_topk_prob", BOOL, router_normalised),
    TRI_HF_KEYS_ONLY("clip_qkv", "null", "clipping of queries, keys and values"),
    {.key = NULL},
};
static const tri_hf_key widths[] = {FIELD("intermediate_size", SIZE, expert_ffn_size), {.key = NULL}};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "olmoe",
     .architecture = "OlmoeForCausalLM",
     .absent = {.vocab_size = 50304,
                .max_sequence = 4096,
                .hidden_size = 2048,
                .expert_ffn_size = 2048,
                .num_layers = 16,
                .num_heads = 16,
                .num_experts = 64,
                .experts_per_token = 8,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000},
     .tables = {tri_hf_keys_llama_sizes, widths, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias, keys}},
    {.model_type = NULL},
};

const tri_family_table tri_family_olmoe = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_BLOCKS_LLAMA_NAMES, TRI_BLOCKS_QK_NORMS, TRI_BLOCKS_EXPERT_NAMES},
               .qk_norm = TRI_QK_NORM_WHOLE},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", "activation"),
    .hf_keys = hf_keys,
    .check = tri_family_check_head_dim};
