/* Gemma 3 (2025, arXiv 2503.19786), text models: Gemma 2 with norms of queries and keys instead of caps, and windows in
 * five layers of six, which have their own rotary base. transformers ignores `attn_logit_softcapping`, which its
 * configuration has from Gemma 2. */
#include "model/blocks.h"
#include "model/family.h"
#include "model/gemma.h"

#include <inttypes.h>
#include <stdio.h>

/* Reads the scale of scores, and in files that are older than `layer_types` also the layers with a window. */
static tri_status gemma3_read(const tri_json_reader *from, tri_model *out) {
  int64_t pattern = 6;
  TRI_TRY(tri_gemma_read(from, out));
  if (out->window == 0 || tri_reader_get(from, "layer_types") != NULL) return TRI_OK;
  TRI_TRY(tri_reader_size(from, "sliding_window_pattern", pattern, &pattern));
  if (pattern > 1) {
    snprintf(out->window_layers, sizeof out->window_layers, "%" PRId64 " of %" PRId64, pattern - 1, pattern);
    return TRI_OK;
  }
  out->window = 0; /* no layer has a window */
  out->local_rope_theta = 0;
  out->window_layers[0] = '\0';
  return TRI_OK;
}

static const tri_hf_key keys[] = {
    TRI_HF_KEYS_READS("sliding_window_pattern"),
    TRI_HF_KEYS_ONLY("use_bidirectional_attention", "false", "attention to later tokens"),
    {.key = NULL},
};

static const tri_hf_keys hf_keys[] = {
    {.model_type = "gemma3_text",
     .architecture = "Gemma3ForCausalLM",
     .absent =
         {.vocab_size = 262208, .max_sequence = 131072, TRI_GEMMA_ABSENT, .rope_theta = 1e6, .local_rope_theta = 1e4},
     .window = {.known = true, .by_layer = true, .usual = "5 of 6"},
     .rope = {.local = "rope_local_base_freq"},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, tri_hf_keys_rms_norm_eps,
                tri_hf_keys_others, tri_gemma_keys, keys, tri_hf_keys_attention_bias},
     .check = tri_gemma_check,
     .read = gemma3_read,
     .write = tri_gemma_write},
    {.model_type = NULL},
};

/* Refuses scaling with the same base in all layers: Gemma 3's config.json only scales positions in layers without a
 * window. */
static tri_status check_local_theta(const tri_model *m) {
  if (m->window == 0 || m->local_rope_theta != 0 || tri_rope_is_plain(&m->rope_scaling)) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`local_rope_theta` is missing: rope_scaling leaves gemma3's layers with a window as they are, so "
                  "they need a base of their own, for example `local_rope_theta: %g`",
                  m->rope_theta);
}

/* Checks the heads and the local base. Refuses `rope_scaling.truncate: false`: keys of rope_scaling are written into
 * the objects for kinds of layers, where transformers does not read `truncate`. */
static tri_status gemma3_check(const tri_model *m) {
  TRI_TRY(tri_family_check_divides(m));
  TRI_TRY(check_local_theta(m));
  if (m->rope_scaling.type != TRI_ROPE_YARN || m->rope_scaling.truncate) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG,
                  "`rope_scaling.truncate` is true in gemma3, where transformers does not read it; leave it out");
}

const tri_family_table tri_family_gemma3 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_GEMMA_NORMS, TRI_BLOCKS_LLAMA_ATTENTION, TRI_BLOCKS_QK_NORMS, TRI_BLOCKS_LLAMA_MLP},
               .norm_kind = TRI_NORM_RMS_AROUND_1, .qk_norm = TRI_QK_NORM_HEADS, .scales_embedding = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_GELU_TANH, .tied = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", TRI_FAMILY_WINDOW_KEYS, "local_rope_theta",
                            "attention_scale", "logit_soft_cap"),
    .hf_keys = hf_keys,
    .check = gemma3_check};
