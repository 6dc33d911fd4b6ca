/* Llama (Touvron et al. 2023; Llama 3, 2024) and models that differ from it by a few numbers: Mistral has sliding
 * windows, Qwen 2 has them in some layers, and biases on q, k and v. Llama's own `attention_bias` also adds a
 * bias to attention's output projection; Granite's code models set it and `mlp_bias`. */
#include "model/family.h"

#include <string.h>

/* Keys of Llama itself; the related model types have none of them. */
static const tri_hf_key llama_biases[] = {
    TRI_HF_KEYS_FIELD("attention_bias", BOOL, attention_bias),
    TRI_HF_KEYS_FIELD("attention_bias", BOOL, output_bias),
    TRI_HF_KEYS_FIELD("mlp_bias", BOOL, mlp_bias),
    {.key = NULL},
};
/* Returns whether transformers' LlamaConfig accepts width and standard deviation; related types do not check them. */
static bool fits_llama(const tri_model *m) { return m->hidden_size % m->num_heads == 0 && m->init_std <= 1; }
static bool is_llama(const tri_model *m) {
  return m->attention_bias == m->output_bias && m->window == 0 && fits_llama(m);
}
static bool is_mistral(const tri_model *m) { return !m->attention_bias && strcmp(m->window_layers, "all") == 0; }
static bool is_ministral(const tri_model *m) { return !m->attention_bias; }

/* Checks biases: LlamaForCausalLM has one key for both biases of attention, and no windows; related types have neither
 * output_bias nor mlp_bias. */
static tri_status llama_check(const tri_model *m) {
  if (is_llama(m) || (!m->output_bias && !m->mlp_bias)) return TRI_OK;
  if (m->hidden_size % m->num_heads != 0) return tri_family_check_divides(m);
  if (!fits_llama(m)) {
    return tri_fail(TRI_BAD_CONFIG, "`init_std` %g is above 1, which transformers refuses for a LlamaForCausalLM",
                    m->init_std);
  }
  if (m->mlp_bias) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`mlp_bias` goes with biases on all products of attention or on none (`attention_bias`, "
                    "`output_bias`) and without a window: a config.json cannot express anything else");
  }
  return tri_fail(TRI_BAD_CONFIG,
                  "`output_bias` goes with `attention_bias: true` and without a window: a config.json cannot express "
                  "anything else");
}

#define ABSENT                                                                                                         \
  .hidden_size = 4096, .num_layers = 32, .num_heads = 32, .norm_eps = 1e-6, .init_std = 0.02, .rope_theta = 10000
#define TABLES tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST
#define MISTRAL                                                                                                        \
  .absent = {ABSENT, .vocab_size = 32000, .ffn_size = 14336, .max_sequence = 131072, .num_kv_heads = 8, .window = 4096}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "llama",
     .architecture = "LlamaForCausalLM",
     .is = is_llama,
     .absent = {ABSENT, .vocab_size = 32000, .ffn_size = 11008, .max_sequence = 2048},
     .tables = {TABLES, llama_biases}},
    {.model_type = "mistral",
     .architecture = "MistralForCausalLM",
     .is = is_mistral,
     MISTRAL,
     .window = {.known = true, .reads_layers = true}, /* with `layer_types` AutoModel uses Ministral's classes */
     .tables = {TABLES}},
    {.model_type = "ministral",
     .architecture = "MinistralForCausalLM",
     .is = is_ministral,
     MISTRAL,
     .window = {.known = true, .by_layer = true},
     .tables = {TABLES}},
    {.model_type = "qwen2",
     .architecture = "Qwen2ForCausalLM",
     .absent = {ABSENT, .vocab_size = 151936, .ffn_size = 22016, .max_sequence = 32768, .num_kv_heads = 32,
                .window = 4096, .attention_bias = true},
     .window = {.known = true, .switched = true, .by_layer = true, .full_layers = 28},
     .tables = {TABLES}},
    {.model_type = NULL},
};

const tri_family_table tri_family_llama = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .names = {TRI_BLOCKS_LLAMA_NAMES}, .biases = TRI_BIASES_QKV},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, TRI_FAMILY_WINDOW_KEYS, "attention_bias", "output_bias", "mlp_bias",
                            "activation"),
    .hf_keys = hf_keys,
    .check = llama_check};
