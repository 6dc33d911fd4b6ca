/* Names and shapes are those of Hugging Face's, which keeps matrices as [out, in]. q, k and v lie side by side in
 * memory and are one product; so are gate and up. */
#include "model/blocks.h"

#include "model/experts.h"
#include "model/family.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* All that a block may have, in the order of the table. */
enum {
  NORM1_WEIGHT,
  Q_WEIGHT,
  K_WEIGHT,
  V_WEIGHT,
  Q_BIAS,
  K_BIAS,
  V_BIAS,
  Q_NORM,
  K_NORM,
  OUT_WEIGHT,
  NORM2_WEIGHT,
  GATE_WEIGHT,
  UP_WEIGHT,
  DOWN_WEIGHT,
  ROUTER_WEIGHT,
  ROUTER_BIAS,
  SHARED_GATE,
  SHARED_UP,
  SHARED_DOWN,
  EXPERT_GATE_UP,
  EXPERT_DOWN,
  BLOCK_ROWS,
};
enum { TOKEN_EMBEDDING, FIRST_BLOCK };

static tri_qk_norm qk_norm_of(const tri_model *model) { return tri_family_of(model)->blocks->qk_norm; }

/* Of a layer with experts or without. */
static bool has_row(const tri_model *model, bool experts, int row) {
  if (row >= Q_BIAS && row <= V_BIAS) return model->attention_bias;
  if (row == Q_NORM || row == K_NORM) return qk_norm_of(model) != TRI_QK_NORM_NONE;
  if (row >= GATE_WEIGHT && row <= DOWN_WEIGHT) return !experts;
  if (row == ROUTER_BIAS) return experts && model->router_bias;
  if (row >= SHARED_GATE && row <= SHARED_DOWN) return experts && model->shared_experts > 0;
  return row < GATE_WEIGHT || experts;
}

/* Of heads, or of all of `width`. */
static tri_parameter qk_norm_weight(const tri_model *model, int64_t width) {
  switch (qk_norm_of(model)) {
    case TRI_QK_NORM_NONE:
    case TRI_QK_NORM_HEADS: return tri_parameter_head_norm(model->head_dim);
    case TRI_QK_NORM_WHOLE: break;
  }
  /* All rows pass it on every rank of a layer, unlike norms of the residual stream. */
  tri_parameter whole = tri_parameter_norm(width, TRI_INIT_ONE);
  whole.part = TRI_PART_ATTENTION;
  return whole;
}

/* Rows that a block has before `end`. */
static int32_t rows_before(const tri_model *model, bool experts, int end) {
  int32_t count = 0;
  for (int row = 0; row < end; row++) count += has_row(model, experts, row) ? 1 : 0;
  return count;
}

/* The number of a block's first parameter: behind the embedding lie layers without experts, and then those with. The
 * layer behind the last is what follows the blocks. */
static int32_t first_of(const tri_model *model, int64_t layer) {
  const int64_t dense = tri_model_has_experts(model, layer - 1) ? model->dense_layers : layer;
  return (int32_t)(FIRST_BLOCK + dense * rows_before(model, false, BLOCK_ROWS) +
                   (layer - dense) * rows_before(model, true, BLOCK_ROWS));
}

/* The number of a block's parameter; -1 where it has none such. */
static int32_t find(const tri_model *model, int64_t layer, int row) {
  const bool experts = tri_model_has_experts(model, layer);
  return has_row(model, experts, row) ? first_of(model, layer) + rows_before(model, experts, row) : -1;
}

typedef struct named_parameter {
  const char *name;         /* behind BLOCK */
  const char *const *stack; /* whole names of a stack's matrices */
  tri_parameter facts;
} named_parameter;

/* gate and up [ffn, width], side by side; down [width, ffn]. */
static tri_parameter swiglu_in(int64_t ffn, int64_t width, double std) {
  return tri_parameter_matrix(TRI_PART_MLP, ffn, width, tri_split_elements(0, ffn), std);
}

static tri_parameter swiglu_out(int64_t ffn, int64_t width, double std) {
  return tri_parameter_matrix(TRI_PART_MLP, width, ffn, tri_split_elements(1, ffn), std);
}

