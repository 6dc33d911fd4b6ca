/* GPT-2 (Radford et al. 2019): learned positions, pre-norm blocks with layer norm, biases everywhere, GELU, and usually
 * one matrix for the token embedding and the output projection. Names and shapes are those of Hugging Face's
 * GPT2LMHeadModel, whose "Conv1D" keeps matrices as [in, out]. */
#include "model/family.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>

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

static tri_status add_block(const tri_model *model, int64_t layer, tri_parameter_table *table) {
  int64_t width = model->hidden_size, ffn = model->ffn_size;
  int64_t attention = model->num_heads * model->head_dim;
  /* Residual branches begin smaller, by the root of their number (Radford et al. 2019, section 2.3). */
  double branch_std = model->init_std / sqrt(2.0 * (double)model->num_layers);
  const tri_part at = TRI_PART_ATTENTION, mlp = TRI_PART_MLP, norm = TRI_PART_NORM;
  const struct {
    const char *name;
    tri_parameter facts;
  } rows[BLOCK_PARAMETERS] = {
      [NORM1_WEIGHT] = {"ln_1.weight",
                        {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm, .init = TRI_INIT_ONE}},
      [NORM1_BIAS] = {"ln_1.bias", {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm}},
      [QKV_WEIGHT] = {"attn.c_attn.weight",
                      {.num_dims = 2,
                       .shape = {width, 3 * attention},
                       .split_dim = 1,
                       .part = at,
                       .init = TRI_INIT_NORMAL,
                       .std = model->init_std}},
      [QKV_BIAS] = {"attn.c_attn.bias", {.num_dims = 1, .shape = {3 * attention}, .split_dim = 0, .part = at}},
      [PROJECTION_WEIGHT] = {"attn.c_proj.weight",
                             {.num_dims = 2,
                              .shape = {attention, width},
                              .split_dim = 0,
                              .part = at,
                              .init = TRI_INIT_NORMAL,
                              .std = branch_std}},
      [PROJECTION_BIAS] = {"attn.c_proj.bias", {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = at}},
      [NORM2_WEIGHT] = {"ln_2.weight",
                        {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm, .init = TRI_INIT_ONE}},
      [NORM2_BIAS] = {"ln_2.bias", {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = norm}},
      [UP_WEIGHT] = {"mlp.c_fc.weight",
                     {.num_dims = 2,
                      .shape = {width, ffn},
                      .split_dim = 1,
                      .part = mlp,
                      .init = TRI_INIT_NORMAL,
                      .std = model->init_std}},
      [UP_BIAS] = {"mlp.c_fc.bias", {.num_dims = 1, .shape = {ffn}, .split_dim = 0, .part = mlp}},
      [DOWN_WEIGHT] = {"mlp.c_proj.weight",
                       {.num_dims = 2,
                        .shape = {ffn, width},
                        .split_dim = 0,
                        .part = mlp,
                        .init = TRI_INIT_NORMAL,
                        .std = branch_std}},
      [DOWN_BIAS] = {"mlp.c_proj.bias", {.num_dims = 1, .shape = {width}, .split_dim = -1, .part = mlp}},
  };
  for (int i = 0; i < BLOCK_PARAMETERS; i++) {
    tri_parameter parameter = rows[i].facts;
    parameter.layer = layer;
    snprintf(parameter.name, sizeof parameter.name, "transformer.h.%ld.%s", (long)layer, rows[i].name);
    int32_t index = -1;
    TRI_TRY(tri_parameter_table_add(table, &parameter, &index));
  }
  return TRI_OK;
}

