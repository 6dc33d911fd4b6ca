/* Llama (Touvron et al. 2023; Llama 3, 2024) and its like: rotary positions, pre-norm blocks with RMS norm, no biases
 * (Qwen 2 has them on q, k and v), grouped-query attention, SwiGLU. Names and shapes are those of Hugging Face's
 * LlamaForCausalLM, which keeps matrices as [out, in].
 *
 * q, k and v lie side by side in memory and are one product; so are gate and up. */
#include "model/family.h"
#include "ops/ops.h"

#include <math.h>

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

static tri_status llama_add_block(const tri_model *model, int64_t layer, tri_parameter_table *table) {
  int64_t width = model->hidden_size, ffn = model->ffn_size;
  int64_t heads = model->num_heads, q = heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  const tri_split kv_split = tri_split_heads(0, 1, model->num_kv_heads);
  double std = model->init_std;
  double branch_std = std / sqrt(2.0 * (double)model->num_layers); /* as GPT-2 and Megatron-LM */
  const tri_part at = TRI_PART_ATTENTION, mlp = TRI_PART_MLP;
#define NAME(suffix) "model.layers.%ld." suffix
  const struct {
    const char *name;
    tri_parameter facts;
  } rows[BLOCK_PARAMETERS] = {
      [NORM1_WEIGHT] = {NAME("input_layernorm.weight"), tri_parameter_norm(width, TRI_INIT_ONE)},
      [Q_WEIGHT] = {NAME("self_attn.q_proj.weight"),
                    tri_parameter_matrix(at, q, width, tri_split_heads(0, 1, heads), std)},
      [K_WEIGHT] = {NAME("self_attn.k_proj.weight"),
                    tri_parameter_joined(tri_parameter_matrix(at, kv, width, kv_split, std))},
      [V_WEIGHT] = {NAME("self_attn.v_proj.weight"),
                    tri_parameter_joined(tri_parameter_matrix(at, kv, width, kv_split, std))},
      [Q_BIAS] = {NAME("self_attn.q_proj.bias"), tri_parameter_bias(at, q, tri_split_heads(0, 1, heads))},
      [K_BIAS] = {NAME("self_attn.k_proj.bias"), tri_parameter_joined(tri_parameter_bias(at, kv, kv_split))},
      [V_BIAS] = {NAME("self_attn.v_proj.bias"), tri_parameter_joined(tri_parameter_bias(at, kv, kv_split))},
      [OUT_WEIGHT] = {NAME("self_attn.o_proj.weight"),
                      tri_parameter_matrix(at, width, q, tri_split_heads(1, 1, heads), branch_std)},
      [NORM2_WEIGHT] = {NAME("post_attention_layernorm.weight"), tri_parameter_norm(width, TRI_INIT_ONE)},
      [GATE_WEIGHT] = {NAME("mlp.gate_proj.weight"),
                       tri_parameter_matrix(mlp, ffn, width, tri_split_elements(0, ffn), std)},
      [UP_WEIGHT] = {NAME("mlp.up_proj.weight"),
                     tri_parameter_joined(tri_parameter_matrix(mlp, ffn, width, tri_split_elements(0, ffn), std))},
      [DOWN_WEIGHT] = {NAME("mlp.down_proj.weight"),
                       tri_parameter_matrix(mlp, width, ffn, tri_split_elements(1, ffn), branch_std)},
  };
#undef NAME
  for (int i = 0; i < BLOCK_PARAMETERS; i++) {
    if (is_bias(i) && !model->attention_bias) continue;
    TRI_TRY(tri_parameter_table_add(table, rows[i].name, layer, rows[i].facts));
  }
  return TRI_OK;
}

