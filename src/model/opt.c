/* OPT (Zhang et al. 2022, arXiv 2205.01068): GPT-2 with matrices as [out, in], ReLU, and learned positions that begin
 * at the third row. (OPT-350M, with norms after the branches and a narrower embedding, is another model.) */
#include "model/family.h"

#include <inttypes.h>

#define FIELD TRI_HF_KEYS_FIELD
#define ONLY TRI_HF_KEYS_ONLY
static const tri_hf_key keys[] = {
    FIELD("vocab_size", SIZE, vocab_size),
    FIELD("max_position_embeddings", SIZE, max_sequence),
    FIELD("hidden_size", SIZE, hidden_size),
    FIELD("ffn_dim", SIZE, ffn_size),
    FIELD("num_hidden_layers", SIZE, num_layers),
    FIELD("num_attention_heads", SIZE, num_heads),
    FIELD("activation_function", ACTIVATION, activation),
    FIELD("dropout", NUMBER, dropout),
    {.key = "attention_dropout", .kind = TRI_HF_KEYS_FIXED, .value = "0.0", .only_written = true},
    FIELD("init_std", NUMBER, init_std),
    FIELD("tie_word_embeddings", BOOL, tied),
    ONLY("do_layer_norm_before", "true", "norms after the branches"),
    ONLY("_remove_final_layer_norm", "false", "a model without a last norm"),
    FIELD("enable_bias", BOOL, attention_bias),
    ONLY("layer_norm_elementwise_affine", "true", "norms without weights"),
    TRI_HF_KEYS_READS("word_embed_proj_dim"),
    {.key = NULL},
};

static tri_status opt_read(const tri_json_reader *from, tri_model *out) {
  int64_t width = 0;
  TRI_TRY(tri_reader_size(from, "word_embed_proj_dim", out->hidden_size, &width));
  if (width == out->hidden_size) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: `word_embed_proj_dim` %" PRId64 " is not hidden_size %" PRId64
                  ": an embedding of another width is not supported",
                  from->path, width, out->hidden_size);
}

static void opt_write(const tri_model *model, json_t *to) {
  json_object_set_new(to, "word_embed_proj_dim", json_integer((json_int_t)model->hidden_size));
}

static tri_status opt_check(const tri_model *m) {
  TRI_TRY(tri_family_check_kv_heads(m));
  TRI_TRY(tri_family_check_head_dim(m));
  if (m->norm_eps == 1e-5) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`norm_eps` must be 1e-5 for opt, because its config.json has no key for it; leave it out");
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "opt",
     .architecture = "OPTForCausalLM",
     .absent = {.vocab_size = 50272,
                .max_sequence = 2048,
                .hidden_size = 768,
                .ffn_size = 3072,
                .num_layers = 12,
                .num_heads = 12,
                .dropout = 0.1,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .tied = true,
                .attention_bias = true},
     .tables = {keys},
     .read = opt_read,
     .write = opt_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_opt = {
    .blocks = {.embedding = "model.decoder.embed_tokens",
               .positions = "model.decoder.embed_positions",
               .norm = "model.decoder.final_layer_norm",
               .head = "lm_head",
               .layer = "model.decoder.layers.%ld.",
               .names = {.norm1 = "self_attn_layer_norm",
                         .q = "self_attn.q_proj",
                         .k = "self_attn.k_proj",
                         .v = "self_attn.v_proj",
                         .out = "self_attn.out_proj",
                         .norm2 = "final_layer_norm",
                         .up = "fc1",
                         .down = "fc2"},
               .norm_kind = TRI_NORM_LAYER,
               .biases = TRI_BIASES_ALL_OR_NONE,
               .position_offset = 2},
    .usual = {.tied = true, .attention_bias = true, .activation = TRI_ACTIVATION_RELU},
    .keys = TRI_FAMILY_KEYS("dropout", "activation", "attention_bias"),
    .hf_keys = hf_keys,
    .check = opt_check};