static tri_status parameters(const tri_model *model, tri_parameter_table *table) {
  int64_t width = model->hidden_size;
  int32_t index = -1;
  tri_parameter token = {.name = "transformer.wte.weight",
                         .num_dims = 2,
                         .shape = {model->vocab_size, width},
                         .layer = -1,
                         .part = TRI_PART_EMBEDDING,
                         .init = TRI_INIT_NORMAL,
                         .std = model->init_std};
  TRI_TRY(tri_parameter_table_add(table, &token, &index));
  tri_parameter position = {.name = "transformer.wpe.weight",
                            .num_dims = 2,
                            .shape = {model->max_sequence, width},
                            .split_dim = -1,
                            .layer = -1,
                            .part = TRI_PART_EMBEDDING,
                            .init = TRI_INIT_NORMAL,
                            .std = model->init_std};
  TRI_TRY(tri_parameter_table_add(table, &position, &index));
  for (int64_t layer = 0; layer < model->num_layers; layer++) TRI_TRY(add_block(model, layer, table));
  tri_parameter norm_weight = {.name = "transformer.ln_f.weight",
                               .num_dims = 1,
                               .shape = {width},
                               .split_dim = -1,
                               .layer = model->num_layers,
                               .part = TRI_PART_NORM,
                               .init = TRI_INIT_ONE};
  TRI_TRY(tri_parameter_table_add(table, &norm_weight, &index));
  tri_parameter norm_bias = {.name = "transformer.ln_f.bias",
                             .num_dims = 1,
                             .shape = {width},
                             .split_dim = -1,
                             .layer = model->num_layers,
                             .part = TRI_PART_NORM};
  TRI_TRY(tri_parameter_table_add(table, &norm_bias, &index));
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

/* The dropouts of a model, told apart: 0 behind the embedding, then two a block. */
static int64_t dropout_site(int64_t layer, int64_t which) { return 1 + 2 * layer + which; }

static tri_status append_block(const tri_model *model, int64_t positions, int64_t layer, tri_op_list *list,
                               int32_t *x) {
  const int32_t p = (int32_t)(FIRST_BLOCK + layer * BLOCK_PARAMETERS);
  const int64_t width = model->hidden_size, ffn = model->ffn_size, attention = model->num_heads * model->head_dim;
  const tri_heads heads = {model->num_heads, model->num_heads, model->head_dim};
  const tri_gelu gelu = model->activation == TRI_ACTIVATION_GELU_ERF ? TRI_GELU_ERF : TRI_GELU_TANH;
  const tri_weight_order order = TRI_WEIGHT_IN_OUT;
  const double eps = model->norm_eps;
  int32_t x1, x2, x3, x4, x5, x6;
  list->layer = (int32_t)layer;
  TRI_TRY(tri_op_layer_norm(list, eps, *x, p + NORM1_WEIGHT, p + NORM1_BIAS, &x1));
  TRI_TRY(tri_op_linear(list, width, 3 * attention, order, x1, p + QKV_WEIGHT, p + QKV_BIAS, &x2));
  TRI_TRY(tri_op_attention(list, heads, positions, x2, &x3));
  TRI_TRY(tri_op_linear(list, attention, width, order, x3, p + PROJECTION_WEIGHT, p + PROJECTION_BIAS, &x4));
  TRI_TRY(tri_op_dropout(list, model->dropout, dropout_site(layer, 0), x4, &x5));
  TRI_TRY(tri_op_add(list, *x, x5, &x6));

  int32_t x7, x8, x9, x10, x11;
  TRI_TRY(tri_op_layer_norm(list, eps, x6, p + NORM2_WEIGHT, p + NORM2_BIAS, &x7));
  TRI_TRY(tri_op_linear(list, width, ffn, order, x7, p + UP_WEIGHT, p + UP_BIAS, &x8));
  TRI_TRY(tri_op_gelu(list, gelu, x8, &x9));
  TRI_TRY(tri_op_linear(list, ffn, width, order, x9, p + DOWN_WEIGHT, p + DOWN_BIAS, &x10));
  TRI_TRY(tri_op_dropout(list, model->dropout, dropout_site(layer, 1), x10, &x11));
  return tri_op_add(list, x6, x11, x);
}

static tri_status operations(const tri_model *model, int64_t positions, tri_op_list *list, int32_t *hidden,
                             int32_t *head_weight) {
  int32_t x = -1;
  list->layer = -1;
  TRI_TRY(tri_op_embedding(list, model->hidden_size, model->vocab_size, model->max_sequence, TOKEN_EMBEDDING,
                           POSITION_EMBEDDING, &x));
  TRI_TRY(tri_op_dropout(list, model->dropout, 0, x, &x));
  for (int64_t layer = 0; layer < model->num_layers; layer++) TRI_TRY(append_block(model, positions, layer, list, &x));
  int32_t end = (int32_t)(FIRST_BLOCK + model->num_layers * BLOCK_PARAMETERS);
  list->layer = (int32_t)model->num_layers;
  TRI_TRY(tri_op_layer_norm(list, model->norm_eps, x, end, end + 1, hidden));
  *head_weight = model->tied ? TOKEN_EMBEDDING : end + 2;
  return TRI_OK;
}

const tri_family_table tri_family_gpt2 = {.name = "gpt2", .parameters = parameters, .operations = operations};