static tri_status llama_parameters(const tri_model *model, tri_parameter_table *table) {
  const int64_t width = model->hidden_size, vocabulary = model->vocab_size, last = model->num_layers;
  const double std = model->init_std;
  const tri_split rows = tri_split_elements(0, vocabulary);
  TRI_TRY(tri_parameter_table_add(table, "model.embed_tokens.weight", -1,
                                  tri_parameter_matrix(TRI_PART_EMBEDDING, vocabulary, width, rows, std)));
  for (int64_t layer = 0; layer < last; layer++) {
    if (!tri_parameter_table_lacks(table, layer)) TRI_TRY(llama_add_block(model, layer, table));
  }
  TRI_TRY(tri_parameter_table_add(table, "model.norm.weight", last, tri_parameter_norm(width, TRI_INIT_ONE)));
  if (model->tied) return tri_parameter_table_add_tied(table, "lm_head.weight", last);
  return tri_parameter_table_add(table, "lm_head.weight", last,
                                 tri_parameter_matrix(TRI_PART_HEAD, vocabulary, width, rows, std));
}

static tri_rope_table rope_of(const tri_model *model, int64_t positions) {
  return (tri_rope_table){
      .positions = positions,
      .head_dim = model->head_dim,
      .theta = model->rope_theta,
      .factor = model->rope_scaling.factor,
      .low_freq_factor = model->rope_scaling.low_freq_factor,
      .high_freq_factor = model->rope_scaling.high_freq_factor,
      .original_max_sequence = model->rope_scaling.original_max_sequence,
  };
}

static tri_status llama_append_block(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                     int32_t *x) {
  const tri_rope_table rope = rope_of(model, positions);
  const int64_t width = model->hidden_size, ffn = tri_op_share(list, model->ffn_size);
  const tri_heads heads = tri_op_share_heads(list, model->num_heads, model->num_kv_heads, model->head_dim);
  const int64_t attention = heads.heads * heads.head_dim, qkv = attention + 2 * heads.kv_heads * heads.head_dim;
  const tri_weight_order order = TRI_WEIGHT_OUT_IN;
  const double eps = model->norm_eps;
  const int32_t qkv_bias = model->attention_bias ? find(model, layer, Q_BIAS) : -1;
  int32_t x1, x2, x3, x4, x5, x6;
  list->layer = (int32_t)layer;
  TRI_TRY(tri_op_rms_norm(list, eps, *x, find(model, layer, NORM1_WEIGHT), &x1));
  TRI_TRY(tri_op_enter_tensor(list, x1, &x1));
  TRI_TRY(tri_op_linear(list, width, qkv, order, x1, find(model, layer, Q_WEIGHT), qkv_bias, &x2));
  TRI_TRY(tri_op_rope(list, heads, &rope, x2, &x3));
  TRI_TRY(tri_op_attention(list, heads, positions, x3, &x4));
  TRI_TRY(tri_op_linear_row(list, attention, width, order, x4, find(model, layer, OUT_WEIGHT), -1, &x5));
  TRI_TRY(tri_op_add(list, *x, x5, &x6));

  int32_t x7, x8, x9, x10;
  TRI_TRY(tri_op_rms_norm(list, eps, x6, find(model, layer, NORM2_WEIGHT), &x7));
  TRI_TRY(tri_op_enter_tensor(list, x7, &x7));
  TRI_TRY(tri_op_linear(list, width, 2 * ffn, order, x7, find(model, layer, GATE_WEIGHT), -1, &x8));
  TRI_TRY(tri_op_swiglu(list, x8, &x9));
  TRI_TRY(tri_op_linear_row(list, ffn, width, order, x9, find(model, layer, DOWN_WEIGHT), -1, &x10));
  return tri_op_add(list, x6, x10, x);
}

static tri_status llama_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x) {
  return tri_op_embedding(list, model->hidden_size, model->vocab_size, positions, TOKEN_EMBEDDING, -1, x);
}

static tri_status llama_end(const tri_model *model, tri_op_list *list, int32_t x, int32_t *hidden,
                            int32_t *head_weight) {
  int32_t norm = find(model, model->num_layers, NORM1_WEIGHT);
  *head_weight = norm + 1;
  return tri_op_rms_norm(list, model->norm_eps, x, norm, hidden);
}

const tri_family_table tri_family_llama = {.name = "llama",
                                           .asks_for_ffn_size = true,
                                           .mlp_matrices = 3,
                                           .parameters = llama_parameters,
                                           .begin = llama_begin,
                                           .block = llama_append_block,
                                           .end = llama_end};
