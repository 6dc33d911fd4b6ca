/* GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks with layer norm, biases everywhere, GELU, and usually
 * one matrix for the token embedding and the output projection. Names and shapes are those of Hugging Face's
 * GPT2LMHeadModel, whose "Conv1D" keeps matrices as [in, out]. */
#include "model/family.h"

#include <inttypes.h>

static tri_status gpt2_check(const tri_model *m) {
  TRI_TRY(tri_family_check_kv_heads(m));
  return tri_family_check_head_dim(m);
}

/* Fails if config.json cannot describe the heads. gpt2_check refuses such heads too, but this model may not have been
 * completed. */
static tri_status gpt2_check_words(const tri_model *m) {
  if (m->num_heads * m->head_dim == m->hidden_size && m->num_kv_heads == m->num_heads) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "the config.json of Hugging Face's GPT-2 cannot describe head_dim %" PRId64 " x num_heads %" PRId64
                  " with hidden_size %" PRId64 ", or num_kv_heads %" PRId64,
                  m->head_dim, m->num_heads, m->hidden_size, m->num_kv_heads);
}

#define FIELD TRI_HF_KEYS_FIELD
#define ALSO TRI_HF_KEYS_ALSO
static const tri_hf_key keys[] = {
    FIELD("vocab_size", SIZE, vocab_size),
    FIELD("n_positions", SIZE, max_sequence),
    FIELD("n_embd", SIZE, hidden_size),
    FIELD("n_layer", SIZE, num_layers),
    FIELD("n_head", SIZE, num_heads),
    ALSO("max_position_embeddings", SIZE, max_sequence), /* transformers' names of the four keys, with precedence */
    ALSO("hidden_size", SIZE, hidden_size),
    ALSO("num_hidden_layers", SIZE, num_layers),
    ALSO("num_attention_heads", SIZE, num_heads),
    FIELD("n_inner", SIZE, ffn_size),
    FIELD("activation_function", ACTIVATION, activation),
    {.key = "embd_pdrop", .kind = TRI_HF_KEYS_NUMBER, .offset = offsetof(tri_model, dropout), .only_written = true},
    FIELD("resid_pdrop", NUMBER, dropout),
    {.key = "attn_pdrop", .kind = TRI_HF_KEYS_FIXED, .value = "0.0", .only_written = true},
    FIELD("layer_norm_epsilon", POSITIVE, norm_eps),
    FIELD("initializer_range", NUMBER, init_std),
    FIELD("tie_word_embeddings", BOOL, tied),
    TRI_HF_KEYS_ONLY("scale_attn_weights", "true", "attention without 1 / sqrt(head size)"),
    TRI_HF_KEYS_ONLY("scale_attn_by_inverse_layer_idx", "false", "attention scaled by the layer"),
    TRI_HF_KEYS_ONLY("add_cross_attention", "false", "cross-attention"),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .check = gpt2_check_words,
     .absent = {.vocab_size = 50257,
                .max_sequence = 1024,
                .hidden_size = 768,
                .num_layers = 12,
                .num_heads = 12,
                .dropout = 0.1,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .tied = true,
                .attention_bias = true},
     .tables = {keys}},
    {.model_type = NULL},
};

const tri_family_table tri_family_gpt2 = {
    .blocks = {.embedding = "transformer.wte",
               .positions = "transformer.wpe",
               .norm = "transformer.ln_f",
               .head = "lm_head",
               .layer = "transformer.h.%ld.",
               .names = {.norm1 = "ln_1",
                         .qkv = "attn.c_attn",
                         .out = "attn.c_proj",
                         .norm2 = "ln_2",
                         .up = "mlp.c_fc",
                         .down = "mlp.c_proj"},
               .norm_kind = TRI_NORM_LAYER,
               .biases = TRI_BIASES_ALL,
               .in_out = true,
               .drops_embedding = true},
    .usual = {.tied = true, .attention_bias = true, .activation = TRI_ACTIVATION_GELU_TANH},
    .keys = TRI_FAMILY_KEYS("dropout", "attention_bias", "activation"),
    .hf_keys = hf_keys,
    .check = gpt2_check};
