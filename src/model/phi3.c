/* Phi-3 and Phi-4 (2024, arXiv 2404.14219): Llama with q, k and v, and gate and up, in one tensor each. */
#include "model/family.h"
#include "model/window.h"

#include <inttypes.h>

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    {.key = "embd_pdrop", .kind = TRI_HF_KEYS_NUMBER, .offset = offsetof(tri_model, dropout), .only_written = true},
    FIELD("resid_pdrop", NUMBER, dropout),
    {.key = NULL},
};

/* Checks the rotated pairs, which transformers counts from hidden_size / num_heads, for any head_dim. */
static tri_status check_pairs(const tri_model *m) {
  const int64_t head_dim = m->hidden_size / m->num_heads; /* the only head_dim of transformers */
  const int64_t rotated = (int64_t)((double)head_dim * m->rotary_fraction);
  if (rotated / 2 == tri_model_rotary_dim(m) / 2) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`head_dim` %" PRId64
                  " does not go with rope_scaling.type longrope in phi3: transformers expects factors for heads of "
                  "hidden_size / num_heads = %" PRId64,
                  m->head_dim, m->hidden_size / m->num_heads);
}

/* Refuses all scaling except LongRoPE, because transformers supports no other for Phi-3, and checks the rotated pairs
 * of LongRoPE. */
static tri_status phi3_check(const tri_model *model) {
  const tri_rope_scaling *scaling = &model->rope_scaling;
  switch (scaling->type) {
    case TRI_ROPE_LONG: return check_pairs(model);
    case TRI_ROPE_LLAMA3:
    case TRI_ROPE_LINEAR:
    case TRI_ROPE_DYNAMIC:
    case TRI_ROPE_YARN: break;
  }
  if (tri_rope_is_plain(scaling)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`rope_scaling.type` of phi3 must be longrope or unset: transformers accepts no other");
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "phi3",
     .architecture = "Phi3ForCausalLM",
     .absent = {.vocab_size = 32064,
                .max_sequence = 4096,
                .hidden_size = 3072,
                .ffn_size = 8192,
                .num_layers = 32,
                .num_heads = 32,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000},
     .window = {.known = true},
     .rope = {.fraction = "partial_rotary_factor", .original_length = 4096},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, keys}},
    {.model_type = NULL},
};

const tri_family_table tri_family_phi3 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES,
               .names = {TRI_BLOCKS_LLAMA_NORMS, .qkv = "self_attn.qkv_proj", .out = "self_attn.o_proj",
                         .gate_up = "mlp.gate_up_proj", .down = "mlp.down_proj"},
               .windows = TRI_WINDOWS_ALL, .drops_embedding = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, TRI_FAMILY_WINDOW_KEYS, "rotary_fraction", "dropout", "activation"),
    .hf_keys = hf_keys,
    .check = phi3_check};
