/* Parameters of layers, with Hugging Face's names and shapes. q, k and v are adjacent in memory, so that one GEMM
 * computes them; the same holds for gate and up. */
#include "model/blocks_rows.h"
#include "model/experts.h"
#include "model/family.h"

#include <math.h>
#include <stdio.h>

const tri_blocks *tri_blocks_of(const tri_model *model) { return &tri_family_of(model)->blocks; }

bool tri_blocks_gated(const tri_blocks *blocks) { return blocks->names.gate != NULL || blocks->names.gate_up != NULL; }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static bool has_norm2(const tri_model *model, const tri_blocks *blocks) {
  return blocks->names.norm2 != NULL && model->residual != TRI_RESIDUAL_PARALLEL_ONE_NORM;
}

static bool has_layer_norm(const tri_blocks *blocks) { return blocks->norm_kind == TRI_NORM_LAYER; }

static bool has_ffn_biases(const tri_model *model, const tri_blocks *blocks) {
  switch (blocks->biases) {
    case TRI_BIASES_NONE:
    case TRI_BIASES_QKV:
    case TRI_BIASES_ATTENTION: return model->mlp_bias;
    case TRI_BIASES_ALL_OR_NONE: return model->attention_bias;
    case TRI_BIASES_AND_FFN:
    case TRI_BIASES_ALL: break;
  }
  return true;
}

static bool has_output_bias(const tri_model *model, const tri_blocks *blocks) {
  switch (blocks->biases) {
    case TRI_BIASES_NONE: return false;
    case TRI_BIASES_QKV: return model->output_bias;
    case TRI_BIASES_ATTENTION:
    case TRI_BIASES_AND_FFN:
    case TRI_BIASES_ALL_OR_NONE: return model->attention_bias;
    case TRI_BIASES_ALL: break;
  }
  return true;
}

/* Returns whether a layer has a row. `experts`: whether the layer has experts. */
static bool has_row(const tri_model *model, const tri_blocks *blocks, bool experts, tri_block_row row) {
  switch (row) {
    case TRI_ROW_NORM1_WEIGHT: return blocks->names.norm1 != NULL;
    case TRI_ROW_NORM1_BIAS: return blocks->names.norm1 != NULL && has_layer_norm(blocks);
    case TRI_ROW_Q_WEIGHT:
    case TRI_ROW_OUT_WEIGHT: return true;
    case TRI_ROW_K_WEIGHT:
    case TRI_ROW_V_WEIGHT: return !blocks->in_out;
    case TRI_ROW_Q_BIAS: return model->attention_bias;
    case TRI_ROW_K_BIAS:
    case TRI_ROW_V_BIAS: return model->attention_bias && !blocks->in_out;
    case TRI_ROW_Q_NORM:
    case TRI_ROW_K_NORM: return blocks->qk_norm != TRI_QK_NORM_NONE;
    case TRI_ROW_OUT_BIAS: return has_output_bias(model, blocks);
    case TRI_ROW_POST1_WEIGHT: return blocks->names.post1 != NULL;
    case TRI_ROW_NORM2_WEIGHT: return has_norm2(model, blocks);
    case TRI_ROW_NORM2_BIAS: return has_norm2(model, blocks) && has_layer_norm(blocks);
    case TRI_ROW_GATE_WEIGHT: return tri_blocks_gated(blocks) && !experts;
    case TRI_ROW_UP_WEIGHT:
    case TRI_ROW_DOWN_WEIGHT: return !experts;
    case TRI_ROW_GATE_BIAS: return tri_blocks_gated(blocks) && has_ffn_biases(model, blocks) && !experts;
    case TRI_ROW_UP_BIAS:
    case TRI_ROW_DOWN_BIAS: return has_ffn_biases(model, blocks) && !experts;
    case TRI_ROW_ROUTER_WEIGHT:
    case TRI_ROW_EXPERT_GATE_UP:
    case TRI_ROW_EXPERT_DOWN: return experts;
    case TRI_ROW_ROUTER_BIAS: return experts && model->router_bias;
    case TRI_ROW_SHARED_GATE:
    case TRI_ROW_SHARED_UP:
    case TRI_ROW_SHARED_DOWN: return experts && model->shared_experts > 0;
    case TRI_ROW_POST2_WEIGHT: return blocks->names.post2 != NULL;
  }
  return false;
}

