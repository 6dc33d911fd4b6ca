#include "schedule/parts.h"

#include "base/memory.h"
#include "model/family.h"

#include <string.h>

tri_list_request tri_parts_list(const tri_parts_request *of, const tri_mesh_position *position,
                                tri_layer_range layers) {
  tri_list_request request =
      tri_list_request_whole(of->model, TRI_LIST_TRAIN, of->layout->micro_batch, of->sequence, of->precision);
  request.layers = layers;
  request.masked = of->masked;
  request.masked_attention_fraction = of->masked_attention_fraction;
  request.objective = of->objective;
  int replicas = tri_domain_size(&position->shape, TRI_DOMAIN_REPLICAS);
  if (of->model->num_experts > 0) replicas *= tri_domain_size(&position->shape, TRI_DOMAIN_EXPERT_REPLICAS);
  request.weights_gathered = of->layout->zero > 2 && replicas > 1;
  bool several = tri_domain_size(&position->shape, TRI_DOMAIN_TENSOR) > 1;
  request.shard = (tri_op_shard){.position = *position,
                                 .sequence_parallel = of->layout->sequence_parallel && several,
                                 .context_exchange = of->layout->context_exchange,
                                 .context_row_pairs = (double)of->layout->context_row_pairs,
                                 .expert_capacity = of->layout->expert_capacity,
                                 .capacity_drop = of->layout->capacity_drop,
                                 .expert_imbalance = of->expert_imbalance};
  request.recompute = (tri_recompute_choice){
      .what = of->layout->recompute, .every = of->layout->recompute_every, .gathered = of->layout->sequence_regather};
  return request;
}

/* Returns the elements of scratch for sums of replicated heads: one place, of the size of this rank's part, for each
 * head of the largest such parameter. Partial gradients of parameters that all ranks have whole are summed in place. */
static int64_t partial_elements(const tri_parameter_table *table) {
  int64_t most = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (!tri_parameter_is_partial(entry) || entry->split.dim < 0) continue;
    if (entry->count * entry->split.units > most) most = entry->count * entry->split.units;
  }
  return most;
}

/* Returns the elements of scratch for the gradient of the largest frozen vector. Some operations compute the
 * gradients of all their vectors together, even if some of these are frozen. */
static int64_t sink_elements(const tri_parameter_table *table) {
  int64_t most = 0;
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->frozen && entry->num_dims == 1 && entry->count > most) most = entry->count;
  }
  return most;
}

bool tri_parts_hold_tied(const tri_parameter_table *table) {
  for (int64_t i = 0; i < table->num_entries; i++) {
    const tri_parameter *entry = &table->entries[i];
    if (entry->tied_to >= 0 && !entry->frozen && (entry->count > 0 || table->entries[entry->tied_to].count > 0))
      return true;
  }
  return false;
}

static tri_status make_lists(const tri_parts_request *of, const tri_mesh_position *position, tri_parts *parts) {
  tri_list_parameters parameters;
  tri_list_request request = tri_parts_list(of, position, parts->chunks[0]);
  TRI_TRY(tri_list_parameters_create(of->model, &request.shard, &parameters));
  request.parameters = &parameters;
  tri_status status = TRI_OK;
  for (int64_t c = 0; c < parts->num_chunks && status == TRI_OK; c++) {
    request.layers = parts->chunks[c];
    status = tri_model_operations(of->model, &request, &parts->lists[c]);
  }
  tri_list_parameters_release(&parameters);
  return status;
}

tri_status tri_parts_create_program(const tri_parts *parts, const tri_layout *layout, int64_t stage,
                                    int64_t micro_batches, tri_program **out) {
  const tri_program_request request = {
      .layout = layout,
      .stage = stage,
      .micro_batches = micro_batches,
      .lists = (const tri_op_list *const *)parts->lists,
      .buckets = parts->buckets,
      .tied_pair = tri_parts_hold_tied(parts->table),
  };
  return tri_program_create(&request, out);
}

