/* Llama (Touvron et al. 2023; Llama 3, 2024) and its like: rotary positions, pre-norm blocks with RMS norm, no biases
 * (Qwen 2 has them on q, k and v), grouped-query attention, SwiGLU. Names and shapes are those of Hugging Face's
 * LlamaForCausalLM, which keeps matrices as [out, in].
 *
 * q, k and v lie side by side in memory and are one product; so are gate and up. */
#include "model/family.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

/* The parameters of a block in the order of the table; the three biases only with attention_bias. */
enum {
  NORM1_WEIGHT,
  Q_WEIGHT,
  K_WEIGHT,
  V_WEIGHT,
  Q_BIAS,
  K_BIAS,
  V_BIAS,
  OUT_WEIGHT,
  NORM2_WEIGHT,
  GATE_WEIGHT,
  UP_WEIGHT,
  DOWN_WEIGHT,
  BLOCK_PARAMETERS,
};
enum { TOKEN_EMBEDDING, FIRST_BLOCK };

static bool is_bias(int which) { return which == Q_BIAS || which == K_BIAS || which == V_BIAS; }

/* Index in the table of a block's parameter. */
static int32_t find(const tri_model *model, int64_t layer, int which) {
  int64_t in_block = model->attention_bias ? BLOCK_PARAMETERS : BLOCK_PARAMETERS - 3;
  int64_t before = !model->attention_bias && which > V_BIAS ? which - 3 : which;
  return (int32_t)(FIRST_BLOCK + layer * in_block + before);
}

static tri_status add_block(const tri_model *model, int64_t layer, tri_parameter_table *table) {
  int64_t width = model->hidden_size, ffn = model->ffn_size;
  int64_t q = model->num_heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  double std = model->init_std;
  double branch_std = std / sqrt(2.0 * (double)model->num_layers); /* as GPT-2 and Megatron-LM */
  const tri_part at = TRI_PART_ATTENTION, mlp = TRI_PART_MLP, norm = TRI_PART_NORM;
  const struct {
    const char *name;
    tri_parameter facts;
  } rows[BLOCK_PARAMETERS] = {
      [NORM1_WEIGHT] = {"input_layernorm.weight",
                        {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm, .init = TRI_INIT_ONE}},
      [Q_WEIGHT] = {"self_attn.q_proj.weight",
                    {.num_dims = 2, .shape = {q, width}, .part = at, .init = TRI_INIT_NORMAL, .std = std}},
      [K_WEIGHT] =
          {"self_attn.k_proj.weight",
           {.num_dims = 2, .shape = {kv, width}, .part = at, .init = TRI_INIT_NORMAL, .std = std, .joined = true}},
      [V_WEIGHT] =
          {"self_attn.v_proj.weight",
           {.num_dims = 2, .shape = {kv, width}, .part = at, .init = TRI_INIT_NORMAL, .std = std, .joined = true}},
      [Q_BIAS] = {"self_attn.q_proj.bias", {.num_dims = 1, .shape = {q}, .part = at}},
      [K_BIAS] = {"self_attn.k_proj.bias", {.num_dims = 1, .shape = {kv}, .part = at, .joined = true}},
      [V_BIAS] = {"self_attn.v_proj.bias", {.num_dims = 1, .shape = {kv}, .part = at, .joined = true}},
      [OUT_WEIGHT] = {"self_attn.o_proj.weight",
                      {.num_dims = 2,
                       .shape = {width, q},
                       .split_dim = 1,
                       .part = at,
                       .init = TRI_INIT_NORMAL,
                       .std = branch_std}},
      [NORM2_WEIGHT] = {"post_attention_layernorm.weight",
                        {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm, .init = TRI_INIT_ONE}},
      [GATE_WEIGHT] = {"mlp.gate_proj.weight",
                       {.num_dims = 2, .shape = {ffn, width}, .part = mlp, .init = TRI_INIT_NORMAL, .std = std}},
      [UP_WEIGHT] =
          {"mlp.up_proj.weight",
           {.num_dims = 2, .shape = {ffn, width}, .part = mlp, .init = TRI_INIT_NORMAL, .std = std, .joined = true}},
      [DOWN_WEIGHT] = {"mlp.down_proj.weight",
                       {.num_dims = 2,
                        .shape = {width, ffn},
                        .split_dim = 1,
                        .part = mlp,
                        .init = TRI_INIT_NORMAL,
                        .std = branch_std}},
  };
  for (int i = 0; i < BLOCK_PARAMETERS; i++) {
    if (is_bias(i) && !model->attention_bias) continue;
    tri_parameter parameter = rows[i].facts;
    parameter.layer = layer;
    snprintf(parameter.name, sizeof parameter.name, "model.layers.%ld.%s", (long)layer, rows[i].name);
    int32_t index = -1;
    TRI_TRY(tri_parameter_table_add(table, &parameter, &index));
  }
  return TRI_OK;
}

