/* GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks with layer norm, biases everywhere, GELU, and usually
 * one matrix for the token embedding and the output projection. Names and shapes are those of Hugging Face's
 * GPT2LMHeadModel, whose "Conv1D" keeps matrices as [in, out]. */
#include "model/family.h"
#include "ops/ops.h"

#include <inttypes.h>
#include <math.h>

/* The parameters of a block in the order of the table. */
enum {
  NORM1_WEIGHT,
  NORM1_BIAS,
  QKV_WEIGHT,
  QKV_BIAS,
  PROJECTION_WEIGHT,
  PROJECTION_BIAS,
  NORM2_WEIGHT,
  NORM2_BIAS,
  UP_WEIGHT,
  UP_BIAS,
  DOWN_WEIGHT,
  DOWN_BIAS,
  BLOCK_PARAMETERS,
};
enum { TOKEN_EMBEDDING, POSITION_EMBEDDING, FIRST_BLOCK };

static tri_status gpt2_add_block(const tri_model *model, int64_t layer, tri_parameter_table *table) {
  int64_t width = model->hidden_size, ffn = model->ffn_size;
  int64_t heads = model->num_heads, attention = heads * model->head_dim;
  /* Residual branches begin smaller, by the root of their number (Radford et al. 2019, section 2.3). */
  double branch_std = model->init_std / sqrt(2.0 * (double)model->num_layers);
  double std = model->init_std;
  const tri_part at = TRI_PART_ATTENTION, mlp = TRI_PART_MLP;
#define NAME(suffix) "transformer.h.%ld." suffix
  const struct {
    const char *name;
    tri_parameter facts;
  } rows[BLOCK_PARAMETERS] = {
      [NORM1_WEIGHT] = {NAME("ln_1.weight"), tri_parameter_norm(width, TRI_INIT_ONE)},
      [NORM1_BIAS] = {NAME("ln_1.bias"), tri_parameter_norm(width, TRI_INIT_ZERO)},
      [QKV_WEIGHT] = {NAME("attn.c_attn.weight"),
                      tri_parameter_matrix(at, width, 3 * attention, tri_split_heads(1, 3, heads), std)},
      [QKV_BIAS] = {NAME("attn.c_attn.bias"), tri_parameter_bias(at, 3 * attention, tri_split_heads(0, 3, heads))},
      [PROJECTION_WEIGHT] = {NAME("attn.c_proj.weight"),
                             tri_parameter_matrix(at, attention, width, tri_split_heads(0, 1, heads), branch_std)},
      [PROJECTION_BIAS] = {NAME("attn.c_proj.bias"), tri_parameter_bias(at, width, tri_split_none())},
      [NORM2_WEIGHT] = {NAME("ln_2.weight"), tri_parameter_norm(width, TRI_INIT_ONE)},
      [NORM2_BIAS] = {NAME("ln_2.bias"), tri_parameter_norm(width, TRI_INIT_ZERO)},
      [UP_WEIGHT] = {NAME("mlp.c_fc.weight"), tri_parameter_matrix(mlp, width, ffn, tri_split_elements(1, ffn), std)},
      [UP_BIAS] = {NAME("mlp.c_fc.bias"), tri_parameter_bias(mlp, ffn, tri_split_elements(0, ffn))},
      [DOWN_WEIGHT] = {NAME("mlp.c_proj.weight"),
                       tri_parameter_matrix(mlp, ffn, width, tri_split_elements(0, ffn), branch_std)},
      [DOWN_BIAS] = {NAME("mlp.c_proj.bias"), tri_parameter_bias(mlp, width, tri_split_none())},
  };
#undef NAME
  for (int i = 0; i < BLOCK_PARAMETERS; i++) {
    tri_parameter facts = rows[i].facts;
    facts.in_out = facts.num_dims == 2;
    TRI_TRY(tri_parameter_table_add(table, rows[i].name, layer, facts));
  }
  return TRI_OK;
}