/* Returns the number of rows that a layer has before row `end`. */
static int32_t rows_before(const tri_model *model, const tri_blocks *blocks, bool experts, int end) {
  int32_t count = 0;
  for (int row = 0; row < end; row++) count += has_row(model, blocks, experts, (tri_block_row)row) ? 1 : 0;
  return count;
}

/* Returns the number of a layer's first parameter; if `layer` is num_layers, the number of the first parameter after
 * the layers. Layers without experts come directly after the embeddings, and layers with experts come last. */
static int32_t first_of(const tri_model *model, const tri_blocks *blocks, int64_t layer) {
  const int64_t dense = tri_model_has_experts(model, layer - 1) ? model->dense_layers : layer;
  const int64_t before = blocks->positions == NULL ? 1 : 2, others = layer - dense;
  const int64_t of_dense = dense > 0 ? dense * rows_before(model, blocks, false, TRI_NUM_BLOCK_ROWS) : 0;
  const int64_t of_others = others > 0 ? others * rows_before(model, blocks, true, TRI_NUM_BLOCK_ROWS) : 0;
  return (int32_t)(before + of_dense + of_others);
}

int32_t tri_blocks_find(const tri_model *model, int64_t layer, tri_block_row row) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const bool experts = tri_model_has_experts(model, layer);
  if (!has_row(model, blocks, experts, row)) return -1;
  return first_of(model, blocks, layer) + rows_before(model, blocks, experts, (int)row);
}

tri_blocks_last tri_blocks_find_last(const tri_model *model) {
  const tri_blocks *blocks = tri_blocks_of(model);
  tri_blocks_last last = {.norm_weight = first_of(model, blocks, model->num_layers), .norm_bias = -1, .head_bias = -1};
  last.head_weight = last.norm_weight + 1;
  if (has_layer_norm(blocks)) last.norm_bias = last.head_weight++;
  if (blocks->head_bias) last.head_bias = last.head_weight++;
  return last;
}

/* ---- names and shapes -------------------------------------------------------------------------------------------- */

typedef struct named_parameter {
  const char *module, *name; /* the name is tri_blocks.layer followed by MODULE.NAME, or by NAME if module is NULL */
  const char *const *stack;  /* complete names of a stack's matrices */
  tri_parameter facts;
} named_parameter;

static tri_init init_of_norms(const tri_blocks *blocks) {
  switch (blocks->norm_kind) {
    case TRI_NORM_RMS_AROUND_1: return TRI_INIT_ZERO;
    case TRI_NORM_RMS:
    case TRI_NORM_LAYER: break;
  }
  return TRI_INIT_ONE;
}

/* Returns the weight of a norm of queries or keys: of each head, or of all `width` components together. */
static tri_parameter qk_norm_weight(const tri_model *model, int64_t width) {
  const tri_blocks *blocks = tri_blocks_of(model);
  tri_parameter weight = tri_parameter_norm(width, init_of_norms(blocks));
  switch (blocks->qk_norm) {
    case TRI_QK_NORM_NONE:
    case TRI_QK_NORM_HEADS: {
      weight = tri_parameter_head_norm(model->head_dim);
      weight.init = init_of_norms(blocks);
      return weight;
    }
    case TRI_QK_NORM_WHOLE: break;
  }
  /* Every tensor rank applies this norm to all rows, unlike norms of the residual stream. */
  weight.part = TRI_PART_ATTENTION;
  return weight;
}

/* Returns gate or up [ffn, width]. */
static tri_parameter ffn_in(int64_t ffn, int64_t width, double std) {
  return tri_parameter_matrix(TRI_PART_MLP, ffn, width, tri_split_elements(0, ffn), std);
}

/* Returns down [width, ffn]. */
static tri_parameter ffn_out(int64_t ffn, int64_t width, double std) {
  return tri_parameter_matrix(TRI_PART_MLP, width, ffn, tri_split_elements(1, ffn), std);
}

/* Returns q, k or v (0, 1, 2) as rows of the tensor that has all of them; `parameter` itself if each is a tensor of its
 * own. */
