/* Gemma 2 (2024, arXiv 2408.00118): Gemma with norms also after its branches, a window in every other layer, and caps
 * on scores and logits. */
#include "model/blocks.h"
#include "model/family.h"
#include "model/gemma.h"

#include <math.h>

#define FIELD TRI_HF_KEYS_FIELD
static const tri_hf_key keys[] = {
    FIELD("attn_logit_softcapping", NUMBER_OR_NULL, attention_soft_cap),
    {.key = NULL},
};
const tri_hf_key tri_gemma_keys[] = {
    {.key = "hidden_activation", .kind = TRI_HF_KEYS_FIXED, .value = "\"gelu_pytorch_tanh\""},
    FIELD("final_logit_softcapping", NUMBER_OR_NULL, logit_soft_cap),
    TRI_HF_KEYS_READS("query_pre_attn_scalar"),
    {.key = NULL},
};

/* Reads the scale of scores: the inverse root of a number that may differ from head_dim. */
tri_status tri_gemma_read(const tri_json_reader *from, tri_model *out) {
  double scalar = 0;
  TRI_TRY(tri_reader_positive(from, "query_pre_attn_scalar", 256, &scalar));
  out->attention_scale = 1 / sqrt(scalar);
  return TRI_OK;
}

/* Finds query_pre_attn_scalar, an integer; returns false if the scale does not correspond to one. */
static bool find_scalar(const tri_model *model, double *out) {
  const double scale = model->attention_scale;
  const double scalar = scale == 0 ? (double)model->head_dim : 1 / (scale * scale), whole = round(scalar);
  const bool is_whole = fabs(scalar - whole) <= 1e-9 * scalar;
  *out = is_whole ? whole : scalar;
  return is_whole;
}

tri_status tri_gemma_check(const tri_model *model) {
  double scalar = 0;
  if (find_scalar(model, &scalar)) return TRI_OK;
  const double below = floor(scalar) < 1 ? 1 : floor(scalar), near = scalar - below < 0.5 ? below : below + 1;
  return tri_fail(TRI_BAD_CONFIG,
                  "`attention_scale` %.10g is 1 / sqrt(%.10g), and the config.json of this family can only express 1 / "
                  "sqrt of a whole number; take %.10g, which is 1 / sqrt(%.0f), or leave it out",
                  model->attention_scale, scalar, 1 / sqrt(near), near);
}

void tri_gemma_write(const tri_model *model, json_t *to) {
  double scalar = 0;
  const bool is_whole = find_scalar(model, &scalar);
  json_object_set_new(to, "query_pre_attn_scalar", is_whole ? json_integer((json_int_t)scalar) : json_real(scalar));
}

static const tri_hf_keys hf_keys[] = {
    {.model_type = "gemma2",
     .architecture = "Gemma2ForCausalLM",
     .absent = {.vocab_size = 256000,
                .max_sequence = 8192,
                TRI_GEMMA_ABSENT,
                .rope_theta = 10000,
                .attention_soft_cap = 50,
                .logit_soft_cap = 30},
     .window = {.known = true, .by_layer = true, .usual = "1 of 2"},
     .tables = {tri_hf_keys_llama_sizes, tri_hf_keys_ffn_size, tri_hf_keys_heads, tri_hf_keys_rms_norm_eps,
                tri_hf_keys_others, tri_gemma_keys, keys, tri_hf_keys_attention_bias},
     .check = tri_gemma_check,
     .read = tri_gemma_read,
     .write = tri_gemma_write},
    {.model_type = NULL},
};

const tri_family_table tri_family_gemma2 = {
    .blocks = {TRI_BLOCKS_LLAMA_MODULES, .biases = TRI_BIASES_ATTENTION,
               .names = {TRI_GEMMA_NORMS, TRI_BLOCKS_LLAMA_ATTENTION, TRI_BLOCKS_LLAMA_MLP},
               .norm_kind = TRI_NORM_RMS_AROUND_1, .scales_embedding = true},
    .asks_for_ffn_size = true,
    .usual = {.activation = TRI_ACTIVATION_GELU_TANH, .tied = true},
    .keys = TRI_FAMILY_KEYS(TRI_FAMILY_ROPE_KEYS, "attention_bias", TRI_FAMILY_WINDOW_KEYS, "attention_scale",
                            "attention_soft_cap", "logit_soft_cap"),
    .hf_keys = hf_keys,
    .check = tri_family_check_divides};
