#include "model/hf_keys.h"

#define FIELD TRI_HF_KEYS_FIELD

const tri_hf_key tri_hf_keys_llama_sizes[] = {
    FIELD("vocab_size", SIZE, vocab_size),
    FIELD("max_position_embeddings", SIZE, max_sequence),
    FIELD("hidden_size", SIZE, hidden_size),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_ffn_size[] = {
    FIELD("intermediate_size", SIZE, ffn_size),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_attention_bias[] = {
    FIELD("attention_bias", BOOL, attention_bias),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_heads[] = {
    FIELD("num_hidden_layers", SIZE, num_layers),
    FIELD("num_attention_heads", SIZE, num_heads),
    FIELD("num_key_value_heads", SIZE_OR_NULL, num_kv_heads),
    FIELD("head_dim", SIZE, head_dim),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_hidden_act[] = {
    FIELD("hidden_act", ACTIVATION, activation),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_rms_norm_eps[] = {
    FIELD("rms_norm_eps", POSITIVE, norm_eps),
    {.key = NULL},
};

const tri_hf_key tri_hf_keys_others[] = {
    FIELD("initializer_range", NUMBER, init_std),
    {.key = "attention_dropout", .kind = TRI_HF_KEYS_FIXED, .value = "0.0", .only_written = true},
    FIELD("tie_word_embeddings", BOOL, tied),
    {.key = "sliding_window", .kind = TRI_HF_KEYS_WINDOW},
    {.key = "rope_theta", .kind = TRI_HF_KEYS_ROPE},
    {.key = NULL},
};