static tri_status gpt2_parameters(const tri_model *model, tri_parameter_table *table) {
  const int64_t width = model->hidden_size, vocabulary = model->vocab_size, last = model->num_layers;
  const double std = model->init_std;
  const tri_split rows = tri_split_elements(0, vocabulary);
  TRI_TRY(tri_parameter_table_add(table, "transformer.wte.weight", -1,
                                  tri_parameter_matrix(TRI_PART_EMBEDDING, vocabulary, width, rows, std)));
  TRI_TRY(tri_parameter_table_add(
      table, "transformer.wpe.weight", -1,
      tri_parameter_matrix(TRI_PART_EMBEDDING, model->max_sequence, width, tri_split_none(), std)));
  for (int64_t layer = 0; layer < last; layer++) {
    if (!tri_parameter_table_lacks(table, layer)) TRI_TRY(gpt2_add_block(model, layer, table));
  }
  TRI_TRY(tri_parameter_table_add(table, "transformer.ln_f.weight", last, tri_parameter_norm(width, TRI_INIT_ONE)));
  TRI_TRY(tri_parameter_table_add(table, "transformer.ln_f.bias", last, tri_parameter_norm(width, TRI_INIT_ZERO)));
  if (model->tied) return tri_parameter_table_add_tied(table, "lm_head.weight", last);
  return tri_parameter_table_add(table, "lm_head.weight", last,
                                 tri_parameter_matrix(TRI_PART_HEAD, vocabulary, width, rows, std));
}

/* The dropouts of a model, told apart: 0 behind the embedding, then two a block. */
static int64_t dropout_site(int64_t layer, int64_t which) { return 1 + 2 * layer + which; }

static tri_status gpt2_append_block(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                                    int32_t *x) {
  const int32_t p = (int32_t)(FIRST_BLOCK + layer * BLOCK_PARAMETERS);
  const int64_t width = model->hidden_size, ffn = tri_op_share(list, model->ffn_size);
  const tri_heads heads = tri_op_share_heads(list, model->num_heads, model->num_heads, model->head_dim);
  const int64_t attention = heads.heads * heads.head_dim;
  const tri_weight_order order = TRI_WEIGHT_IN_OUT;
  const double eps = model->norm_eps;
  int32_t x1, x2, x3, x4, x5, x6;
  list->layer = (int32_t)layer;
  TRI_TRY(tri_op_layer_norm(list, eps, *x, p + NORM1_WEIGHT, p + NORM1_BIAS, &x1));
  TRI_TRY(tri_op_enter_tensor(list, x1, &x1));
  TRI_TRY(tri_op_linear(list, width, 3 * attention, order, x1, p + QKV_WEIGHT, p + QKV_BIAS, &x2));
  TRI_TRY(tri_op_attention(list, heads, (tri_scores){0}, positions, x2, &x3));
  TRI_TRY(tri_op_linear_row(list, attention, width, order, x3, p + PROJECTION_WEIGHT, p + PROJECTION_BIAS, &x4));
  TRI_TRY(tri_op_dropout(list, model->dropout, dropout_site(layer, 0), x4, &x5));
  TRI_TRY(tri_op_add(list, *x, x5, &x6));

  int32_t x7, x8, x9, x10, x11;
  TRI_TRY(tri_op_layer_norm(list, eps, x6, p + NORM2_WEIGHT, p + NORM2_BIAS, &x7));
  TRI_TRY(tri_op_enter_tensor(list, x7, &x7));
  TRI_TRY(tri_op_linear(list, width, ffn, order, x7, p + UP_WEIGHT, p + UP_BIAS, &x8));
  TRI_TRY(tri_op_activation(list, model->activation, x8, &x9));
  TRI_TRY(tri_op_linear_row(list, ffn, width, order, x9, p + DOWN_WEIGHT, p + DOWN_BIAS, &x10));
  TRI_TRY(tri_op_dropout(list, model->dropout, dropout_site(layer, 1), x10, &x11));
  return tri_op_add(list, x6, x11, x);
}

static tri_status gpt2_begin(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *x) {
  (void)positions;
  TRI_TRY(tri_op_embedding(list, model->hidden_size, model->vocab_size, model->max_sequence, 0, TOKEN_EMBEDDING,
                           POSITION_EMBEDDING, x));
  return tri_op_dropout(list, model->dropout, 0, *x, x);
}

static tri_status gpt2_end(const tri_model *model, tri_op_list *list, int32_t x, int32_t *hidden,
                           int32_t *head_weight) {
  int32_t norm = (int32_t)(FIRST_BLOCK + model->num_layers * BLOCK_PARAMETERS);
  *head_weight = norm + 2;
  return tri_op_layer_norm(list, model->norm_eps, x, norm, norm + 1, hidden);
}

