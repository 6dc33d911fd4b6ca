#include "model/family.h"

#include "ops/ops.h"
#include "ops/recompute.h"

const tri_family_table *tri_family_of(const tri_model *model) {
  switch (model->family) {
    case TRI_FAMILY_GPT2: return &tri_family_gpt2;
    case TRI_FAMILY_LLAMA: return &tri_family_llama;
  }
  return NULL;
}

tri_list_request tri_list_request_whole(const tri_model *model, tri_list_purpose purpose, int64_t batch,
                                        int64_t sequence, tri_dtype type) {
  return (tri_list_request){
      .purpose = purpose,
      .batch = batch,
      .sequence = sequence,
      .positions = sequence,
      .type = type,
      .layers = {-1, model->num_layers + 1},
      .shard = {.seat = tri_mesh_seat_alone()},
  };
}

static tri_status append_head(const tri_model *model, tri_list_purpose purpose, int32_t x, tri_op_list *list) {
  int32_t hidden = -1, head_weight = -1, logits = -1;
  list->layer = (int32_t)model->num_layers;
  TRI_TRY(tri_family_of(model)->end(model, list, x, &hidden, &head_weight));
  switch (purpose) {
    case TRI_LIST_GENERATE:
      return tri_op_last_logits(list, model->hidden_size, model->vocab_size, hidden, head_weight, &logits);
    case TRI_LIST_TRAIN:
    case TRI_LIST_EVALUATE: break;
  }
  TRI_TRY(tri_op_enter_tensor(list, hidden, &hidden));
  return tri_op_cross_entropy(list, model->hidden_size, model->vocab_size, hidden, head_weight);
}

static tri_status append_all(const tri_model *model, const tri_list_request *request, tri_op_list *list) {
  const tri_family_table *family = tri_family_of(model);
  const tri_layer_range *layers = &request->layers;
  bool first = layers->first<0, last = layers->end> model->num_layers;
  int32_t x = -1;
  list->layer = first ? -1 : (int32_t)layers->first;
  if (first) {
    TRI_TRY(family->begin(model, request->positions, list, &x));
  } else {
    TRI_TRY(tri_op_stage_input(list, model->hidden_size, &x));
  }
  for (int64_t layer = first ? 0 : layers->first; layer < layers->end && layer < model->num_layers; layer++) {
    list->recomputable = true;
    TRI_TRY(family->block(model, request->positions, layer, list, &x));
  }
  list->recomputable = false;
  if (last) {
    TRI_TRY(append_head(model, request->purpose, x, list));
  } else {
    TRI_TRY(tri_op_stage_output(list, x));
  }
  TRI_TRY(tri_op_list_finish(list));
  tri_op_list_recompute(list, request->recompute, request->recompute_every);
  return TRI_OK;
}

static bool is_training(tri_list_purpose purpose) {
  switch (purpose) {
    case TRI_LIST_TRAIN: return true;
    case TRI_LIST_EVALUATE:
    case TRI_LIST_GENERATE: return false;
  }
  return false;
}

tri_status tri_model_operations(const tri_model *model, const tri_list_request *request, tri_op_list **out) {
  tri_op_list *list = NULL;
  bool training = is_training(request->purpose);
  TRI_TRY(tri_model_check_numbers(model, request->type, ""));
  TRI_TRY(tri_op_list_create(request->batch, request->sequence, request->type, training, &list));
  if (request->masked) list->most_slices = request->batch * request->sequence;
  if (request->masked_area > 0) list->area = request->masked_area;
  list->shard = request->shard;
  list->weights_pass = request->weights_pass;
  list->sliced = request->shard.sequence_parallel && request->layers.first >= 0;
  tri_status status = append_all(model, request, list);
  if (status != TRI_OK) {
    tri_op_list_destroy(list);
    return status;
  }
  *out = list;
  return TRI_OK;
}

/* Elements of a layer's matrices. */
static double layer_weights(const tri_model *model) {
  double width = (double)model->hidden_size;
  double attention_width = (double)(model->num_heads * model->head_dim);
  double kv_width = (double)(model->num_kv_heads * model->head_dim);
  double mlp_matrices = (double)tri_family_of(model)->mlp_matrices;
  return width * (2.0 * attention_width + 2.0 * kv_width) + mlp_matrices * width * (double)model->ffn_size;
}

double tri_model_flops_per_token(const tri_model *model, int64_t sequence) {
  double scores = (double)sequence * (double)(model->num_heads * model->head_dim);
  double layer = 2.0 * layer_weights(model) + 4.0 * scores;
  double head = 2.0 * (double)model->hidden_size * (double)model->vocab_size;
  return 3.0 * ((double)model->num_layers * layer + head);
}

double tri_model_head_in_layers(const tri_model *model) {
  return (double)model->hidden_size * (double)model->vocab_size / layer_weights(model);
}
