/* Qwen 3 with experts (2025, arXiv 2505.09388): the experts with the largest softmax probabilities are chosen. The
 * first layers may have no experts. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
#define ALSO TRI_HF_KEYS_ALSO
static const tri_hf_key keys[] = {
    FIELD("num_experts", SIZE, num_experts),
    ALSO("num_local_experts", SIZE, num_experts),
    FIELD("num_experts_per_tok", SIZE, experts_per_token),
    FIELD("moe_intermediate_size", SIZE, expert_ffn_size),
    FIELD("norm_topk_prob", BOOL, router_normalised),
    {.key = "decoder_sparse_step",
     .kind = TRI_HF_KEYS_FIXED,
     .value = "1",
     .what = "a layer without experts between others"},
    FIELD("mlp_only_layers", FIRST_LAYERS, dense_layers),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "qwen3_moe",
     .architecture = "Qwen3MoeForCausalLM",
     .absent = {.vocab_size = 151936,
                .max_sequence = 32768,
                .hidden_size = 2048,
                .ffn_size = 6144,
                .expert_ffn_size = 768,
                .num_layers = 24,
                .num_heads = 32,
                .num_kv_heads = 4,
                .num_experts = 128,
                .experts_per_token = 8,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 10000,
                .window = 4096},
     .window = {.known = true, .switched = true},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias,
                keys}},
    {.model_type = NULL},
};

const tri_family_table tri_family_qwen3_moe = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_BLOCKS_LLAMA_NAMES, TRI_BLOCKS_QK_NORMS, TRI_BLOCKS_EXPERT_NAMES},
               .qk_norm = TRI_QK_NORM_HEADS, .windows = TRI_WINDOWS_ALL, .dense_layers = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU, .router_normalised = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", TRI_FAMILY_WINDOW_KEYS, "activation"),
    .hf_keys = hf_keys};
