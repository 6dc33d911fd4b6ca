#include "model/family.h"

#include "base/memory.h"
#include "model/window.h"
#include "ops/context.h"
#include "ops/ops.h"
#include "ops/recompute.h"

#define TABLE_CASE(VALUE, name)                                                                                        \
  case TRI_FAMILY_##VALUE: return &tri_family_##name;

const tri_family_table *tri_family_of(const tri_model *model) {
  switch (model->family) { TRI_FAMILIES(TABLE_CASE) }
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
      .shard = {.position = tri_mesh_position_alone()},
  };
}

static tri_status append_head(const tri_model *model, const tri_list_request *request, int32_t x, tri_op_list *list) {
  tri_blocks_head head;
  int32_t logits = -1;
  list->layer = (int32_t)model->num_layers;
  TRI_TRY(tri_blocks_end(model, list, x, &head));
  switch (request->purpose) {
    case TRI_LIST_GENERATE:
      return tri_op_row_logits(list, model->hidden_size, model->vocab_size, head.logits, head.hidden, head.weight,
                               &logits);
    case TRI_LIST_TRAIN:
    case TRI_LIST_EVALUATE: break;
    case TRI_LIST_SCORE: list->scores = true; break;
  }
  return tri_objective_append(request->objective, model, list, head.logits, head.hidden, head.weight);
}

static tri_status append_all(const tri_model *model, const tri_list_request *request, tri_op_list *list) {
  const tri_layer_range *layers = &request->layers;
  bool first = layers->first<0, last = layers->end> model->num_layers;
  if (request->purpose == TRI_LIST_TRAIN) list->columns = tri_objective_columns(request->objective);
  int32_t x = -1;
  list->layer = first ? -1 : (int32_t)layers->first;
  if (first) {
    TRI_TRY(tri_blocks_begin(model, request->positions, list, &x));
  } else {
    TRI_TRY(tri_op_stage_input(list, model->hidden_size, &x));
  }
  for (int64_t layer = first ? 0 : layers->first; layer < layers->end && layer < model->num_layers; layer++) {
    list->recomputable = true;
    tri_op_list_set_window(list, tri_model_window(model, layer));
    TRI_TRY(tri_blocks_append(model, request->positions, layer, list, &x));
  }
  list->recomputable = false;
  tri_op_list_set_window(list, 0);
  if (last) {
    TRI_TRY(append_head(model, request, x, list));
  } else {
    TRI_TRY(tri_op_stage_output(list, x));
  }
  TRI_TRY(tri_op_list_finish(list));
  return tri_op_list_recompute(list, &request->recompute);
}

/* Returns the number of tokens of a sequence that are read at once. */
static int64_t prefill_tokens_of(const tri_list_request *request) {
  switch (request->purpose) {
    case TRI_LIST_TRAIN:
    case TRI_LIST_EVALUATE:
    case TRI_LIST_SCORE: break;
    case TRI_LIST_GENERATE: return request->prompt;
  }
  return request->positions;
}

static bool is_training(tri_list_purpose purpose) {
  switch (purpose) {
    case TRI_LIST_TRAIN: return true;
    case TRI_LIST_EVALUATE:
    case TRI_LIST_SCORE:
    case TRI_LIST_GENERATE: return false;
  }
  return false;
}

static bool generates(tri_list_purpose purpose) {
  switch (purpose) {
    case TRI_LIST_GENERATE: return true;
    case TRI_LIST_TRAIN:
    case TRI_LIST_EVALUATE:
    case TRI_LIST_SCORE: return false;
  }
  return false;
}

static tri_op_parameter facts_of(const tri_parameter_table *table, int64_t index) {
  const tri_parameter *entry = &table->entries[index];
  const bool split = entry->factor && entry->split.dim == 1;
  return (tri_op_parameter){.out = entry->in_out ? entry->local[1] : entry->local[0],
                            .in = entry->shape[1],
                            .first = split ? entry->first_unit * (entry->shape[1] / entry->split.units) : 0,
                            .scale = entry->scale,
                            .index = (int32_t)index,
                            .factors = {-1, -1},
                            .firsts = {-1, -1},
                            .magnitude = -1,
                            .stored = entry->stored,
                            .frozen = entry->frozen,
                            .in_out = entry->in_out,
                            .joined = entry->joined};
}

