#include "model/family.h"

#include "ops/ops.h"

const tri_family_table *tri_family_of(const tri_model *model) {
  return model->family == TRI_FAMILY_LLAMA ? &tri_family_llama : &tri_family_gpt2;
}

static tri_status append_all(const tri_model *model, tri_list_purpose purpose, int64_t positions, tri_op_list *list) {
  int32_t hidden = -1;
  int32_t head_weight = -1;
  TRI_TRY(tri_family_of(model)->operations(model, positions, list, &hidden, &head_weight));
  list->layer = (int32_t)model->num_layers;
  if (purpose == TRI_LIST_GENERATE) {
    int32_t logits = -1;
    TRI_TRY(tri_op_last_logits(list, model->hidden_size, model->vocab_size, hidden, head_weight, &logits));
  } else {
    TRI_TRY(tri_op_cross_entropy(list, model->hidden_size, model->vocab_size, hidden, head_weight));
  }
  return tri_op_list_finish(list);
}

tri_status tri_model_operations(const tri_model *model, tri_list_purpose purpose, int64_t batch, int64_t sequence,
                                int64_t positions, tri_dtype type, tri_op_list **out) {
  tri_op_list *list = NULL;
  TRI_TRY(tri_op_list_create(batch, sequence, type, purpose == TRI_LIST_TRAIN, &list));
  tri_status status = append_all(model, purpose, positions, list);
  if (status != TRI_OK) {
    tri_op_list_destroy(list);
    return status;
  }
  *out = list;
  return TRI_OK;
}

double tri_model_flops_per_token(const tri_model *model, int64_t sequence) {
  double width = (double)model->hidden_size;
  double attention_width = (double)(model->num_heads * model->head_dim);
  double kv_width = (double)(model->num_kv_heads * model->head_dim);
  double mlp_matrices = model->family == TRI_FAMILY_LLAMA ? 3.0 : 2.0;
  double weights = width * (2.0 * attention_width + 2.0 * kv_width) + mlp_matrices * width * (double)model->ffn_size;
  double layer = 2.0 * weights + 4.0 * (double)sequence * attention_width;
  double head = 2.0 * width * (double)model->vocab_size;
  return 3.0 * ((double)model->num_layers * layer + head);
}
