/* StableLM 2 and StableLM-3B (2023; arXiv 2402.17834): Llama with layer norms, and positions that rotate a quarter of
 * each head. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("layer_norm_eps", POSITIVE, norm_eps),
    FIELD("use_qkv_bias", BOOL, attention_bias),
    TRI_HF_KEYS_ONLY("qk_layernorm", "false", "a norm of queries and keys"),
    TRI_HF_KEYS_READS("use_parallel_residual"),
    {.key = NULL},
};

static tri_status stablelm_read(const tri_json_reader *from, tri_model *out) {
  bool parallel = false;
  TRI_TRY(tri_reader_bool(from, "use_parallel_residual", false, &parallel));
  out->residual = parallel ? TRI_RESIDUAL_PARALLEL_ONE_NORM : TRI_RESIDUAL_SEQUENTIAL;
  return TRI_OK;
}

static void stablelm_write(const tri_model *model, json_t *to) {
  const bool parallel = model->residual == TRI_RESIDUAL_PARALLEL_ONE_NORM;
  json_object_set_new(to, "use_parallel_residual", json_boolean(parallel));
}

static tri_status stablelm_check(const tri_model *m) {
  TRI_TRY(tri_family_check_head_dim(m));
  if (m->residual != TRI_RESIDUAL_PARALLEL) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`residual` must be sequential or parallel_one_norm in stablelm; parallel is gpt_neox's");
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "stablelm",
     .architecture = "StableLmForCausalLM",
     .absent = {.vocab_size = 50304,
                .max_sequence = 4096,
                .hidden_size = 2560,
                .ffn_size = 6912,
                .num_layers = 32,
                .num_heads = 32,
                .num_kv_heads = 32,
                .rotary_fraction = 0.25,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000},
     .rope = {.fraction = "partial_rotary_factor"},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, tri_hf_keys_hidden_act, keys,
                tri_hf_keys_others},
     .read = stablelm_read,
     .write = stablelm_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_stablelm = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .names = {TRI_BLOCKS_LLAMA_NAMES}, .norm_kind = TRI_NORM_LAYER,
               .biases = TRI_BIASES_QKV},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU, .rotary_fraction = 0.25},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "rotary_fraction", "residual", "attention_bias", "activation"),
    .hf_keys = hf_keys,
    .check = stablelm_check};