static tri_parameter within_qkv(const tri_model *model, int which, tri_parameter parameter) {
  static const char *const parts[] = {"q", "k", "v"};
  const tri_blocks *blocks = tri_blocks_of(model);
  const int64_t q = model->num_heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  tri_rows_within within = {.rows = q + 2 * kv, .part = parts[which]};
  if (blocks->names.qkv == NULL) return parameter;
  switch (blocks->qkv_order) {
    case TRI_QKV_STACKED:
      within.block = which == 0 ? q : kv;
      within.stride = within.rows;
      within.first = which == 0 ? 0 : q + (which - 1) * kv;
      break;
    case TRI_QKV_BY_HEADS:
      within.block = which == 0 ? q / model->num_kv_heads : model->head_dim;
      within.stride = within.rows / model->num_kv_heads;
      within.first = which == 0 ? 0 : q / model->num_kv_heads + (which - 1) * model->head_dim;
      break;
  }
  return tri_parameter_within(parameter, within);
}

static const char *either(const char *own, const char *shared) { return shared == NULL ? own : shared; }

static void fill_qkv(const tri_model *model, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const tri_block_names *names = &tri_blocks_of(model)->names;
  const int64_t width = model->hidden_size, heads = model->num_heads;
  const int64_t q = heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  const tri_split q_split = tri_split_heads(0, 1, heads), kv_split = tri_split_heads(0, 1, model->num_kv_heads);
  const tri_part at = TRI_PART_ATTENTION;
  const tri_parameter q_weight = tri_parameter_matrix(at, q, width, q_split, model->init_std);
  const tri_parameter kv_weight = tri_parameter_joined(tri_parameter_matrix(at, kv, width, kv_split, model->init_std));
  const tri_parameter q_bias = tri_parameter_bias(at, q, q_split);
  const tri_parameter kv_bias = tri_parameter_joined(tri_parameter_bias(at, kv, kv_split));
  const char *of_q = either(names->q, names->qkv), *of_k = either(names->k, names->qkv),
             *of_v = either(names->v, names->qkv);
  rows[TRI_ROW_Q_WEIGHT] = (named_parameter){of_q, "weight", NULL, within_qkv(model, 0, q_weight)};
  rows[TRI_ROW_K_WEIGHT] = (named_parameter){of_k, "weight", NULL, within_qkv(model, 1, kv_weight)};
  rows[TRI_ROW_V_WEIGHT] = (named_parameter){of_v, "weight", NULL, within_qkv(model, 2, kv_weight)};
  rows[TRI_ROW_Q_BIAS] = (named_parameter){of_q, "bias", NULL, within_qkv(model, 0, q_bias)};
  rows[TRI_ROW_K_BIAS] = (named_parameter){of_k, "bias", NULL, within_qkv(model, 1, kv_bias)};
  rows[TRI_ROW_V_BIAS] = (named_parameter){of_v, "bias", NULL, within_qkv(model, 2, kv_bias)};
}

/* Fills q, k and v as one matrix [in, out] and one bias, with three segments. */
static void fill_qkv_in_out(const tri_model *model, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const char *name = tri_blocks_of(model)->names.qkv;
  const int64_t heads = model->num_heads, qkv = 3 * heads * model->head_dim;
  const tri_part at = TRI_PART_ATTENTION;
  rows[TRI_ROW_Q_WEIGHT] = (named_parameter){
      name, "weight", NULL,
      tri_parameter_matrix(at, model->hidden_size, qkv, tri_split_heads(1, 3, heads), model->init_std)};
  rows[TRI_ROW_Q_BIAS] =
      (named_parameter){name, "bias", NULL, tri_parameter_bias(at, qkv, tri_split_heads(0, 3, heads))};
}

/* Returns a matrix, transposed if the family stores matrices as [in, out]. */
static tri_parameter transposed(const tri_blocks *blocks, tri_parameter matrix) {
  tri_parameter turned = matrix;
  if (!blocks->in_out || matrix.in_out) return matrix;
  turned.shape[0] = matrix.shape[1];
  turned.shape[1] = matrix.shape[0];
  turned.split.dim = 1 - matrix.split.dim;
  turned.in_out = true;
  return turned;
}

