/* The router of a layer of experts: logits = x W^T, and for each token its experts and their weights (base/router.h).
 * Gradients come only through the weights of the chosen experts, and from the losses that depend on the logits. Rows of
 * padding (mesh/label.h) are not tokens: they have no expert and no gradient, and do not enter any count or loss.
 *
 * Each rank routes its own rows. Statistics of a sequence for the loss are reduced over the ranks that have tokens of
 * it, so that the loss does not depend on the split; one of these ranks adds it. */
#include "base/count.h"
#include "device/kernels.h"
#include "ops/experts_internal.h"
#include "ops/weight.h"

enum { EXPERTS, WEIGHTS, LOGITS, BALANCE };

typedef struct route {
  tri_weight weight;
  tri_router router;
  double balance; /* coefficient of the balance loss of each sequence; 0: no such loss */
  double z;
  int64_t sequences, sequence_rows; /* sequences of a micro-batch; rows of a sequence on this rank before sequence
                                       parallelism slices them */
  bool counts;                      /* whether this rank adds the loss of its sequences */
  int32_t number;                   /* index among the routers of the list */
} route;

static bool is_balanced(const tri_op_call *call) { return call->outputs[BALANCE] >= 0; }

static tri_status op_route_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                 tri_shape outputs[TRI_OP_OUTPUTS]) {
  const route *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  outputs[EXPERTS] = (tri_shape){inputs[0].rows, at->router.chosen, TRI_INT32};
  outputs[WEIGHTS] = (tri_shape){inputs[0].rows, at->router.chosen, wide};
  outputs[LOGITS] = (tri_shape){inputs[0].rows, at->router.experts, wide};
  outputs[BALANCE] = (tri_shape){at->sequences, at->router.experts, wide};
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t logits_bytes(const tri_op_call *call, tri_dtype type) {
  const route *at = call->attributes;
  return tri_bytes_in_lines((size_t)(call->rows * at->router.experts) * tri_dtype_bytes(type));
}

static size_t loads_bytes(const tri_op_call *call) {
  const route *at = call->attributes;
  size_t loads = (size_t)(2 * at->sequences * at->router.experts);
  return tri_bytes_in_lines(loads * tri_dtype_bytes(tri_dtype_wide(call->type)));
}

/* Return the bytes of the parts of the workspace. Forward: the loads and a loss that is discarded. Backward: the
 * gradient of the logits, in the wide type and in the GEMMs' type. The scratch of the GEMMs follows. */
static size_t forward_bytes(const tri_op_call *call) { return loads_bytes(call) + tri_bytes_in_lines(sizeof(double)); }

static bool is_narrow(const tri_op_call *call) { return call->type != tri_dtype_wide(call->type); }

static size_t backward_bytes(const tri_op_call *call) {
  size_t narrow = is_narrow(call) ? logits_bytes(call, call->type) : 0;
  return logits_bytes(call, tri_dtype_wide(call->type)) + narrow;
}

static tri_matmul logits_product(const tri_op_call *call, int64_t rows) {
  const route *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_FORWARD, rows);
  gemm.c_type = tri_dtype_wide(call->type);
  return gemm;
}

static tri_status op_route_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const route *at = call->attributes;
  tri_matmul gemm = logits_product(call, call->rows);
  TRI_TRY(tri_weight_memory(call, device, &gemm, TRI_DIRECTION_FORWARD, out));
  if (call->training) {
    gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, call->rows);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
      gemm.accumulate = accumulate == 1;
      TRI_TRY(tri_weight_memory(call, device, &gemm, TRI_DIRECTION_BACKWARD, out));
      tri_matmul gradient = tri_weight_gradient(call, &at->weight, call->rows);
      size_t bytes = 0;
      gradient.accumulate = accumulate == 1;
      TRI_TRY(device->matmul_workspace(device, &gradient, &bytes));
      if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
    }
  }
  size_t own = forward_bytes(call);
  if (call->training && backward_bytes(call) > own) own = backward_bytes(call);
  out->workspace_bytes += own;
  return TRI_OK;
}

static tri_status op_route_prepare(tri_run *run, const tri_op_call *call) {
  const route *at = call->attributes;
  tri_matmul gemm = logits_product(call, call->rows);
  TRI_TRY(tri_weight_prepare(run, call, &gemm, TRI_DIRECTION_FORWARD));
  if (!call->training) return TRI_OK;
  gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, call->rows);
  return tri_weight_prepare(run, call, &gemm, TRI_DIRECTION_BACKWARD);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Computes the balance of the experts and its loss, for whole sequences. */
