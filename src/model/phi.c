/* Phi-1.5 and Phi-2 (2023): attention and feed-forward part after the same norm, biases everywhere, also on the output
 * projection, and positions that rotate a part of each head. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("layer_norm_eps", POSITIVE, norm_eps),
    {.key = "embd_pdrop", .kind = TRI_HF_KEYS_NUMBER, .offset = offsetof(tri_model, dropout), .only_written = true},
    FIELD("resid_pdrop", NUMBER, dropout),
    TRI_HF_KEYS_ONLY("qk_layernorm", "false", "a norm of queries and keys"),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "phi",
     .architecture = "PhiForCausalLM",
     .absent = {.vocab_size = 51200,
                .max_sequence = 2048,
                .hidden_size = 2048,
                .ffn_size = 8192,
                .num_layers = 24,
                .num_heads = 32,
                .rotary_fraction = 0.5,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .rope_theta = 10000,
                .attention_bias = true},
     .rope = {.fraction = "partial_rotary_factor"},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, tri_hf_keys_hidden_act, keys,
                tri_hf_keys_others}},
    {.model_type = NULL},
};

const tri_family_table tri_family_phi = {
    .blocks = {.embedding = "model.embed_tokens",
               .norm = "model.final_layernorm",
               .head = "lm_head",
               .layer = "model.layers.%ld.",
               .names = {.norm1 = "input_layernorm",
                         .q = "self_attn.q_proj",
                         .k = "self_attn.k_proj",
                         .v = "self_attn.v_proj",
                         .out = "self_attn.dense",
                         .up = "mlp.fc1",
                         .down = "mlp.fc2"},
               .norm_kind = TRI_NORM_LAYER,
               .biases = TRI_BIASES_ALL,
               .head_bias = true,
               .drops_embedding = true},
    .usual = {.activation = TRI_ACTIVATION_GELU_TANH,
              .residual = TRI_RESIDUAL_PARALLEL_ONE_NORM,
              .rotary_fraction = 0.5,
              .attention_bias = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "rotary_fraction", "dropout", "activation", "attention_bias"),
    .hf_keys = hf_keys,
    .check = tri_family_check_head_dim};