static void fill_attention(const tri_model *model, double branch_std, named_parameter rows[BLOCK_ROWS]) {
  const int64_t width = model->hidden_size, heads = model->num_heads;
  const int64_t q = heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  const tri_split q_split = tri_split_heads(0, 1, heads), kv_split = tri_split_heads(0, 1, model->num_kv_heads);
  const tri_part at = TRI_PART_ATTENTION;
  const double std = model->init_std;
  const tri_parameter kv_weight = tri_parameter_joined(tri_parameter_matrix(at, kv, width, kv_split, std));
  const tri_parameter kv_bias = tri_parameter_joined(tri_parameter_bias(at, kv, kv_split));
  const tri_parameter norm = tri_parameter_norm(width, TRI_INIT_ONE);
  rows[NORM1_WEIGHT] = (named_parameter){"input_layernorm.weight", NULL, norm};
  rows[Q_WEIGHT] = (named_parameter){"self_attn.q_proj.weight", NULL, tri_parameter_matrix(at, q, width, q_split, std)};
  rows[K_WEIGHT] = (named_parameter){"self_attn.k_proj.weight", NULL, kv_weight};
  rows[V_WEIGHT] = (named_parameter){"self_attn.v_proj.weight", NULL, kv_weight};
  rows[Q_BIAS] = (named_parameter){"self_attn.q_proj.bias", NULL, tri_parameter_bias(at, q, q_split)};
  rows[K_BIAS] = (named_parameter){"self_attn.k_proj.bias", NULL, kv_bias};
  rows[V_BIAS] = (named_parameter){"self_attn.v_proj.bias", NULL, kv_bias};
  rows[Q_NORM] = (named_parameter){"self_attn.q_norm.weight", NULL, qk_norm_weight(model, q)};
  rows[K_NORM] = (named_parameter){"self_attn.k_norm.weight", NULL, qk_norm_weight(model, kv)};
  rows[OUT_WEIGHT] = (named_parameter){"self_attn.o_proj.weight", NULL,
                                       tri_parameter_matrix(at, width, q, tri_split_heads(1, 1, heads), branch_std)};
  rows[NORM2_WEIGHT] = (named_parameter){"post_attention_layernorm.weight", NULL, norm};
}

static void fill_dense(const tri_model *model, double branch_std, named_parameter rows[BLOCK_ROWS]) {
  const int64_t width = model->hidden_size, ffn = model->ffn_size;
  const tri_parameter in = swiglu_in(ffn, width, model->init_std);
  rows[GATE_WEIGHT] = (named_parameter){"mlp.gate_proj.weight", NULL, in};
  rows[UP_WEIGHT] = (named_parameter){"mlp.up_proj.weight", NULL, tri_parameter_joined(in)};
  rows[DOWN_WEIGHT] = (named_parameter){"mlp.down_proj.weight", NULL, swiglu_out(ffn, width, branch_std)};
}

static void fill_experts(const tri_model *model, double branch_std, named_parameter rows[BLOCK_ROWS]) {
  const tri_blocks *blocks = tri_family_of(model)->blocks;
  const int64_t width = model->hidden_size, experts = model->num_experts, ffn = model->expert_ffn_size;
  const int64_t shared = model->shared_experts * ffn;
  const double std = model->init_std;
  const tri_parameter shared_in = swiglu_in(shared, width, std);
  rows[ROUTER_WEIGHT] = (named_parameter){blocks->router, NULL,
                                          tri_parameter_matrix(TRI_PART_ROUTER, experts, width, tri_split_none(), std)};
  rows[ROUTER_BIAS] = (named_parameter){blocks->router_bias, NULL, tri_parameter_balance(experts)};
  rows[SHARED_GATE] = (named_parameter){"mlp.shared_experts.gate_proj.weight", NULL, shared_in};
  rows[SHARED_UP] = (named_parameter){"mlp.shared_experts.up_proj.weight", NULL, tri_parameter_joined(shared_in)};
  rows[SHARED_DOWN] =
      (named_parameter){"mlp.shared_experts.down_proj.weight", NULL, swiglu_out(shared, width, branch_std)};
  rows[EXPERT_GATE_UP] =
      (named_parameter){NULL, blocks->gate_up, tri_parameter_experts(experts, 2, ffn, width, 0, std)};
  rows[EXPERT_DOWN] =
      (named_parameter){NULL, &blocks->down, tri_parameter_experts(experts, 1, width, ffn, 1, branch_std)};
}