static tri_status balance(tri_run *run, const tri_op_call *call, bool adds) {
  const route *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const int64_t sequences = at->sequences, loads = 2 * sequences * at->router.experts;
  const void *logits = run->slots[call->outputs[LOGITS]];
  char *workspace = run->workspace;
  double *unused = (double *)(void *)(workspace + loads_bytes(call));
  TRI_KERNEL_CALL(run->queue, router_loads, call->type, tri_all_rows(call->rows), &at->router, logits,
                  run->slots[call->outputs[EXPERTS]], call->first_row, at->sequence_rows, sequences, workspace);
  TRI_TRY(tri_run_all_reduce(run, TRI_DOMAIN_SEQUENCE, wide, loads, workspace));
  if (!adds) TRI_KERNEL_CALL(run->queue, fill_zero, sizeof *unused, unused);
  TRI_KERNEL_CALL(run->queue, router_balance, call->type, &at->router, sequences, at->balance, run->values, workspace,
                  run->slots[call->outputs[BALANCE]], adds ? run->router_loss : unused);
  return TRI_OK;
}

static tri_status op_route_forward(tri_run *run, const tri_op_call *call) {
  const route *at = call->attributes;
  const tri_rows rows = tri_all_rows(tri_run_rows(run, call));
  const tri_matmul gemm = logits_product(call, rows.capacity);
  const void *bias = call->parameters[1] < 0 ? NULL : run->parameters[call->parameters[1]].value;
  char *behind = (char *)run->workspace + forward_bytes(call);
  void *logits = run->slots[call->outputs[LOGITS]], *weights = run->slots[call->outputs[WEIGHTS]];
  int32_t *experts = run->slots[call->outputs[EXPERTS]];
  const int32_t *labels = run->labels == NULL ? NULL : run->labels + call->first_row;
  bool adds = run->router_loss != NULL && !run->recompute;
  TRI_TRY(
      tri_weight_multiply(run, call, &gemm, TRI_DIRECTION_FORWARD, run->slots[call->inputs[0]], NULL, logits, behind));
  TRI_KERNEL_CALL(run->queue, router_forward, call->type, rows, &at->router, labels, logits, bias, experts, weights);
  if (run->router_counts != NULL && !run->recompute) {
    TRI_KERNEL_CALL(run->queue, router_count, call->type, rows, &at->router, experts, weights,
                    run->router_counts + at->number * (at->router.experts + 1));
  }
  if (!run->training || !call->training) return TRI_OK;
  if (at->z > 0 && adds) {
    TRI_KERNEL_CALL(run->queue, router_z_loss, call->type, rows, &at->router, at->z, run->values, logits, experts,
                    run->router_loss);
  }
  if (is_balanced(call)) TRI_TRY(balance(run, call, adds && at->counts));
  if (!adds || (at->z == 0 && !is_balanced(call))) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, exact_add, run->router_loss, run->router_losses);
  TRI_KERNEL_CALL(run->queue, fill_zero, sizeof *run->router_loss, run->router_loss);
  return TRI_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

/* Computes the gradient of the logits in the type that the GEMMs read. */
static tri_status logits_gradient(tri_run *run, const tri_op_call *call, const void **out) {
  const route *at = call->attributes;
  const tri_dtype wide = tri_dtype_wide(call->type);
  const tri_rows rows = tri_all_rows(tri_run_rows(run, call));
  char *gradient = run->workspace, *narrow = gradient + logits_bytes(call, wide);
  const void *balance_slot = is_balanced(call) ? run->slots[call->outputs[BALANCE]] : NULL;
  TRI_KERNEL_CALL(run->queue, router_backward, call->type, rows, &at->router, run->slots[call->outputs[LOGITS]],
                  run->slots[call->outputs[EXPERTS]], run->slots[call->outputs[WEIGHTS]],
                  run->gradients[call->outputs[WEIGHTS]], balance_slot, call->first_row, at->sequence_rows, at->z,
                  run->values, gradient);
  *out = gradient;
  if (!is_narrow(call)) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, rows.capacity * at->router.experts, wide, gradient, call->type, narrow);
  *out = narrow;
  return TRI_OK;
}

