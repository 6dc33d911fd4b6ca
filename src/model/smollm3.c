/* SmolLM 3 (2025): Llama without rotary embeddings in every fourth layer. */
#include "base/memory.h"
#include "model/family.h"
#include "model/window.h"

#include <inttypes.h>
#include <stdio.h>

static const tri_hf_key keys[] = {
    TRI_HF_KEYS_FIELD("mlp_bias", BOOL, mlp_bias),
    TRI_HF_KEYS_READS("no_rope_layers"),
    TRI_HF_KEYS_READS("no_rope_layer_interval"),
    {.key = NULL},
};

/* Reads [1, 1, 1, 0, ...]: 1 is a layer with a rotary embedding, despite the key's name. */
static tri_status read_layers(const tri_json_reader *from, const json_t *layers, tri_model *out) {
  bool *rotates = NULL;
  if (!json_is_array(layers) || json_array_size(layers) != (size_t)out->num_layers) {
    return tri_fail(TRI_BAD_FILE, "%s: `no_rope_layers` is not a list of %" PRId64 " (num_hidden_layers)", from->path,
                    out->num_layers);
  }
  TRI_TRY(tri_alloc("layers", (size_t)out->num_layers, sizeof *rotates, &rotates));
  tri_status status = TRI_OK;
  for (size_t i = 0; i < json_array_size(layers) && status == TRI_OK; i++) {
    const json_t *layer = json_array_get(layers, i);
    const json_int_t value = json_integer_value(layer);
    rotates[i] = value == 1;
    if (json_is_integer(layer) && (value == 0 || value == 1)) continue;
    status = tri_fail(TRI_BAD_FILE, "%s: `no_rope_layers` has values other than 0 and 1", from->path);
  }
  if (status == TRI_OK) status = tri_layer_set_print(rotates, "no_rope_layers", out->num_layers, out->rope_layers);
  tri_free(rotates);
  if (status != TRI_OK || out->rope_layers[0] != '\0') return status;
  return tri_fail(TRI_UNSUPPORTED, "%s: `no_rope_layers` leaves no layer with rotary positions", from->path);
}

static tri_status read_turning(const tri_json_reader *from, tri_model *out) {
  const json_t *layers = tri_reader_get(from, "no_rope_layers");
  int64_t interval = 4;
  if (layers != NULL) return read_layers(from, layers, out);
  TRI_TRY(tri_reader_size(from, "no_rope_layer_interval", interval, &interval));
  if (interval == 1) {
    return tri_fail(TRI_UNSUPPORTED, "%s: `no_rope_layer_interval` is 1, which leaves no layer with rotary positions",
                    from->path);
  }
  snprintf(out->rope_layers, sizeof out->rope_layers, "%" PRId64 " of %" PRId64, interval - 1, interval);
  return TRI_OK;
}

/* Reads the layers with rotary embeddings, and the layers with a window: without `layer_types`, those without rotary
 * embeddings. */
static tri_status smollm3_read(const tri_json_reader *from, tri_model *out) {
  bool *windowed = NULL;
  TRI_TRY(read_turning(from, out));
  if (out->window == 0 || tri_reader_get(from, "layer_types") != NULL) return TRI_OK;
  TRI_TRY(tri_alloc("layers", (size_t)out->num_layers, sizeof *windowed, &windowed));
  for (int64_t i = 0; i < out->num_layers; i++) windowed[i] = !tri_model_layer_turns(out, i);
  const tri_status status = tri_layer_set_print(windowed, "no_rope_layers", out->num_layers, out->window_layers);
  tri_free(windowed);
  if (out->window_layers[0] == '\0') out->window = 0; /* all layers have rotary embeddings */
  return status;
}

static void smollm3_write(const tri_model *model, json_t *to) {
  json_t *layers = json_array();
  for (int64_t i = 0; i < model->num_layers; i++) {
    json_array_append_new(layers, json_integer(tri_model_layer_turns(model, i) ? 1 : 0));
  }
  json_object_set_new(to, "no_rope_layers", layers);
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "smollm3",
     .architecture = "SmolLM3ForCausalLM",
     .absent = {.vocab_size = 128256,
                .max_sequence = 32768,
                .hidden_size = 2048,
                .ffn_size = 11008,
                .num_layers = 36,
                .num_heads = 16,
                .num_kv_heads = 4,
                .norm_eps = 1e-6,
                .init_std = 0.02,
                .rope_theta = 2e6,
                .tied = true},
     .window = {.known = true, .switched = true, .by_layer = true, .layers_first = true},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, TRI_HF_KEYS_LLAMA_REST, tri_hf_keys_attention_bias,
                keys},
     .read = smollm3_read,
     .write = smollm3_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_smollm3 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION, .names = {TRI_BLOCKS_LLAMA_NAMES}},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_SILU, .tied = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", "mlp_bias", TRI_FAMILY_WINDOW_KEYS, "rope_layers",
                            "activation"),
    .hf_keys = hf_keys};