static void fill_attention(const tri_model *model, double branch_std, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const tri_block_names *names = &blocks->names;
  const int64_t width = model->hidden_size, heads = model->num_heads;
  const int64_t q = heads * model->head_dim, kv = model->num_kv_heads * model->head_dim;
  const tri_parameter out =
      tri_parameter_matrix(TRI_PART_ATTENTION, width, q, tri_split_heads(1, 1, heads), branch_std);
  if (blocks->in_out) {
    fill_qkv_in_out(model, rows);
    rows[TRI_ROW_Q_WEIGHT].facts.in_out = true;
  } else {
    fill_qkv(model, rows);
  }
  rows[TRI_ROW_Q_NORM] = (named_parameter){names->q_norm, "weight", NULL, qk_norm_weight(model, q)};
  rows[TRI_ROW_K_NORM] = (named_parameter){names->k_norm, "weight", NULL, qk_norm_weight(model, kv)};
  rows[TRI_ROW_OUT_WEIGHT] = (named_parameter){names->out, "weight", NULL, transposed(blocks, out)};
  rows[TRI_ROW_OUT_BIAS] =
      (named_parameter){names->out, "bias", NULL, tri_parameter_bias(TRI_PART_ATTENTION, width, tri_split_none())};
}

static void fill_norms(const tri_model *model, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const tri_block_names *names = &blocks->names;
  const bool both = model->residual == TRI_RESIDUAL_PARALLEL && names->both1 != NULL;
  const char *norm1 = both ? names->both1 : names->norm1, *norm2 = both ? names->both2 : names->norm2;
  const tri_parameter weight = tri_parameter_norm(model->hidden_size, init_of_norms(blocks));
  const tri_parameter bias = tri_parameter_norm(model->hidden_size, TRI_INIT_ZERO);
  rows[TRI_ROW_NORM1_WEIGHT] = (named_parameter){norm1, "weight", NULL, weight};
  rows[TRI_ROW_NORM1_BIAS] = (named_parameter){norm1, "bias", NULL, bias};
  rows[TRI_ROW_POST1_WEIGHT] = (named_parameter){names->post1, "weight", NULL, weight};
  rows[TRI_ROW_NORM2_WEIGHT] = (named_parameter){norm2, "weight", NULL, weight};
  rows[TRI_ROW_NORM2_BIAS] = (named_parameter){norm2, "bias", NULL, bias};
  rows[TRI_ROW_POST2_WEIGHT] = (named_parameter){names->post2, "weight", NULL, weight};
}

/* Returns gate or up (0, 1) as rows of the tensor that has both; `parameter` itself if each is a tensor of its own. */
static tri_parameter within_gate_up(const tri_model *model, int which, tri_parameter parameter) {
  static const char *const parts[] = {"gate", "up"};
  const int64_t ffn = model->ffn_size;
  if (tri_blocks_of(model)->names.gate_up == NULL) return parameter;
  return tri_parameter_within(
      parameter,
      (tri_rows_within){.rows = 2 * ffn, .first = which * ffn, .block = ffn, .stride = 2 * ffn, .part = parts[which]});
}

static void fill_dense(const tri_model *model, double branch_std, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const tri_block_names *names = &blocks->names;
  const int64_t width = model->hidden_size, ffn = model->ffn_size;
  const tri_parameter in = transposed(blocks, ffn_in(ffn, width, model->init_std));
  const tri_parameter bias = tri_parameter_bias(TRI_PART_MLP, ffn, tri_split_elements(0, ffn));
  const bool gated = tri_blocks_gated(blocks);
  const tri_parameter up = gated ? within_gate_up(model, 1, tri_parameter_joined(in)) : in;
  const tri_parameter up_bias = gated ? within_gate_up(model, 1, tri_parameter_joined(bias)) : bias;
  rows[TRI_ROW_GATE_WEIGHT] =
      (named_parameter){either(names->gate, names->gate_up), "weight", NULL, within_gate_up(model, 0, in)};
  rows[TRI_ROW_UP_WEIGHT] = (named_parameter){either(names->up, names->gate_up), "weight", NULL, up};
  rows[TRI_ROW_GATE_BIAS] =
      (named_parameter){either(names->gate, names->gate_up), "bias", NULL, within_gate_up(model, 0, bias)};
  rows[TRI_ROW_UP_BIAS] = (named_parameter){either(names->up, names->gate_up), "bias", NULL, up_bias};
  rows[TRI_ROW_DOWN_WEIGHT] =
      (named_parameter){names->down, "weight", NULL, transposed(blocks, ffn_out(ffn, width, branch_std))};
  rows[TRI_ROW_DOWN_BIAS] =
      (named_parameter){names->down, "bias", NULL, tri_parameter_bias(TRI_PART_MLP, width, tri_split_none())};
}