static double gpt2_layer_weights(const tri_model *model, int64_t layer) {
  const double width = (double)model->hidden_size, attention = (double)(model->num_heads * model->head_dim);
  (void)layer;
  return width * (2.0 * attention + 2.0 * attention) + 2.0 * width * (double)model->ffn_size;
}

/* ---- its numbers ------------------------------------------------------------------------------------------------- */

static tri_status gpt2_check(const tri_model *m) {
  if (m->num_kv_heads != m->num_heads) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`num_kv_heads` %" PRId64 " is not num_heads %" PRId64
                    ", and gpt2 has no grouped-query attention; leave it out or take `family: llama`",
                    m->num_kv_heads, m->num_heads);
  }
  if (m->num_heads * m->head_dim != m->hidden_size) {
    return tri_fail(TRI_BAD_CONFIG,
                    "`head_dim` does not fit: num_heads %" PRId64 " x head_dim %" PRId64 " = %" PRId64
                    ", not hidden_size %" PRId64 "; leave it out or choose numbers whose product fits",
                    m->num_heads, m->head_dim, m->num_heads * m->head_dim, m->hidden_size);
  }
  if (!tri_rope_is_plain(&m->rope_scaling)) {
    return tri_fail(TRI_BAD_CONFIG, "`rope_scaling` is for llama; gpt2 learns its positions");
  }
  if (m->rope_theta != 10000) return tri_fail(TRI_BAD_CONFIG, "`rope_theta` is for llama; gpt2 learns its positions");
  if (m->window != 0) {
    return tri_fail(TRI_BAD_CONFIG, "`window` is for llama; gpt2 sees all tokens before, so leave it out");
  }
  return TRI_OK;
}

/* A model that nobody has completed may have others. */
static tri_status gpt2_check_words(const tri_model *m) {
  if (m->num_heads * m->head_dim == m->hidden_size && m->num_kv_heads == m->num_heads) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "Hugging Face's GPT-2 has no words for head_dim %" PRId64 " x num_heads %" PRId64
                  " beside hidden_size %" PRId64 ", nor for num_kv_heads %" PRId64,
                  m->head_dim, m->num_heads, m->hidden_size, m->num_kv_heads);
}

#define FIELD TRI_DIALECT_FIELD
static const tri_dialect_key keys[] = {
    FIELD("vocab_size", SIZE, vocab_size),
    FIELD("n_positions", SIZE, max_sequence),
    FIELD("n_embd", SIZE, hidden_size),
    FIELD("n_layer", SIZE, num_layers),
    FIELD("n_head", SIZE, num_heads),
    FIELD("n_inner", SIZE, ffn_size),
    FIELD("activation_function", ACTIVATION, activation),
    {.key = "embd_pdrop", .kind = TRI_DIALECT_NUMBER, .offset = offsetof(tri_model, dropout), .only_written = true},
    FIELD("resid_pdrop", NUMBER, dropout),
    {.key = "attn_pdrop", .kind = TRI_DIALECT_FIXED, .value = "0.0", .only_written = true},
    FIELD("layer_norm_epsilon", POSITIVE, norm_eps),
    FIELD("initializer_range", NUMBER, init_std),
    FIELD("tie_word_embeddings", BOOL, tied),
    TRI_DIALECT_ONLY("scale_attn_weights", "true", "attention without 1 / sqrt(head size)"),
    TRI_DIALECT_ONLY("scale_attn_by_inverse_layer_idx", "false", "attention scaled by the layer"),
    TRI_DIALECT_ONLY("add_cross_attention", "false", "cross-attention"),
    {.key = NULL},
};

static const tri_dialect dialects[] = {
    {.model_type = "gpt2",
     .architecture = "GPT2LMHeadModel",
     .check = gpt2_check_words,
     .absent = {.vocab_size = 50257,
                .max_sequence = 1024,
                .hidden_size = 768,
                .num_layers = 12,
                .num_heads = 12,
                .dropout = 0.1,
                .norm_eps = 1e-5,
                .init_std = 0.02,
                .tied = true,
                .attention_bias = true},
     .tables = {keys}},
    {.model_type = NULL},
};

const tri_family_table tri_family_gpt2 = {.always_biased = true,
                                          .usual = {.tied = true, .attention_bias = true},
                                          .dialects = dialects,
                                          .check = gpt2_check,
                                          .layer_weights = gpt2_layer_weights,
                                          .parameters = gpt2_parameters,
                                          .begin = gpt2_begin,
                                          .block = gpt2_append_block,
                                          .end = gpt2_end};