/* Numbers the parameters: first those of the family, in its order, then the factors. Sets number_of[i] to the number of
 * entry i of the table, and facts[number] [num_entries]. */
static void number_parameters(const tri_parameter_table *table, int32_t *number_of, tri_op_parameter *facts) {
  int32_t next = 0;
  for (int factors = 0; factors < 2; factors++) {
    for (int64_t i = 0; i < table->num_entries; i++) {
      if (table->entries[i].factor != (factors == 1)) continue;
      facts[next] = facts_of(table, i);
      number_of[i] = next++;
    }
  }
  for (int64_t i = 0; i < table->num_entries; i++) {
    const int32_t magnitude = table->entries[i].magnitude;
    if (!table->entries[i].factor && magnitude >= 0) facts[number_of[i]].magnitude = number_of[magnitude];
    for (int which = 0; which < 2; which++) {
      const tri_parameter *entry = &table->entries[i];
      const int32_t factor = entry->factors[which], first = entry->firsts[which];
      if (!entry->factor && factor >= 0) facts[number_of[i]].factors[which] = number_of[factor];
      if (!entry->factor && first >= 0) facts[number_of[i]].firsts[which] = number_of[first];
    }
  }
}

static tri_status list_parameters_of(const tri_parameter_table *table, tri_list_parameters *out) {
  const size_t count = (size_t)table->num_entries;
  tri_op_parameter *facts = NULL;
  int32_t *number_of = NULL;
  TRI_TRY(tri_alloc("parameters", count, sizeof *number_of, &number_of));
  const tri_status status = tri_alloc("parameters", count, sizeof *facts, &facts);
  if (status == TRI_OK) number_parameters(table, number_of, facts);
  tri_free(number_of);
  TRI_TRY(status);
  *out = (tri_list_parameters){.all = facts, .count = table->num_entries, .lowest = tri_trainable_lowest_of(table)};
  return TRI_OK;
}

tri_status tri_list_parameters_create(const tri_model *model, const tri_op_shard *shard, tri_list_parameters *out) {
  const tri_layer_range all = {-1, INT64_MAX};
  const tri_model_share share = {
      .position = shard->position, .sequence_parallel = shard->sequence_parallel, .chunks = &all, .num_chunks = 1};
  tri_parameter_table *table = NULL;
  *out = (tri_list_parameters){.all = NULL};
  if (tri_trainable_is_full(&model->tuning)) return TRI_OK;
  TRI_TRY(tri_parameter_table_create(model, &share, &table));
  const tri_status status = list_parameters_of(table, out);
  tri_parameter_table_destroy(table);
  return status;
}

void tri_list_parameters_release(tri_list_parameters *parameters) {
  tri_free(parameters->all);
  *parameters = (tri_list_parameters){.all = NULL};
}

static tri_status set_parameters(const tri_model *model, const tri_list_request *request,
                                 const tri_list_parameters *parameters, tri_op_list *list) {
  const tri_op_adapter adapter = {model->tuning.adapter.dropout};
  if (parameters->all == NULL) return TRI_OK;
  list->below_is_frozen = !request->below_trains && parameters->lowest >= request->layers.first;
  return tri_op_list_set_parameters(list, parameters->all, parameters->count, &adapter);
}

static tri_status set_model_parameters(const tri_model *model, const tri_list_request *request, tri_op_list *list) {
  tri_list_parameters made;
  if (request->parameters != NULL) return set_parameters(model, request, request->parameters, list);
  TRI_TRY(tri_list_parameters_create(model, &request->shard, &made));
  const tri_status status = set_parameters(model, request, &made, list);
  tri_list_parameters_release(&made);
  return status;
}

