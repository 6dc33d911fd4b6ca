/* The calls of a layer of experts, in their order.
 *
 * Each rank routes its own rows. Ranks that split a layer and all have the same rows first take a slice each, and
 * gather their results at the end. The shared experts are an ordinary dense part. They are computed while rows are in
 * transfer, so that both overlap. If they need rows that were not sliced, they come first, since the backward of the
 * operation that takes a slice (tri_own_slice) cannot add to an existing gradient, and has to run first.
 *
 * In generation the number of rows differs from run to run, so no slices are taken: each tensor rank routes all rows to
 * its parts of all experts, and the ranks' results are summed. */
#include "ops/expert_factors.h"
#include "ops/experts_internal.h"

typedef struct building {
  tri_op_list *list;
  const tri_expert_layer *layer;
  const tri_expert_parameters *parameters;
} building;

static tri_status append_shared(const building *b, int32_t x, int32_t *out) {
  const tri_expert_layer *layer = b->layer;
  tri_op_list *list = b->list;
  const int64_t ffn = tri_op_share(list, layer->shared_ffn_size), width = layer->width;
  int32_t y;
  TRI_TRY(tri_op_enter_tensor(list, x, &y));
  TRI_TRY(tri_op_linear(list, width, 2 * ffn, TRI_WEIGHT_OUT_IN, y, b->parameters->shared_gate, -1, &y));
  TRI_TRY(tri_op_gated(list, layer->activation, y, &y));
  return tri_op_linear_row(list, ffn, width, TRI_WEIGHT_OUT_IN, y, b->parameters->shared_down, -1, out);
}

/* Appends the calls from this rank's own rows to the outputs of their experts, and the shared experts between them. */
static tri_status append_experts(const building *b, int32_t x, int32_t *out, int32_t *shared) {
  const tri_expert_layer *layer = b->layer;
  tri_op_list *list = b->list;
  const int64_t tensor_ranks = tri_op_list_ranks(list, TRI_DOMAIN_EXPERT_TENSOR), width = layer->width;
  const int64_t ffn = layer->ffn_size / tensor_ranks;
  tri_expert_rows rows;
  tri_routed routed;
  tri_dispatched to;
  tri_expert_calls calls;
  int32_t up, active, y;
  TRI_TRY(tri_op_route(list, layer, x, b->parameters->router, b->parameters->router_bias, &routed));
  TRI_TRY(tri_expert_rows_plan(list, layer, &rows));
  TRI_TRY(tri_op_dispatch(list, &rows, x, routed, &to));
  if (shared != NULL) TRI_TRY(append_shared(b, x, shared));
  list->expert = true;
  TRI_TRY(tri_op_arrive(list, &rows, &to));
  calls.dispatch = to.call;
  TRI_TRY(tri_op_experts(list, &rows, width, 2 * ffn, to.rows, to.tables, b->parameters->gate_up, &up));
  calls.gate_up = list->slots[up].producer;
  TRI_TRY(tri_op_expert_factors(list, &rows, width, b->parameters->gate_up, to.rows, to.tables, &up,
                                &calls.gate_up_factors));
  TRI_TRY(tri_op_weighted_gated(list, &rows, layer->activation, ffn, up, to.weights, to.tables, &active));
  TRI_TRY(tri_op_experts(list, &rows, ffn, width, active, to.tables, b->parameters->down, &y));
  calls.down = list->slots[y].producer;
  TRI_TRY(tri_op_expert_factors(list, &rows, ffn, b->parameters->down, active, to.tables, &y, &calls.down_factors));
  return tri_op_combine(list, &rows, &calls, ffn, layer->activation, y, to.tables, x, routed.weights, out);
}

static tri_status append_layer(const building *b, int32_t x, int32_t *out) {
  tri_op_list *list = b->list;
  const bool has_shared = b->layer->shared_ffn_size > 0;
  const bool cuts = tri_op_list_ranks(list, TRI_DOMAIN_TENSOR) > 1 && !list->sliced && !list->generating;
  const bool sums = list->generating && tri_op_list_ranks(list, TRI_DOMAIN_EXPERT_TENSOR) > 1;
  int32_t shared = -1;
  if (!cuts) {
    TRI_TRY(append_experts(b, x, out, has_shared ? &shared : NULL));
    if (sums) TRI_TRY(tri_op_mesh_collective(list, &tri_reduce_from_tensor, *out, out));
  } else {
    if (has_shared) TRI_TRY(append_shared(b, x, &shared));
    TRI_TRY(tri_op_mesh_collective(list, &tri_own_slice, x, &x));
    TRI_TRY(append_experts(b, x, out, NULL));
    TRI_TRY(tri_op_mesh_collective(list, &tri_join_slices, *out, out));
  }
  return has_shared ? tri_op_add(list, *out, shared, out) : TRI_OK;
}

tri_status tri_op_expert_layer(tri_op_list *list, const tri_expert_layer *layer,
                               const tri_expert_parameters *parameters, int32_t x, int32_t *out) {
  const building b = {list, layer, parameters};
  tri_status status = append_layer(&b, x, out);
  list->expert = false;
  return status;
}
