/* OLMoE (Muennighoff et al. 2024, arXiv 2409.02060): Llama with experts in every layer, and norms over all of q and all
 * of k. The weights of the best few of a softmax over all stay as they are. */
#include "model/family.h"

#include <inttypes.h>

#define FIELD TRI_DIALECT_FIELD
#define ALSO TRI_DIALECT_ALSO
static const tri_dialect_key keys[] = {
    FIELD("num_experts", SIZE, num_experts),
    ALSO("num_local_experts", SIZE, num_experts),
    FIELD("num_experts_per_tok", SIZE, experts_per_token),
    FIELD("norm_topk_prob", BOOL, router_normalised),
    TRI_DIALECT_ONLY("clip_qkv", "null", "clipping of queries, keys and values"),
    {.key = NULL},
};
static const tri_dialect_key widths[] = {FIELD("intermediate_size", SIZE, expert_ffn_size), {.key = NULL}};

static const tri_dialect dialects[] = {
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
     .tables = {tri_dialect_llama_sizes, widths, tri_dialect_llama_rest, tri_dialect_no_biases, keys}},
    {.model_type = NULL},
};

static tri_status olmoe_check(const tri_model *m) {
  TRI_TRY(tri_blocks_check(m));
  if (m->num_heads * m->head_dim == m->hidden_size) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`head_dim` %" PRId64 " does not fit: in olmoe it is hidden_size %" PRId64 " / num_heads %" PRId64
                  ", so leave it out",
                  m->head_dim, m->hidden_size, m->num_heads);
}

static const tri_blocks blocks = {.qk_norm = TRI_QK_NORM_WHOLE, .windows = TRI_WINDOWS_NONE, TRI_BLOCKS_EXPERT_NAMES};

const tri_family_table tri_family_olmoe = {
    .asks_for_ffn_size = true, .dialects = dialects, .blocks = &blocks, .check = olmoe_check, TRI_BLOCKS_FUNCTIONS};