tri_status tri_model_operations(const tri_model *model, const tri_list_request *request, tri_op_list **out) {
  tri_op_list *list = NULL;
  bool training = is_training(request->purpose);
  TRI_TRY(tri_model_check_numbers(model, request->type, ""));
  TRI_TRY(tri_op_list_create(request->batch, request->sequence, request->type, training, &list));
  tri_op_list_set_shard(list, &request->shard);
  tri_op_list_add_window(list, request->positions, model->window);
  list->masked = request->masked;
  const tri_op_context context = tri_op_list_context(list);
  list->most_slices = tri_op_context_slices(&context, request->batch);
  if (request->masked_attention_fraction > 0) list->attention_fraction = request->masked_attention_fraction;
  list->prefill_tokens = prefill_tokens_of(request);
  list->weights_gathered = request->weights_gathered;
  list->generating = generates(request->purpose);
  if (list->generating) {
    list->most_slices = request->slots;
    list->logit_rows = request->logit_rows;
    list->table_pages = request->table_pages;
    list->keeps_dense = request->weights_shared;
  }
  list->sliced = request->shard.sequence_parallel && request->layers.first >= 0;
  tri_status status = set_model_parameters(model, request, list);
  if (status == TRI_OK) status = append_all(model, request, list);
  if (status == TRI_OK) *out = list;
  if (status != TRI_OK) tri_op_list_destroy(list);
  return status;
}

/* Number of layers without experts (dense) and with experts (others), and the number of matrix elements by which one
 * token is multiplied in a layer of each kind. */
typedef struct layer_kinds {
  int64_t dense, others;
  double dense_weights, other_weights;
} layer_kinds;

static layer_kinds kinds_of(const tri_model *model) {
  layer_kinds kinds = {.dense = model->num_experts == 0 ? model->num_layers : model->dense_layers};
  kinds.others = model->num_layers - kinds.dense;
  if (kinds.dense > 0) kinds.dense_weights = tri_blocks_layer_weights(model, 0);
  if (kinds.others > 0) kinds.other_weights = tri_blocks_layer_weights(model, kinds.dense);
  return kinds;
}

/* Returns the mean number of a matrix's elements by which one token is multiplied. */
static double met_weights(const tri_model *model, const tri_parameter *entry) {
  const double all = (double)tri_parameter_global_count(entry);
  const bool looked_up =
      entry->part == TRI_PART_EMBEDDING && !(entry->factor && entry->split.dim < 0); /* the factor B of an embedding is
                                                                                        multiplied, not looked up */
  if (entry->num_dims < 2 || looked_up) return 0;
  return entry->placement.has_holders ? all * (double)model->experts_per_token / (double)model->num_experts : all;
}

/* Sets *factors to the FLOPs of one token in the GEMMs of factors, and *spared to the FLOPs that are saved because
 * frozen matrices have no gradient. Both are 0 if the parameter table cannot be made. */
static void count_tuned(const tri_model *model, double *factors, double *spared) {
  tri_parameter_table *table = NULL;
  *factors = *spared = 0;
  if (tri_trainable_is_full(&model->tuning) || tri_parameter_table_create(model, NULL, &table) != TRI_OK) return;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const double weights = met_weights(model, &table->entries[i]);
    if (table->entries[i].factor) *factors += 6.0 * weights;
    if (table->entries[i].frozen) *spared += 2.0 * weights;
  }
  tri_parameter_table_destroy(table);
}

double tri_model_flops_per_token(const tri_model *model, int64_t sequence, double fraction) {
  double factors = 0, spared = 0;
  count_tuned(model, &factors, &spared);
  return 3.0 * tri_model_forward_flops(model, sequence, fraction) + factors - spared;
}

double tri_model_forward_flops(const tri_model *model, int64_t sequence, double fraction) {
  const layer_kinds kinds = kinds_of(model);
  double scores = fraction * (double)sequence * (double)(model->num_heads * model->head_dim);
  double layers = (double)kinds.dense * (2.0 * kinds.dense_weights + 4.0 * scores) +
                  (double)kinds.others * (2.0 * kinds.other_weights + 4.0 * scores);
  double head = 2.0 * (double)model->hidden_size * (double)model->vocab_size;
  return layers + head;
}

double tri_model_attention_fraction(const tri_model *model, int64_t sequence, double masked) {
  double sum = 0;
  if (model->window == 0) return masked;
  for (int64_t layer = 0; layer < model->num_layers; layer++) {
    sum += tri_op_window_fraction(masked, sequence, tri_model_window(model, layer));
  }
  return sum / (double)model->num_layers;
}

double tri_model_head_in_layers(const tri_model *model) {
  const layer_kinds kinds = kinds_of(model);
  const double head = (double)model->hidden_size * (double)model->vocab_size;
  return head / (kinds.others > 0 ? kinds.other_weights : kinds.dense_weights);
}
