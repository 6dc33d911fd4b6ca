/* dots.llm1 (2025, arXiv 2506.05767): the router of DeepSeek-V3 (2024, arXiv 2412.19437), with ordinary attention and a
 * norm of each head of q and k. Each expert has a sigmoid score; the best few by score and bias are chosen within the
 * best groups, and the bias follows the load. The first layers have no experts, and some experts are shared by all
 * tokens.
 */
#include "model/family.h"

#include <inttypes.h>

#define FIELD TRI_HF_KEYS_FIELD
#define ALSO TRI_HF_KEYS_ALSO
static const tri_hf_key keys[] = {
    FIELD("n_routed_experts", SIZE, num_experts),
    ALSO("num_local_experts", SIZE, num_experts),
    FIELD("n_shared_experts", COUNT, shared_experts),
    FIELD("num_experts_per_tok", SIZE, experts_per_token),
    FIELD("moe_intermediate_size", SIZE, expert_ffn_size),
    FIELD("first_k_dense_replace", COUNT, dense_layers),
    FIELD("n_group", SIZE, router_groups),
    FIELD("topk_group", SIZE, router_kept_groups),
    FIELD("norm_topk_prob", BOOL, router_normalised),
    FIELD("routed_scaling_factor", POSITIVE, router_scale),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "dots1",
     .architecture = "Dots1ForCausalLM",
     .absent = {.vocab_size = 152064,
                .max_sequence = 2048,
                .hidden_size = 4608,
                .ffn_size = 10944,
                .expert_ffn_size = 1408,
                .num_layers = 62,
                .num_heads = 32,
                .num_kv_heads = 32,
                .router_scoring = TRI_ROUTER_SIGMOID,
                .router_groups = 1,
                .router_kept_groups = 1,
                .router_scale = 1,
                .router_bias = true,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 10000,
                .window = 4096},
     .window = {.known = true, .by_layer = true, .full_layers = 62},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias,
                keys}},
    {.model_type = NULL},
};

/* Refuses groups of one expert, because transformers ranks a group by its two best experts. */
static tri_status dots1_check(const tri_model *m) {
  const bool of_pairs = m->router_scoring == TRI_ROUTER_SIGMOID && !m->router_quota && m->num_experts > 0;
  if (!of_pairs || m->num_experts / m->router_groups >= 2) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`router_groups` %" PRId64 " leaves one of num_experts %" PRId64
                  " in a group, and dots1 chooses groups by their two best; take fewer groups or more experts",
                  m->router_groups, m->num_experts);
}

const tri_family_table tri_family_dots1 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_BLOCKS_LLAMA_NAMES, TRI_BLOCKS_QK_NORMS, TRI_BLOCKS_EXPERT_NAMES},
               .qk_norm = TRI_QK_NORM_HEADS, .dense_layers = true, .shared_experts = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU,
              .router_scoring = TRI_ROUTER_SIGMOID,
              .router_normalised = true,
              .router_bias = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", TRI_FAMILY_WINDOW_KEYS, "activation"),
    .hf_keys = hf_keys,
    .check = dots1_check};