static tri_status add_block(const tri_model *model, int64_t layer, tri_parameter_table *table) {
  const double branch_std = model->init_std / sqrt(2.0 * (double)model->num_layers); /* as GPT-2 and Megatron-LM */
  const bool experts = tri_model_has_experts(model, layer);
  named_parameter rows[BLOCK_ROWS] = {{0}};
  fill_attention(model, branch_std, rows);
  if (experts) {
    fill_experts(model, branch_std, rows);
  } else {
    fill_dense(model, branch_std, rows);
  }
  for (int row = 0; row < BLOCK_ROWS; row++) {
    char name[TRI_PARAMETER_NAME_BYTES];
    if (!has_row(model, experts, row)) continue;
    if (rows[row].stack != NULL) {
      TRI_TRY(tri_parameter_table_add_stack(table, rows[row].stack, layer, rows[row].facts));
      continue;
    }
    snprintf(name, sizeof name, "model.layers.%%ld.%s", rows[row].name);
    TRI_TRY(tri_parameter_table_add(table, name, layer, rows[row].facts));
  }
  return TRI_OK;
}

tri_status tri_blocks_parameters(const tri_model *model, tri_parameter_table *table) {
  const int64_t width = model->hidden_size, vocabulary = model->vocab_size, last = model->num_layers;
  const double std = model->init_std;
  const tri_split rows = tri_split_elements(0, vocabulary);
  TRI_TRY(tri_parameter_table_add(table, "model.embed_tokens.weight", -1,
                                  tri_parameter_matrix(TRI_PART_EMBEDDING, vocabulary, width, rows, std)));
  for (int64_t layer = 0; layer < last; layer++) {
    if (!tri_parameter_table_lacks(table, layer)) TRI_TRY(add_block(model, layer, table));
  }
  TRI_TRY(tri_parameter_table_add(table, "model.norm.weight", last, tri_parameter_norm(width, TRI_INIT_ONE)));
  if (model->tied) return tri_parameter_table_add_tied(table, "lm_head.weight", last);
  return tri_parameter_table_add(table, "lm_head.weight", last,
                                 tri_parameter_matrix(TRI_PART_HEAD, vocabulary, width, rows, std));
}

