/* StarCoder 2 (2024, arXiv 2402.19173): grouped queries and rotary positions with layer norms, usually biases
 * everywhere, and a feed-forward part without gates. */
#include "model/family.h"

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("norm_epsilon", POSITIVE, norm_eps),
    FIELD("residual_dropout", NUMBER, dropout),
    {.key = "embedding_dropout",
     .kind = TRI_HF_KEYS_NUMBER,
     .offset = offsetof(tri_model, dropout),
     .only_written = true},
    {.key = "hidden_act",
     .offset = offsetof(tri_model, activation),
     .kind = TRI_HF_KEYS_ACTIVATION,
     .value = "gelu_pytorch_tanh"},
    FIELD("use_bias", BOOL, attention_bias),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "starcoder2",
     .architecture = "Starcoder2ForCausalLM",
     .absent = {.vocab_size = 49152,
                .max_sequence = 4096,
                .hidden_size = 3072,
                .ffn_size = 12288,
                .num_layers = 30,
                .num_heads = 24,
                .num_kv_heads = 2,
                .norm_eps = 1e-5,
                .init_std = 0.018042,
                .rope_theta = 10000,
                .attention_bias = true,
                .tied = true},
     .window = {.known = true},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, keys, tri_hf_keys_others}},
    {.model_type = NULL},
};

const tri_family_table tri_family_starcoder2 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES,
               .names = {TRI_BLOCKS_LLAMA_NORMS, TRI_BLOCKS_LLAMA_ATTENTION, .up = "mlp.c_fc", .down = "mlp.c_proj"},
               .norm_kind = TRI_NORM_LAYER, .biases = TRI_BIASES_ALL_OR_NONE, .windows = TRI_WINDOWS_ALL,
               .drops_embedding = true},
    .usual = {.activation = TRI_ACTIVATION_GELU_TANH, .attention_bias = true, .tied = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, TRI_FAMILY_WINDOW_KEYS, "dropout", "activation", "attention_bias"),
    .hf_keys = hf_keys};