static tri_status parts_fill(const tri_parts_request *of, const tri_mesh_coordinates *place, tri_parts *parts) {
  const tri_layout *layout = of->layout;
  size_t chunks = (size_t)layout->virtual_stages;
  parts->num_chunks = layout->virtual_stages;
  TRI_TRY(tri_alloc("stages", chunks, sizeof *parts->chunks, &parts->chunks));
  TRI_TRY(tri_alloc("stages", chunks, sizeof *parts->lists, &parts->lists));
  tri_model_share share = tri_layout_share(layout, of->model, place, parts->chunks);
  /* Programs of ZeRO 3 find the buckets of a call by the numbers of its parameters, which are numbers in the whole
   * table. */
  const bool own = of->for_planning && layout->zero < 3;
  TRI_TRY(own ? tri_parameter_table_create_own(of->model, &share, &parts->table)
              : tri_parameter_table_create(of->model, &share, &parts->table));
  parts->num_partial = partial_elements(parts->table);
  TRI_TRY(make_lists(of, &share.position, parts));
  const tri_optimizer_settings *optimizer = of->optimizer != NULL ? of->optimizer : tri_optimizer_settings_default();
  TRI_TRY(tri_buckets_create(layout, optimizer, &share, parts->table, of->micro_batches,
                             (int64_t)tri_dtype_bytes(tri_dtype_wide(of->precision)), &parts->buckets));
  TRI_TRY(tri_updates_create(optimizer, &share.position, of->precision, parts->table, parts->buckets, &parts->updates));
  if (of->without_program) return TRI_OK;
  return tri_parts_create_program(parts, layout, place->at[TRI_AXIS_PIPELINE], of->micro_batches, &parts->program);
}

tri_status tri_parts_program(const tri_parts *parts, int64_t stage, int64_t micro_batches, tri_program **out) {
  const tri_layout layout = tri_schedule_settle(parts->layout, parts->program->num_micro_batches);
  return tri_parts_create_program(parts, &layout, stage, micro_batches, out);
}

tri_status tri_parts_create(const tri_parts_request *request, const tri_mesh_coordinates *place, tri_parts *out) {
  tri_parts parts = {.layout = request->layout};
  tri_status status = parts_fill(request, place, &parts);
  if (status == TRI_OK) *out = parts;
  if (status != TRI_OK) tri_parts_destroy(&parts);
  return status;
}

void tri_parts_destroy(tri_parts *parts) {
  tri_program_destroy(parts->program);
  tri_updates_destroy(parts->updates);
  tri_buckets_destroy(parts->buckets);
  for (int64_t c = 0; parts->lists != NULL && c < parts->num_chunks; c++) tri_op_list_destroy(parts->lists[c]);
  tri_free(parts->lists);
  tri_parameter_table_destroy(parts->table);
  tri_free(parts->chunks);
  *parts = (tri_parts){0};
}

tri_memory_request tri_parts_memory(const tri_parts_request *of, const tri_parts *parts) {
  tri_memory_request request = {
      .lists = (const tri_op_list *const *)parts->lists,
      .num_frames = parts->program->num_frames,
      .num_chunks = parts->num_chunks,
      .buckets = parts->buckets,
      .num_values = parts->buckets->value_elements,
      .num_gradients = parts->buckets->gradient_elements,
      .updates = parts->updates,
      .num_partial = parts->num_partial,
      .training = true,
      .split_backward = parts->program->split_backward,
      .num_batches = of->micro_batches + 1,
  };
  const tri_op_list *last = parts->lists[parts->num_chunks - 1];
  request.label_results = tri_objective_has_completions(of->objective) && last->num_calls > 0 &&
                          last->calls[last->num_calls - 1].op->makes_loss;
  memcpy(request.num_frozen, parts->buckets->frozen_elements, sizeof request.num_frozen);
  request.num_sink = sink_elements(parts->table);
  request.load_bytes = tri_weights_load_bytes(parts->table, parts->buckets, of->precision);
  for (int kind = 0; kind < TRI_NUM_STAGE_BUFFER_KINDS; kind++)
    request.stage_buffers[kind] = parts->program->stage_buffers[kind];
  return request;
}