double tri_blocks_layer_weights(const tri_model *model, int64_t layer) {
  const double width = (double)model->hidden_size;
  const double attention = (double)(model->num_heads * model->head_dim);
  const double kv = (double)(model->num_kv_heads * model->head_dim);
  const double fed =
      tri_model_has_experts(model, layer) ? tri_model_expert_weights(model) : 3.0 * width * (double)model->ffn_size;
  return width * (2.0 * attention + 2.0 * kv) + fed;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static tri_rope_table rope_of(const tri_model *model, const tri_op_list *list, int64_t positions) {
  return (tri_rope_table){.positions = positions,
                          .together = list->together,
                          .head_dim = model->head_dim,
                          .theta = model->rope_theta,
                          .scaling = model->rope_scaling};
}

static tri_status append_qk_norm(const tri_model *model, tri_heads own, int64_t layer, tri_op_list *list, int32_t qkv,
                                 int32_t *out) {
  const tri_heads all = {model->num_heads, model->num_kv_heads, model->head_dim};
  const int32_t q = find(model, layer, Q_NORM), k = find(model, layer, K_NORM);
  const tri_rms rms = {.eps = model->norm_eps};
  int32_t x1, x2;
  switch (qk_norm_of(model)) {
    case TRI_QK_NORM_NONE: *out = qkv; return TRI_OK;
    case TRI_QK_NORM_HEADS: return tri_op_head_norm(list, own, rms, false, qkv, q, k, out);
    case TRI_QK_NORM_WHOLE: break;
  }
  TRI_TRY(tri_op_join_tensor_heads(list, all, qkv, &x1));
  TRI_TRY(tri_op_head_norm(list, all, rms, true, x1, q, k, &x2));
  return tri_op_part_tensor_heads(list, all, x2, out);
}

/* What attention adds to x. */
static tri_status append_attention(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                   int32_t x, int32_t *out) {
  const tri_rope_table rope = rope_of(model, list, positions);
  const tri_heads heads = tri_op_share_heads(list, model->num_heads, model->num_kv_heads, model->head_dim);
  const int64_t width = model->hidden_size;
  const int64_t attention = heads.heads * heads.head_dim, qkv = attention + 2 * heads.kv_heads * heads.head_dim;
  const tri_weight_order order = TRI_WEIGHT_OUT_IN;
  int32_t x1, x2, x3, x4;
  TRI_TRY(tri_op_rms_norm(list, (tri_rms){.eps = model->norm_eps}, x, find(model, layer, NORM1_WEIGHT), &x1));
  TRI_TRY(tri_op_enter_tensor(list, x1, &x1));
  TRI_TRY(tri_op_linear(list, width, qkv, order, x1, find(model, layer, Q_WEIGHT), find(model, layer, Q_BIAS), &x2));
  TRI_TRY(append_qk_norm(model, heads, layer, list, x2, &x2));
  TRI_TRY(tri_op_rope(list, heads, &rope, x2, &x3));
  TRI_TRY(tri_op_attention(list, heads, (tri_scores){0}, positions, x3, &x4));
  return tri_op_linear_row(list, attention, width, order, x4, find(model, layer, OUT_WEIGHT), -1, out);
}

/* What a feed-forward part that every token meets makes of x behind its norm. */
static tri_status append_dense(const tri_model *model, int64_t layer, tri_op_list *list, int32_t x, int32_t *out) {
  const int64_t width = model->hidden_size, ffn = tri_op_share(list, model->ffn_size);
  const tri_weight_order order = TRI_WEIGHT_OUT_IN;
  int32_t x1, x2, x3;
  TRI_TRY(tri_op_enter_tensor(list, x, &x1));
  TRI_TRY(tri_op_linear(list, width, 2 * ffn, order, x1, find(model, layer, GATE_WEIGHT), -1, &x2));
  TRI_TRY(tri_op_gated(list, TRI_ACTIVATION_SILU, x2, &x3));
  return tri_op_linear_row(list, ffn, width, order, x3, find(model, layer, DOWN_WEIGHT), -1, out);
}

static tri_status append_experts(const tri_model *model, int64_t layer, tri_op_list *list, int32_t x, int32_t *out) {
  const tri_expert_layer experts = tri_model_expert_layer(model);
  const tri_expert_parameters parameters = {.router = find(model, layer, ROUTER_WEIGHT),
                                            .router_bias = find(model, layer, ROUTER_BIAS),
                                            .gate_up = find(model, layer, EXPERT_GATE_UP),
                                            .down = find(model, layer, EXPERT_DOWN),
                                            .shared_gate = find(model, layer, SHARED_GATE),
                                            .shared_down = find(model, layer, SHARED_DOWN)};
  return tri_op_expert_layer(list, &experts, &parameters, x, out);
}

tri_status tri_blocks_append(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list, int32_t *x) {
  int32_t attended, x1, x2, fed;
  list->layer = (int32_t)layer;
  TRI_TRY(append_attention(model, positions, layer, list, *x, &attended));
  TRI_TRY(tri_op_add(list, *x, attended, &x1));
  TRI_TRY(tri_op_rms_norm(list, (tri_rms){.eps = model->norm_eps}, x1, find(model, layer, NORM2_WEIGHT), &x2));
  if (tri_model_has_experts(model, layer)) {
    TRI_TRY(append_experts(model, layer, list, x2, &fed));
  } else {
    TRI_TRY(append_dense(model, layer, list, x2, &fed));
  }
  return tri_op_add(list, x1, fed, x);
}

tri_status tri_blocks_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x) {
  return tri_op_embedding(list, model->hidden_size, model->vocab_size, positions, 0, TOKEN_EMBEDDING, -1, x);
}

