/* Granite (2024; Granite 3.0 language models): Llama with factors on embeddings, branches, scores and logits. */
#include "model/family.h"

#include <math.h>

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("embedding_multiplier", POSITIVE, embedding_scale),
    FIELD("residual_multiplier", POSITIVE, residual_scale),
    FIELD("logits_scaling", POSITIVE, logit_divisor),
    FIELD("mlp_bias", BOOL, mlp_bias),
    TRI_HF_KEYS_READS("attention_multiplier"),
    {.key = NULL},
};

/* Reads the scale of scores: 1 if it is not given, for any head_dim. */
static tri_status granite_read(const tri_json_reader *from, tri_model *out) {
  return tri_reader_positive(from, "attention_multiplier", 1, &out->attention_scale);
}

static void granite_write(const tri_model *model, json_t *to) {
  const double usual = 1 / sqrt((double)model->head_dim);
  json_object_set_new(to, "attention_multiplier",
                      json_real(model->attention_scale == 0 ? usual : model->attention_scale));
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "granite",
     .architecture = "GraniteForCausalLM",
     .absent = {.vocab_size = 32000,
                .max_sequence = 2048,
                .hidden_size = 4096,
                .ffn_size = 11008,
                .num_layers = 32,
                .num_heads = 32,
                .embedding_scale = 1,
                .residual_scale = 1,
                .logit_divisor = 1,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 10000},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias,
                keys},
     .read = granite_read,
     .write = granite_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_granite = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION, .names = {TRI_BLOCKS_LLAMA_NAMES}},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", "mlp_bias", "attention_scale", "embedding_scale",
                            "residual_scale", "logit_divisor", "activation"),
    .hf_keys = hf_keys};