static tri_status parameters(const tri_model *model, tri_parameter_table *table) {
  int64_t width = model->hidden_size;
  int32_t index = -1;
  tri_parameter token = {.name = "model.embed_tokens.weight",
                         .num_dims = 2,
                         .shape = {model->vocab_size, width},
                         .layer = -1,
                         .part = TRI_PART_EMBEDDING,
                         .init = TRI_INIT_NORMAL,
                         .std = model->init_std};
  TRI_TRY(tri_parameter_table_add(table, &token, &index));
  for (int64_t layer = 0; layer < model->num_layers; layer++) TRI_TRY(add_block(model, layer, table));
  tri_parameter norm = {.name = "model.norm.weight",
                        .num_dims = 1,
                        .shape = {width},
                        .split_dim = -1,
                        .layer = model->num_layers,
                        .part = TRI_PART_NORM,
                        .init = TRI_INIT_ONE};
  TRI_TRY(tri_parameter_table_add(table, &norm, &index));
  if (model->tied) return TRI_OK;
  tri_parameter head = {.name = "lm_head.weight",
                        .num_dims = 2,
                        .shape = {model->vocab_size, width},
                        .layer = model->num_layers,
                        .part = TRI_PART_HEAD,
                        .init = TRI_INIT_NORMAL,
                        .std = model->init_std};
  return tri_parameter_table_add(table, &head, &index);
}

static tri_status append_block(const tri_model *model, const tri_rope_table *rope, int32_t rope_constant, int64_t layer,
                               tri_op_list *list, int32_t *x) {
  const int64_t width = model->hidden_size, ffn = model->ffn_size, attention = model->num_heads * model->head_dim;
  const int64_t qkv = attention + 2 * model->num_kv_heads * model->head_dim;
  const tri_heads heads = {model->num_heads, model->num_kv_heads, model->head_dim};
  const tri_weight_order order = TRI_WEIGHT_OUT_IN;
  const double eps = model->norm_eps;
  const int32_t qkv_bias = model->attention_bias ? find(model, layer, Q_BIAS) : -1;
  int32_t x1, x2, x3, x4, x5, x6;
  list->layer = (int32_t)layer;
  TRI_TRY(tri_op_rms_norm(list, eps, *x, find(model, layer, NORM1_WEIGHT), &x1));
  TRI_TRY(tri_op_linear(list, width, qkv, order, x1, find(model, layer, Q_WEIGHT), qkv_bias, &x2));
  TRI_TRY(tri_op_rope(list, heads, rope, rope_constant, x2, &x3));
  TRI_TRY(tri_op_attention(list, heads, rope->positions, x3, &x4));
  TRI_TRY(tri_op_linear(list, attention, width, order, x4, find(model, layer, OUT_WEIGHT), -1, &x5));
  TRI_TRY(tri_op_add(list, *x, x5, &x6));

  int32_t x7, x8, x9, x10;
  TRI_TRY(tri_op_rms_norm(list, eps, x6, find(model, layer, NORM2_WEIGHT), &x7));
  TRI_TRY(tri_op_linear(list, width, 2 * ffn, order, x7, find(model, layer, GATE_WEIGHT), -1, &x8));
  TRI_TRY(tri_op_swiglu(list, x8, &x9));
  TRI_TRY(tri_op_linear(list, ffn, width, order, x9, find(model, layer, DOWN_WEIGHT), -1, &x10));
  return tri_op_add(list, x6, x10, x);
}

static tri_status operations(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *hidden,
                             int32_t *head_weight) {
  const tri_rope_table rope = {
      .positions = positions,
      .head_dim = model->head_dim,
      .theta = model->rope_theta,
      .factor = model->rope_scaling.factor,
      .low_freq_factor = model->rope_scaling.low_freq_factor,
      .high_freq_factor = model->rope_scaling.high_freq_factor,
      .original_max_sequence = model->rope_scaling.original_max_sequence,
  };
  int32_t rope_constant = -1;
  int32_t x = -1;
  list->layer = -1;
  TRI_TRY(tri_op_rope_constant(list, &rope, &rope_constant));
  TRI_TRY(tri_op_embedding(list, model->hidden_size, model->vocab_size, positions, TOKEN_EMBEDDING, -1, &x));
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    TRI_TRY(append_block(model, &rope, rope_constant, layer, list, &x));
  }
  int32_t end = find(model, model->num_layers, NORM1_WEIGHT);
  list->layer = (int32_t)model->num_layers;
  TRI_TRY(tri_op_rms_norm(list, model->norm_eps, x, end, hidden));
  *head_weight = model->tied ? TOKEN_EMBEDDING : end + 1;
  return TRI_OK;
}

const tri_family_table tri_family_llama = {.name = "llama", .parameters = parameters, .operations = operations};