tri_status tri_blocks_end(const tri_model *model, tri_op_list *list, int32_t x, int32_t *hidden, int32_t *head_weight) {
  int32_t norm = first_of(model, model->num_layers);
  *head_weight = norm + 1;
  return tri_op_rms_norm(list, (tri_rms){.eps = model->norm_eps}, x, norm, hidden);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Where the formulas of a kind of scaling have no answer. */
static tri_status check_scaling(const tri_model *m) {
  const tri_rope_scaling *scaling = &m->rope_scaling;
  switch (scaling->type) {
    case TRI_ROPE_LINEAR: return TRI_OK;
    case TRI_ROPE_LLAMA3:
      if (scaling->factor == 1 || scaling->high_freq_factor > scaling->low_freq_factor) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG, "`rope_scaling.high_freq_factor` %g must be above low_freq_factor %g",
                      scaling->high_freq_factor, scaling->low_freq_factor);
    case TRI_ROPE_DYNAMIC:
      if (m->head_dim > 2) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG,
                      "`rope_scaling.type` dynamic is for heads of more than 2 components; take linear");
    case TRI_ROPE_YARN: break;
  }
  if (scaling->beta_fast < scaling->beta_slow) {
    return tri_fail(TRI_BAD_CONFIG, "`rope_scaling.beta_fast` %g must not be below beta_slow %g", scaling->beta_fast,
                    scaling->beta_slow);
  }
  if (m->rope_theta > 1) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`rope_theta` %g must be above 1 for rope_scaling.type yarn", m->rope_theta);
}

static tri_status check_heads(const tri_model *m) {
  if (m->num_heads % m->num_kv_heads != 0) {
    return tri_fail(TRI_BAD_CONFIG, "`num_kv_heads` %" PRId64 " does not divide num_heads %" PRId64 "; try %" PRId64,
                    m->num_kv_heads, m->num_heads, tri_nearest_divisor(m->num_heads, m->num_kv_heads));
  }
  if (m->head_dim % 2 != 0) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`head_dim` %" PRId64
                    " (hidden_size / num_heads unless given) is odd, and rotary positions turn "
                    "pairs; choose an even one",
                    m->head_dim);
  }
  if (m->num_heads * m->head_dim > 1 << 20) {
    return tri_fail(TRI_BAD_CONFIG, "`head_dim` is too large: num_heads %" PRId64 " x head_dim %" PRId64 " is above %d",
                    m->num_heads, m->head_dim, 1 << 20);
  }
  return TRI_OK;
}

/* What its config.json, and so everybody who reads that, has no words for. */
static tri_status check_windows(const tri_model *m) {
  const char *family = tri_family_name(m->family);
  if (m->window == 0) return TRI_OK;
  switch (tri_family_of(m)->blocks->windows) {
    case TRI_WINDOWS_ANY: return TRI_OK;
    case TRI_WINDOWS_ALL:
      if (strcmp(m->window_layers, "all") == 0) return TRI_OK;
      return tri_fail(TRI_BAD_CONFIG, "`window_layers` is `%.60s`; %s has the window in all layers, so leave it out",
                      m->window_layers, family);
    case TRI_WINDOWS_NONE: break;
  }
  return tri_fail(TRI_BAD_CONFIG, "`window` is for llama and others; %s sees all tokens before, so leave it out",
                  family);
}

tri_status tri_blocks_check(const tri_model *m) {
  const char *family = tri_family_name(m->family);
  const tri_blocks *blocks = tri_family_of(m)->blocks;
  TRI_TRY(check_heads(m));
  if (m->dropout != 0) return tri_fail(TRI_BAD_CONFIG, "`dropout` is for gpt2; %s has none, so leave it out", family);
  if (m->activation != TRI_ACTIVATION_GELU_TANH) {
    return tri_fail(TRI_BAD_CONFIG, "`activation` is for gpt2; %s has SwiGLU, so leave it out", family);
  }
  if (m->attention_bias && !blocks->biased) {
    return tri_fail(TRI_BAD_CONFIG, "`attention_bias` is for gpt2 and llama; %s has no biases, so leave it out",
                    family);
  }
  TRI_TRY(check_windows(m));
  return check_scaling(m);
}