static void fill_experts(const tri_model *model, double branch_std, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const tri_block_names *names = &tri_blocks_of(model)->names;
  const int64_t width = model->hidden_size, experts = model->num_experts, ffn = model->expert_ffn_size;
  const int64_t shared = model->shared_experts * ffn;
  const double std = model->init_std;
  const tri_parameter shared_in = ffn_in(shared, width, std);
  rows[TRI_ROW_ROUTER_WEIGHT] = (named_parameter){
      NULL, names->router, NULL, tri_parameter_matrix(TRI_PART_ROUTER, experts, width, tri_split_none(), std)};
  rows[TRI_ROW_ROUTER_BIAS] = (named_parameter){NULL, names->router_bias, NULL, tri_parameter_balance(experts)};
  rows[TRI_ROW_SHARED_GATE] = (named_parameter){"mlp.shared_experts.gate_proj", "weight", NULL, shared_in};
  rows[TRI_ROW_SHARED_UP] =
      (named_parameter){"mlp.shared_experts.up_proj", "weight", NULL, tri_parameter_joined(shared_in)};
  rows[TRI_ROW_SHARED_DOWN] =
      (named_parameter){"mlp.shared_experts.down_proj", "weight", NULL, ffn_out(shared, width, branch_std)};
  rows[TRI_ROW_EXPERT_GATE_UP] =
      (named_parameter){NULL, NULL, names->expert_gate_up, tri_parameter_experts(experts, 2, ffn, width, 0, std)};
  rows[TRI_ROW_EXPERT_DOWN] =
      (named_parameter){NULL, NULL, &names->expert_down, tri_parameter_experts(experts, 1, width, ffn, 1, branch_std)};
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* The rows that a layer has. Layers of the same kind have equal rows, whose names have %ld for the layer. */
typedef struct layer_rows {
  int count;
  struct {
    named_parameter parameter;
    char name[TRI_PARAMETER_NAME_BYTES];
  } rows[TRI_NUM_BLOCK_ROWS];
} layer_rows;

/* Fills the rows of a layer. The initial values of the last matrix of each residual branch are divided by the square
 * root of the number of branches (Radford et al. 2019, section 2.3; Megatron-LM). */
static void fill_layer(const tri_model *model, bool experts, named_parameter rows[TRI_NUM_BLOCK_ROWS]) {
  const double branch_std = model->init_std / sqrt(2.0 * (double)model->num_layers);
  fill_norms(model, rows);
  fill_attention(model, branch_std, rows);
  if (experts) {
    fill_experts(model, branch_std, rows);
  } else {
    fill_dense(model, branch_std, rows);
  }
}

/* Lists the rows of the layers with experts, or of those without. */
static void list_rows(const tri_model *model, bool experts, layer_rows *out) {
  const tri_blocks *blocks = tri_blocks_of(model);
  named_parameter rows[TRI_NUM_BLOCK_ROWS] = {{0}};
  fill_layer(model, experts, rows);
  out->count = 0;
  for (int row = 0; row < TRI_NUM_BLOCK_ROWS; row++) {
    const named_parameter *at = &rows[row];
    if (!has_row(model, blocks, experts, (tri_block_row)row)) continue;
    char *name = out->rows[out->count].name;
    out->rows[out->count++].parameter = *at;
    if (at->stack != NULL) continue;
    snprintf(name, TRI_PARAMETER_NAME_BYTES, "%s%s%s%s", blocks->layer, at->module == NULL ? "" : at->module,
             at->module == NULL ? "" : ".", at->name);
  }
}

static tri_status add_layer(const layer_rows *of, int64_t layer, tri_parameter_table *table) {
  for (int i = 0; i < of->count; i++) {
    const named_parameter *at = &of->rows[i].parameter;
    TRI_TRY(at->stack != NULL ? tri_parameter_table_add_stack(table, at->stack, layer, at->facts)
                              : tri_parameter_table_add(table, of->rows[i].name, layer, at->facts));
  }
  return TRI_OK;
}

static tri_status add_layers(const tri_model *model, tri_parameter_table *table) {
  layer_rows rows[2] = {{0}}; /* without and with experts; listed for the first layer of the kind */
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    const bool experts = tri_model_has_experts(model, layer);
    if (tri_parameter_table_lacks(table, layer)) continue;
    if (rows[experts].count == 0) list_rows(model, experts, &rows[experts]);
    TRI_TRY(add_layer(&rows[experts], layer, table));
  }
  return TRI_OK;
}

