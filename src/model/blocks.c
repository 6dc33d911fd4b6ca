#include "model/blocks.h"

#include "model/blocks_rows.h"
#include "model/experts.h"
#include "model/window.h"
#include "ops/experts.h"

#include <string.h>

static int32_t find(const tri_model *model, int64_t layer, tri_block_row row) {
  return tri_blocks_find(model, layer, row);
}

static tri_weight_order order_of(const tri_model *model) {
  return tri_blocks_of(model)->in_out ? TRI_WEIGHT_IN_OUT : TRI_WEIGHT_OUT_IN;
}

/* Returns the number of dropout site `which` (0, 1) of a layer. Site 0 of the model is after the embedding. */
static int64_t dropout_site(int64_t layer, int64_t which) { return 1 + 2 * layer + which; }

/* ---- norms ------------------------------------------------------------------------------------------------------- */

static tri_rms rms_of(const tri_model *model) {
  switch (tri_blocks_of(model)->norm_kind) {
    case TRI_NORM_RMS_AROUND_1: return (tri_rms){model->norm_eps, 1};
    case TRI_NORM_RMS:
    case TRI_NORM_LAYER: break;
  }
  return (tri_rms){model->norm_eps, 0};
}

static tri_status append_norm(const tri_model *model, tri_op_list *list, int32_t x, int32_t weight, int32_t bias,
                              int32_t *out) {
  switch (tri_blocks_of(model)->norm_kind) {
    case TRI_NORM_RMS:
    case TRI_NORM_RMS_AROUND_1: return tri_op_rms_norm(list, rms_of(model), x, weight, out);
    case TRI_NORM_LAYER: break;
  }
  return tri_op_layer_norm(list, model->norm_eps, x, weight, bias, out);
}

/* Appends the first or second norm of a layer (0, 1); *out is x if the layer does not have it. */
static tri_status append_layer_norm(const tri_model *model, int64_t layer, int which, tri_op_list *list, int32_t x,
                                    int32_t *out) {
  const int32_t weight = find(model, layer, which == 0 ? TRI_ROW_NORM1_WEIGHT : TRI_ROW_NORM2_WEIGHT);
  const int32_t bias = find(model, layer, which == 0 ? TRI_ROW_NORM1_BIAS : TRI_ROW_NORM2_BIAS);
  *out = x;
  return weight < 0 ? TRI_OK : append_norm(model, list, x, weight, bias, out);
}