static tri_status op_route_backward_input(tri_run *run, const tri_op_call *call) {
  const route *at = call->attributes;
  const void *gradient = NULL;
  TRI_TRY(logits_gradient(run, call, &gradient));
  tri_matmul gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_BACKWARD, tri_run_rows(run, call));
  gemm.accumulate = call->accumulate[0];
  return tri_weight_multiply(run, call, &gemm, TRI_DIRECTION_BACKWARD, gradient, NULL, run->gradients[call->inputs[0]],
                             (char *)run->workspace + backward_bytes(call));
}

static tri_status op_route_backward_weight(tri_run *run, const tri_op_call *call) {
  const route *at = call->attributes;
  const void *gradient = NULL;
  if (tri_op_is_frozen(call, 0)) return TRI_OK;
  TRI_TRY(logits_gradient(run, call, &gradient));
  tri_matmul gemm = tri_weight_gradient(call, &at->weight, tri_run_rows(run, call));
  return tri_weight_accumulate(run, call, &at->weight, &gemm, run->slots[call->inputs[0]], gradient,
                               (char *)run->workspace + backward_bytes(call));
}

static void op_route_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const route *at = call->attributes;
  double rows = (double)call->rows, in = (double)at->weight.in, experts = (double)at->router.experts;
  double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  *out = (tri_cost){
      .flops = 2.0 * rows * in * experts,
      .rows = tri_pass_choose(pass, rows, rows, experts),
      .inner = tri_pass_choose(pass, in, experts, rows),
      .columns = tri_pass_choose(pass, experts, in, in),
      .products = 1,
      .form = tri_weight_form(pass, at->weight.order),
      .unpacked = call->weights_gathered,
      .vector_flops = 10.0 * rows * experts,
      .elements = tri_pass_choose(pass, rows, rows, 0) * experts,
      .bytes =
          rows * in * narrow + 2.0 * rows * experts * wide + in * experts * tri_pass_choose(pass, narrow, narrow, wide),
  };
  bool forward = tri_pass_choose(pass, 1, 0, 0) > 0;
  if (forward && is_balanced(call)) {
    out->exchanges[0] = (tri_cost_exchange){.collective = TRI_COLLECTIVE_ALL_REDUCE,
                                            .domain = TRI_DOMAIN_SEQUENCE,
                                            .bytes = 2.0 * (double)at->sequences * experts * wide};
  }
}

static const tri_op op_route = {
    .name = "route",
    .routes = true,
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << EXPERTS | 1u << WEIGHTS | 1u << LOGITS | 1u << BALANCE,
    .adds_gradients = 1u << 0,
    .shape = op_route_shape,
    .memory = op_route_memory,
    .prepare = op_route_prepare,
    .forward = op_route_forward,
    .backward_input = op_route_backward_input,
    .backward_weight = op_route_backward_weight,
    .cost = op_route_cost,
};

static double sequence_balance(const tri_op_list *list, const tri_expert_layer *layer) {
  if (!list->training) return 0;
  switch (layer->balance) {
    case TRI_BALANCE_EXPERTS_SEQUENCE: return layer->balance_rate;
    case TRI_BALANCE_EXPERTS_NONE:
    case TRI_BALANCE_EXPERTS_BIAS: break;
  }
  return 0;
}

tri_status tri_op_route(tri_op_list *list, const tri_expert_layer *layer, int32_t x, int32_t router, int32_t bias,
                        tri_routed *out) {
  const route at = {.weight = {layer->width, layer->router.experts, TRI_WEIGHT_OUT_IN},
                    .router = layer->router,
                    .balance = sequence_balance(list, layer),
                    .z = list->training ? layer->z_loss : 0,
                    .sequences = list->batch,
                    .sequence_rows = list->sequence,
                    .counts = tri_op_list_rank(list, TRI_DOMAIN_SEQUENCE) == 0,
                    .number = list->num_routers++};
  list->router_experts = layer->router.experts;
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_route, &at, sizeof at, &call));
  call.inputs[0] = x;
  call.parameters[0] = router;
  call.parameters[1] = bias;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, at.balance > 0 ? 4 : 3, outputs));
  *out = (tri_routed){outputs[EXPERTS], outputs[WEIGHTS]};
  return TRI_OK;
}
