/* GPT-NeoX (Black et al. 2022, arXiv 2204.06745) and Pythia (2023, arXiv 2304.01373): attention and feed-forward part
 * with the same input, each after its own norm, positions that rotate a quarter of each head, biases everywhere. On
 * disk q, k and v of each head are adjacent. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("vocab_size", SIZE, vocab_size),        FIELD("max_position_embeddings", SIZE, max_sequence),
    FIELD("hidden_size", SIZE, hidden_size),      FIELD("intermediate_size", SIZE, ffn_size),
    FIELD("num_hidden_layers", SIZE, num_layers), FIELD("num_attention_heads", SIZE, num_heads),
    FIELD("hidden_act", ACTIVATION, activation),  FIELD("layer_norm_eps", POSITIVE, norm_eps),
    FIELD("hidden_dropout", NUMBER, dropout),     FIELD("attention_bias", BOOL, attention_bias),
    TRI_HF_KEYS_ALSO("head_dim", SIZE, head_dim), /* must equal the value that follows from the other keys */
    TRI_HF_KEYS_READS("use_parallel_residual"),   {.key = NULL},
};

static tri_status gpt_neox_read(const tri_json_reader *from, tri_model *out) {
  bool parallel = true;
  TRI_TRY(tri_reader_bool(from, "use_parallel_residual", true, &parallel));
  out->residual = parallel ? TRI_RESIDUAL_PARALLEL : TRI_RESIDUAL_SEQUENTIAL;
  return TRI_OK;
}

static void gpt_neox_write(const tri_model *model, json_t *to) {
  json_object_set_new(to, "use_parallel_residual", json_boolean(model->residual == TRI_RESIDUAL_PARALLEL));
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "gpt_neox",
     .architecture = "GPTNeoXForCausalLM",
     .absent = {.vocab_size = 50432,
                .max_sequence = 2048,
                .hidden_size = 6144,
                .ffn_size = 24576,
                .num_layers = 44,
                .num_heads = 64,
                .rotary_fraction = 0.25,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000,
                .attention_bias = true},
     .rope = {.theta = "rotary_emb_base", .fraction = "rotary_pct"},
     .tables = {keys, tri_hf_keys_others},
     .read = gpt_neox_read,
     .write = gpt_neox_write},
    {.model_type = NULL},
};

static tri_status gpt_neox_check(const tri_model *m) {
  TRI_TRY(tri_family_check_kv_heads(m));
  TRI_TRY(tri_family_check_head_dim(m));
  if (m->residual != TRI_RESIDUAL_PARALLEL_ONE_NORM) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`residual` must be parallel or sequential in gpt_neox; parallel_one_norm is phi's");
}

const tri_family_table tri_family_gpt_neox = {
    .blocks = {.embedding = "gpt_neox.embed_in",
               .norm = "gpt_neox.final_layer_norm",
               .head = "embed_out",
               .layer = "gpt_neox.layers.%ld.",
               .names = {TRI_BLOCKS_LLAMA_NORMS, .qkv = "attention.query_key_value", .out = "attention.dense",
                         .up = "mlp.dense_h_to_4h", .down = "mlp.dense_4h_to_h"},
               .norm_kind = TRI_NORM_LAYER,
               .qkv_order = TRI_QKV_BY_HEADS,
               .biases = TRI_BIASES_AND_FFN,
               .drops_embedding = true},
    .usual = {.activation = TRI_ACTIVATION_GELU_ERF,
              .residual = TRI_RESIDUAL_PARALLEL,
              .rotary_fraction = 0.25,
              .attention_bias = true},
    .keys =
        TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "rotary_fraction", "residual", "dropout", "activation", "attention_bias"),
    .hf_keys = hf_keys,
    .check = gpt_neox_check};