/* Appends the end of a branch before the residual sum: the norm after it, dropout, the scale. */
static tri_status append_branch_end(const tri_model *model, int64_t layer, int which, tri_op_list *list, int32_t x,
                                    int32_t *out) {
  const int32_t post = find(model, layer, which == 0 ? TRI_ROW_POST1_WEIGHT : TRI_ROW_POST2_WEIGHT);
  if (post >= 0) TRI_TRY(append_norm(model, list, x, post, -1, &x));
  TRI_TRY(tri_op_dropout(list, model->dropout, dropout_site(layer, which), x, &x));
  return tri_op_scale(list, model->residual_scale, x, out);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Returns the rotary embedding of a layer. Layers with a window may have their own base, without scaling (Gemma 3). */
static tri_rope_table rope_of(const tri_model *model, const tri_op_list *list, int64_t positions, int64_t layer) {
  const bool local = model->local_rope_theta != 0 && tri_model_window(model, layer) != 0;
  return (tri_rope_table){.positions = positions,
                          .prefill_tokens = list->prefill_tokens,
                          .head_dim = model->head_dim,
                          .rotary_dim = tri_model_rotary_dim(model),
                          .theta = local ? model->local_rope_theta : model->rope_theta,
                          .scaling = local ? tri_rope_scaling_none() : model->rope_scaling};
}

static tri_status append_rope(const tri_model *model, int64_t positions, int64_t layer, tri_heads heads,
                              tri_op_list *list, int32_t qkv, int32_t *out) {
  *out = qkv;
  if (tri_blocks_of(model)->positions != NULL || !tri_model_layer_turns(model, layer)) return TRI_OK;
  const tri_rope_table rope = rope_of(model, list, positions, layer);
  return tri_op_rope(list, heads, &rope, qkv, out);
}

static tri_status append_qk_norm(const tri_model *model, tri_heads own, int64_t layer, tri_op_list *list, int32_t qkv,
                                 int32_t *out) {
  const tri_heads all = {model->num_heads, model->num_kv_heads, model->head_dim};
  const int32_t q = find(model, layer, TRI_ROW_Q_NORM), k = find(model, layer, TRI_ROW_K_NORM);
  const tri_rms rms = rms_of(model);
  int32_t x1, x2;
  switch (tri_blocks_of(model)->qk_norm) {
    case TRI_QK_NORM_NONE: *out = qkv; return TRI_OK;
    case TRI_QK_NORM_HEADS: return tri_op_head_norm(list, own, rms, false, qkv, q, k, out);
    case TRI_QK_NORM_WHOLE: break;
  }
  TRI_TRY(tri_op_join_tensor_heads(list, all, qkv, &x1));
  TRI_TRY(tri_op_head_norm(list, all, rms, true, x1, q, k, &x2));
  return tri_op_part_tensor_heads(list, all, x2, out);
}

/* Appends attention. x: after the norm, whole on all tensor ranks. *out: this rank's partial sum. */
static tri_status append_attention(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                   int32_t x, int32_t *out) {
  const tri_heads heads = tri_op_share_heads(list, model->num_heads, model->num_kv_heads, model->head_dim);
  const tri_scores scores = {model->attention_scale, model->attention_soft_cap};
  const int64_t width = model->hidden_size;
  const int64_t attention = heads.heads * heads.head_dim, qkv = attention + 2 * heads.kv_heads * heads.head_dim;
  int32_t x1, x2, x3;
  TRI_TRY(tri_op_linear(list, width, qkv, order_of(model), x, find(model, layer, TRI_ROW_Q_WEIGHT),
                        find(model, layer, TRI_ROW_Q_BIAS), &x1));
  TRI_TRY(append_qk_norm(model, heads, layer, list, x1, &x1));
  TRI_TRY(append_rope(model, positions, layer, heads, list, x1, &x2));
  TRI_TRY(tri_op_attention(list, heads, scores, positions, x2, &x3));
  return tri_op_linear_part(list, attention, width, order_of(model), x3, find(model, layer, TRI_ROW_OUT_WEIGHT),
                            find(model, layer, TRI_ROW_OUT_BIAS), out);
}

/* ---- feed-forward parts ------------------------------------------------------------------------------------------ */

/* Appends a dense feed-forward part; *out: this rank's partial sum. */
static tri_status append_dense(const tri_model *model, int64_t layer, tri_op_list *list, int32_t x, int32_t *out) {
  const int64_t width = model->hidden_size, ffn = tri_op_share(list, model->ffn_size);
  const tri_weight_order order = order_of(model);
  const int32_t gate = find(model, layer, TRI_ROW_GATE_WEIGHT), up = find(model, layer, TRI_ROW_UP_WEIGHT);
  int32_t x1, x2;
  if (gate >= 0) {
    TRI_TRY(tri_op_linear(list, width, 2 * ffn, order, x, gate, find(model, layer, TRI_ROW_GATE_BIAS), &x1));
    TRI_TRY(tri_op_gated(list, model->activation, x1, &x2));
  } else {
    TRI_TRY(tri_op_linear(list, width, ffn, order, x, up, find(model, layer, TRI_ROW_UP_BIAS), &x1));
    TRI_TRY(tri_op_activation(list, model->activation, x1, &x2));
  }
  return tri_op_linear_part(list, ffn, width, order, x2, find(model, layer, TRI_ROW_DOWN_WEIGHT),
                            find(model, layer, TRI_ROW_DOWN_BIAS), out);
}

static tri_status append_experts(const tri_model *model, int64_t layer, tri_op_list *list, int32_t x, int32_t *out) {
  const tri_expert_layer experts = tri_model_expert_layer(model);
  const tri_expert_parameters parameters = {.router = find(model, layer, TRI_ROW_ROUTER_WEIGHT),
                                            .router_bias = find(model, layer, TRI_ROW_ROUTER_BIAS),
                                            .gate_up = find(model, layer, TRI_ROW_EXPERT_GATE_UP),
                                            .down = find(model, layer, TRI_ROW_EXPERT_DOWN),
                                            .shared_gate = find(model, layer, TRI_ROW_SHARED_GATE),
                                            .shared_down = find(model, layer, TRI_ROW_SHARED_DOWN)};
  return tri_op_expert_layer(list, &experts, &parameters, x, out);
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* Appends a layer with sequential branches. */
static tri_status append_sequential(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                    int32_t *x) {
  int32_t x1, x2, x3, x4, x5, x6;
  TRI_TRY(append_layer_norm(model, layer, 0, list, *x, &x1));
  TRI_TRY(tri_op_enter_tensor(list, x1, &x1));
  TRI_TRY(append_attention(model, positions, layer, list, x1, &x2));
  TRI_TRY(tri_op_leave_tensor(list, x2, &x2));
  TRI_TRY(append_branch_end(model, layer, 0, list, x2, &x2));
  TRI_TRY(tri_op_add(list, *x, x2, &x3));

  TRI_TRY(append_layer_norm(model, layer, 1, list, x3, &x4));
  if (tri_model_has_experts(model, layer)) {
    TRI_TRY(append_experts(model, layer, list, x4, &x6));
  } else {
    TRI_TRY(tri_op_enter_tensor(list, x4, &x5));
    TRI_TRY(append_dense(model, layer, list, x5, &x6));
    TRI_TRY(tri_op_leave_tensor(list, x6, &x6));
  }
  TRI_TRY(append_branch_end(model, layer, 1, list, x6, &x6));
  return tri_op_add(list, x3, x6, x);
}

/* Slots of the inputs of parallel branches, and later of their outputs. Rows are whole (not sliced) between the norms
 * and the sum. */
typedef struct both {
  int32_t attention, fed;
} both;

/* Appends the norms before the branches, one for each branch or one for both, and makes their outputs whole on all
 * tensor ranks. */
static tri_status append_both_norms(const tri_model *model, int64_t layer, tri_op_list *list, int32_t x, both *out) {
  const bool sliced = list->sliced, two = find(model, layer, TRI_ROW_NORM2_WEIGHT) >= 0;
  TRI_TRY(append_layer_norm(model, layer, 0, list, x, &out->attention));
  if (two) TRI_TRY(append_layer_norm(model, layer, 1, list, x, &out->fed));
  TRI_TRY(tri_op_enter_tensor(list, out->attention, &out->attention));
  if (!two) out->fed = out->attention;
  list->sliced = sliced && two; /* the other branch's rows are still sliced */
  return two ? tri_op_enter_tensor(list, out->fed, &out->fed) : TRI_OK;
}

/* Appends the end of each branch, and then their sum. Dropout needs this order, because it differs between the
 * branches. */
static tri_status append_both_ends(const tri_model *model, int64_t layer, tri_op_list *list, both parts, int32_t *out) {
  TRI_TRY(tri_op_leave_tensor(list, parts.attention, &parts.attention));
  const bool sliced = list->sliced;
  list->sliced = false; /* this branch's rows are not sliced yet */
  TRI_TRY(tri_op_leave_tensor(list, parts.fed, &parts.fed));
  list->sliced = sliced;
  TRI_TRY(append_branch_end(model, layer, 0, list, parts.attention, &parts.attention));
  TRI_TRY(append_branch_end(model, layer, 1, list, parts.fed, &parts.fed));
  return tri_op_add(list, parts.attention, parts.fed, out);
}

/* Appends a layer with parallel branches: x + attention + feed-forward part. Without dropout, tensor ranks sum both
 * branches in one collective. */
static tri_status append_parallel(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                  int32_t *x) {
  both inputs, parts;
  int32_t sum;
  TRI_TRY(append_both_norms(model, layer, list, *x, &inputs));
  TRI_TRY(append_attention(model, positions, layer, list, inputs.attention, &parts.attention));
  TRI_TRY(append_dense(model, layer, list, inputs.fed, &parts.fed));
  if (model->dropout > 0) {
    TRI_TRY(append_both_ends(model, layer, list, parts, &sum));
  } else {
    TRI_TRY(tri_op_add(list, parts.attention, parts.fed, &sum));
    TRI_TRY(tri_op_leave_tensor(list, sum, &sum));
    TRI_TRY(append_branch_end(model, layer, 0, list, sum, &sum));
  }
  return tri_op_add(list, *x, sum, x);
}

tri_status tri_blocks_append(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list, int32_t *x) {
  list->layer = (int32_t)layer;
  switch (model->residual) {
    case TRI_RESIDUAL_SEQUENTIAL: return append_sequential(model, positions, layer, list, x);
    case TRI_RESIDUAL_PARALLEL:
    case TRI_RESIDUAL_PARALLEL_ONE_NORM: break;
  }
  return append_parallel(model, positions, layer, list, x);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* Returns the factor of the embedding. In families with scales_embedding (Gemma) it is rounded to bf16 if the
 * activations have that type. */
static double embedding_scale(const tri_model *model, tri_dtype type) {
  if (!tri_blocks_of(model)->scales_embedding || type != TRI_BF16) return model->embedding_scale;
  const uint32_t bits = (uint32_t)tri_bf16_of((float)model->embedding_scale) << 16;
  float rounded;
  memcpy(&rounded, &bits, sizeof rounded);
  return (double)rounded;
}

tri_status tri_blocks_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const bool learned = blocks->positions != NULL;
  TRI_TRY(tri_op_embedding(list, model->hidden_size, model->vocab_size, learned ? model->max_sequence : positions,
                           blocks->position_offset, TRI_BLOCKS_TOKENS, learned ? TRI_BLOCKS_POSITIONS : -1, x));
  TRI_TRY(tri_op_scale(list, embedding_scale(model, list->type), *x, x));
  return blocks->drops_embedding ? tri_op_dropout(list, model->dropout, 0, *x, x) : TRI_OK;
}

tri_status tri_blocks_end(const tri_model *model, tri_op_list *list, int32_t x, tri_blocks_head *out) {
  const tri_blocks_last last = tri_blocks_find_last(model);
  out->weight = last.head_weight;
  out->logits = (tri_logits){1 / model->logit_divisor, model->logit_soft_cap, last.head_bias};
  return append_norm(model, list, x, last.norm_weight, last.norm_bias, &out->hidden);
}