/* Adds MODULE.weight or MODULE.bias outside of layers. */
static tri_status add_outside(tri_parameter_table *table, const char *module, const char *kind, int64_t layer,
                              tri_parameter parameter) {
  char name[TRI_PARAMETER_NAME_BYTES];
  snprintf(name, sizeof name, "%s.%s", module, kind);
  return tri_parameter_table_add(table, name, layer, parameter);
}

static tri_status add_embeddings(const tri_model *model, tri_parameter_table *table) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const int64_t width = model->hidden_size, rows = model->max_sequence + blocks->position_offset;
  const tri_split split = tri_split_elements(0, model->vocab_size);
  const tri_part part = TRI_PART_EMBEDDING;
  TRI_TRY(add_outside(table, blocks->embedding, "weight", -1,
                      tri_parameter_matrix(part, model->vocab_size, width, split, model->init_std)));
  if (blocks->positions == NULL) return TRI_OK;
  return add_outside(table, blocks->positions, "weight", -1,
                     tri_parameter_matrix(part, rows, width, tri_split_none(), model->init_std));
}

/* Adds the output projection. The bias comes before the weight: a tied weight is never in a bucket with other
 * parameters, and a bucket must be contiguous. */
static tri_status add_head(const tri_model *model, tri_parameter_table *table) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const int64_t vocabulary = model->vocab_size, last = model->num_layers;
  const tri_split split = tri_split_elements(0, vocabulary);
  char name[TRI_PARAMETER_NAME_BYTES];
  if (blocks->head_bias) {
    TRI_TRY(add_outside(table, blocks->head, "bias", last, tri_parameter_bias(TRI_PART_HEAD, vocabulary, split)));
  }
  snprintf(name, sizeof name, "%s.weight", blocks->head);
  if (model->tied) return tri_parameter_table_add_tied(table, name, last);
  return tri_parameter_table_add(
      table, name, last, tri_parameter_matrix(TRI_PART_HEAD, vocabulary, model->hidden_size, split, model->init_std));
}

tri_status tri_blocks_parameters(const tri_model *model, tri_parameter_table *table) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const int64_t width = model->hidden_size, last = model->num_layers;
  TRI_TRY(add_embeddings(model, table));
  TRI_TRY(add_layers(model, table));
  TRI_TRY(add_outside(table, blocks->norm, "weight", last, tri_parameter_norm(width, init_of_norms(blocks))));
  if (has_layer_norm(blocks)) {
    TRI_TRY(add_outside(table, blocks->norm, "bias", last, tri_parameter_norm(width, TRI_INIT_ZERO)));
  }
  return add_head(model, table);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

/* Returns the number of a matrix's elements by which one token is multiplied; of experts only the chosen ones count. */
static double met(const tri_model *model, const tri_parameter *parameter) {
  if (parameter->num_dims < 2) return 0;
  const double each = (double)parameter->shape[0] * (double)parameter->shape[1];
  if (parameter->stack == 0) return each;
  return each * (double)parameter->kinds * (double)model->experts_per_token;
}

double tri_blocks_layer_weights(const tri_model *model, int64_t layer) {
  const tri_blocks *blocks = tri_blocks_of(model);
  const bool experts = tri_model_has_experts(model, layer);
  named_parameter rows[TRI_NUM_BLOCK_ROWS] = {{0}};
  double sum = 0;
  fill_layer(model, experts, rows);
  for (int row = 0; row < TRI_NUM_BLOCK_ROWS; row++) {
    if (has_row(model, blocks, experts, (tri_block_row)row)) sum += met(model, &rows[row].facts);
  }
  return sum;
}
