#include "plan/unit_price.h"

#include "base/memory.h"
#include "model/family.h"
#include "ops/recompute.h"
#include "plan/call_price.h"
#include "schedule/parts.h"

/* Returns the seconds of a price. The exchange of rows of experts counts as 0 if the system overlaps it with the
 * computation of another micro-batch. */
static double seconds(const tri_system *system, tri_price price) {
  const double hidden = system->overlap_batches ? price.along_s[tri_domain_axis(TRI_DOMAIN_EXPERT)] : 0;
  return price.compute_s + tri_price_collectives_s(&price) - hidden;
}

static bool is_of_layer(const tri_op_list *list, int64_t slot, int64_t layer) {
  return list->calls[list->slots[slot].producer].layer == layer;
}

/* Adds the bytes of the gradients that a split backward keeps until the backward of weights: those of the outputs of
 * calls with weights. A buffer that the layer shares with another layer is not counted. */
static tri_status add_deferred(const tri_op_list *list, int64_t layer, tri_unit_price *unit) {
  int32_t *buffer_of = NULL;
  int64_t num_buffers = 0;
  TRI_TRY(tri_alloc("bounds", (size_t)list->num_slots, sizeof *buffer_of, &buffer_of));
  tri_status status = tri_gradient_buffers(list, true, buffer_of, &num_buffers);
  for (int64_t b = 0; b < num_buffers && status == TRI_OK; b++) {
    bool mine = true, stays = false;
    double bytes = 0;
    for (int64_t s = 0; s < list->num_slots; s++) {
      if (buffer_of[s] != b) continue;
      mine = mine && is_of_layer(list, s, layer);
      stays = stays || tri_op_has_weights(&list->calls[list->slots[s].producer]);
      bytes = (double)tri_shape_bytes(&list->slots[s].shape);
    }
    if (mine && stays) unit->deferred += bytes;
  }
  tri_free(buffer_of);
  return status;
}

static tri_status add_packed(const tri_search_request *request, const tri_op_call *call, tri_unit_price *unit) {
  tri_op_memory memory = {0};
  if (call->op->memory == NULL || !request->system->planned) return TRI_OK;
  TRI_TRY(call->op->memory(call, tri_cluster_description(request->cluster), &memory));
  for (int b = 0; b < TRI_OP_BUFFERS; b++) unit->packed += (double)memory.buffer_bytes[b];
  return TRI_OK;
}

/* Adds the seconds and bytes of the calls of one layer to a unit. */
static tri_status add_calls(const tri_search_request *request, const tri_layout *of, const tri_op_list *list,
                            int64_t layer, tri_unit_price *unit) {
  tri_pricer pricer = {
      .cluster = request->cluster, .system = request->system, .layout = of, .shape = tri_layout_mesh(of)};
  for (int64_t c = 0; c < list->num_calls; c++) {
    const tri_op_call *call = &list->calls[c];
    if (call->layer != layer || call->op->passes_messages) continue;
    tri_call_price price;
    tri_pricer_call(&pricer, list, c, &price);
    double input = seconds(request->system, price.backward_input), again = seconds(request->system, price.recompute);
    unit->forward += seconds(request->system, price.forward);
    unit->backward +=
        input + seconds(request->system, price.backward_weight) + seconds(request->system, price.together) + again;
    unit->backward_input += input + again;
    unit->recompute += again;
    TRI_TRY(add_packed(request, call, unit));
    double transfer = call->op->transfer == NULL ? 0 : (double)call->op->transfer(call);
    if (transfer > unit->transfer) unit->transfer = transfer;
  }
  for (int64_t s = 0; s < list->num_slots; s++) {
    const tri_slot *slot = &list->slots[s];
    bool mine =
        slot->memory_of == s && list->calls[slot->producer].layer == layer && tri_op_list_keeps(list, (int32_t)s);
    if (tri_price_gathers_again(request->system, list, &list->calls[slot->producer])) continue;
    if (!mine) continue;
    const double bytes = (double)tri_shape_bytes(&slot->shape);
    if (slot->recomputed) {
      unit->recomputed += bytes;
    } else {
      unit->kept += bytes * (1 - request->system->offload_activations);
    }
  }
  return add_deferred(list, layer, unit);
}

tri_status tri_price_unit(const tri_search_request *request, const tri_layout *of, const tri_wanted_unit *wanted) {
  const tri_layout listed = tri_system_listed(request->system, of);
  const tri_parts_request parts = {.model = wanted->model,
                                   .layout = &listed,
                                   .sequence = request->sequence,
                                   .precision = request->precision,
                                   .objective = request->objective,
                                   .masked = request->masked,
                                   .masked_attention_fraction = request->masked_attention_fraction,
                                   .expert_imbalance = request->expert_imbalance};
  const tri_mesh_position position = {tri_layout_mesh(&listed), tri_layout_fullest(&listed, request->sequence, 0)};
  tri_list_request list_request = tri_parts_list(&parts, &position, wanted->layers);
  tri_op_list *list = NULL;
  list_request.below_trains = wanted->passes;
  TRI_TRY(tri_model_operations(wanted->model, &list_request, &list));
  const tri_status status = add_calls(request, of, list, wanted->layer, wanted->unit);
  tri_op_list_destroy(list);
  return status;
}
