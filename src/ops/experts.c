/* GEMMs of the rows of experts, y = x W_e^T for the rows of each, and the activation between them: y = w act(gate) up,
 * with the weight w that the router gave the row. The weight is applied here, and not to the expert's output, because
 * the activation's input is kept anyway and usually has fewer columns; so the weight's gradient is computed on the
 * expert's rank.
 *
 * `expert_tensor` ranks have parts of each matrix: rows of gate and up, columns of down, whose products are then
 * partial sums (combine.c). */
#include "device/kernels.h"
#include "ops/activation.h"
#include "ops/experts_internal.h"
#include "ops/weight.h"

enum { X, TABLES, ROW_WEIGHTS };

typedef struct experts {
  tri_weight weight;
  int64_t count, capacity, begins;
  double expected; /* number of rows that the cost assumes */
} experts;

static const int32_t *begins_of(const tri_run *run, const tri_op_call *call) {
  const experts *at = call->attributes;
  return tri_expert_table(run, call->inputs[TABLES], at->begins);
}

static tri_status op_experts_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                   tri_shape outputs[TRI_OP_OUTPUTS]) {
  const experts *at = call->attributes;
  if (inputs[X].width != at->weight.in) {
    return tri_fail_internal("experts take width %ld and were given %ld", (long)at->weight.in, (long)inputs[X].width);
  }
  outputs[0] = (tri_shape){at->capacity, at->weight.out, call->type};
  return TRI_OK;
}

static tri_matmul gemm_of(const tri_op_call *call, tri_direction direction) {
  const experts *at = call->attributes;
  return tri_weight_gemm(call, &at->weight, direction, at->capacity);
}

static tri_matmul gradient_of(const tri_op_call *call) {
  const experts *at = call->attributes;
  return tri_weight_gradient(call, &at->weight, at->capacity);
}

static tri_status op_experts_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const experts *at = call->attributes;
  tri_matmul gemm = gemm_of(call, TRI_DIRECTION_FORWARD);
  TRI_TRY(tri_weight_stack_memory(call, device, &gemm, at->count, TRI_DIRECTION_FORWARD, out));
  if (!call->training) return TRI_OK;
  gemm = gemm_of(call, TRI_DIRECTION_BACKWARD);
  gemm.accumulate = call->accumulate[X];
  TRI_TRY(tri_weight_stack_memory(call, device, &gemm, at->count, TRI_DIRECTION_BACKWARD, out));
  if (gemm.accumulate) { /* the products of later windows do not accumulate */
    gemm.accumulate = false;
    TRI_TRY(tri_weight_stack_memory(call, device, &gemm, at->count, TRI_DIRECTION_BACKWARD, out));
  }
  gemm = gradient_of(call);
  return tri_weight_stack_gradient_memory(device, &gemm, at->count, out);
}

tri_status tri_experts_workspace(const tri_op_call *call, const tri_device_description *device, size_t *bytes) {
  tri_op_memory memory = {0};
  TRI_TRY(op_experts_memory(call, device, &memory));
  *bytes = memory.workspace_bytes;
  return TRI_OK;
}

static tri_status op_experts_prepare(tri_run *run, const tri_op_call *call) {
  const experts *at = call->attributes;
  tri_matmul gemm = gemm_of(call, TRI_DIRECTION_FORWARD);
  TRI_TRY(tri_weight_stack_prepare(run, call, &gemm, at->count, TRI_DIRECTION_FORWARD));
  if (!call->training) return TRI_OK;
  gemm = gemm_of(call, TRI_DIRECTION_BACKWARD);
  return tri_weight_stack_prepare(run, call, &gemm, at->count, TRI_DIRECTION_BACKWARD);
}

tri_status tri_experts_multiply(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x, void *y,
                                void *workspace) {
  const experts *at = call->attributes;
  tri_matmul gemm = gemm_of(call, TRI_DIRECTION_FORWARD);
  return tri_weight_stack_multiply(run, call, &gemm, at->count, TRI_DIRECTION_FORWARD, begins, x, y, workspace);
}

tri_status tri_experts_multiply_back(tri_run *run, const tri_op_call *call, const int32_t *begins,
                                     const void *gradient_y, void *gradient_x, bool accumulate, void *workspace) {
  const experts *at = call->attributes;
  tri_matmul gemm = gemm_of(call, TRI_DIRECTION_BACKWARD);
  gemm.accumulate = accumulate;
  return tri_weight_stack_multiply(run, call, &gemm, at->count, TRI_DIRECTION_BACKWARD, begins, gradient_y, gradient_x,
                                   workspace);
}

tri_status tri_experts_accumulate(tri_run *run, const tri_op_call *call, const int32_t *begins, const void *x,
                                  const void *gradient_y, void *workspace) {
  const experts *at = call->attributes;
  tri_matmul gemm = gradient_of(call);
  return tri_weight_stack_accumulate(run, call, &gemm, at->count, begins, x, gradient_y, workspace);
}

static tri_status op_experts_forward(tri_run *run, const tri_op_call *call) {
  return tri_experts_multiply(run, call, begins_of(run, call), run->slots[call->inputs[X]],
                              run->slots[call->outputs[0]], run->workspace);
}

static tri_status op_experts_backward_input(tri_run *run, const tri_op_call *call) {
  return tri_experts_multiply_back(run, call, begins_of(run, call), run->gradients[call->outputs[0]],
                                   run->gradients[call->inputs[X]], call->accumulate[X], run->workspace);
}

static tri_status op_experts_backward_weight(tri_run *run, const tri_op_call *call) {
  return tri_experts_accumulate(run, call, begins_of(run, call), run->slots[call->inputs[X]],
                                run->gradients[call->outputs[0]], run->workspace);
}

static void op_experts_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const experts *at = call->attributes;
  const double in = (double)at->weight.in, width = (double)at->weight.out, count = (double)at->count;
  const double of_each = at->expected / count;
  double narrow = (double)tri_dtype_bytes(call->type), wide = (double)tri_dtype_bytes(tri_dtype_wide(call->type));
  *out = (tri_cost){
      .flops = 2.0 * at->expected * in * width,
      .form = tri_weight_form(pass, at->weight.order),
      .unpacked = call->weights_gathered,
      .rows = tri_pass_choose(pass, of_each, of_each, width),
      .inner = tri_pass_choose(pass, in, width, of_each),
      .columns = tri_pass_choose(pass, width, in, in),
      .products = count,
      .copied = tri_weight_copied(call, pass, count * in * width),
      .bytes = at->expected * (in + width) * narrow + count * in * width * tri_pass_choose(pass, narrow, narrow, wide),
  };
}

static const tri_op op_experts = {
    .name = "experts",
    .of_experts = true,
    .keeps_inputs = 1u << X | 1u << TABLES,
    .only_for_weights = 1u << X,
    .no_gradients = 1u << TABLES,
    .adds_gradients = 1u << X,
    .shape = op_experts_shape,
    .memory = op_experts_memory,
    .prepare = op_experts_prepare,
    .forward = op_experts_forward,
    .backward_input = op_experts_backward_input,
    .backward_weight = op_experts_backward_weight,
    .cost = op_experts_cost,
};

tri_status tri_op_experts(tri_op_list *list, const tri_expert_rows *rows, int64_t in, int64_t out_width, int32_t x,
                          int32_t tables, int32_t parameter, int32_t *out) {
  const experts at = {.weight = {in, out_width, TRI_WEIGHT_OUT_IN},
                      .count = rows->num_experts,
                      .capacity = rows->capacity,
                      .begins = rows->here,
                      .expected = tri_expert_rows_first(rows)};
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_experts, &at, sizeof at, &call));
  call.inputs[X] = x;
  call.inputs[TABLES] = tables;
  call.parameters[0] = parameter;
  return tri_op_list_append_first(list, &call, 1, out);
}

/* ---- the activation ---------------------------------------------------------------------------------------------- */

typedef struct weighted_gated {
  int64_t width, capacity, end; /* elements of a row; rows of a window; offset in the tables of the element with the
                                   number of rows */
  double expected;
  tri_activation kind;
} weighted_gated;

static tri_status op_weighted_gated_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  const weighted_gated *at = call->attributes;
  (void)inputs;
  outputs[0] = (tri_shape){at->capacity, at->width, call->type};
  return TRI_OK;
}

static tri_rows rows_of(const tri_run *run, const tri_op_call *call) {
  const weighted_gated *at = call->attributes;
  return (tri_rows){at->capacity, tri_expert_table(run, call->inputs[TABLES], at->end)};
}

static tri_status op_weighted_gated_forward(tri_run *run, const tri_op_call *call) {
  const weighted_gated *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, weighted_gated_forward, call->type, at->kind, rows_of(run, call), at->width,
                  run->slots[call->inputs[X]], run->slots[call->inputs[ROW_WEIGHTS]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_weighted_gated_backward_input(tri_run *run, const tri_op_call *call) {
  const weighted_gated *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, weighted_gated_backward, call->type, at->kind, rows_of(run, call), at->width,
                  run->slots[call->inputs[X]], run->slots[call->inputs[ROW_WEIGHTS]], run->gradients[call->outputs[0]],
                  run->gradients[call->inputs[X]], run->gradients[call->inputs[ROW_WEIGHTS]]);
  return TRI_OK;
}

static void op_weighted_gated_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const weighted_gated *at = call->attributes;
  tri_op_cost_of_elements(call, at->expected * (double)at->width,
                          tri_activation_flops(at->kind, pass) + tri_pass_choose(pass, 2.0, 5.0, 0),
                          tri_pass_choose(pass, 3.0, 5.0, 0), out);
}

#define OPERATION(VALUE, name_, hf_names, operation, gated, ...)                                                       \
  {.name = "weighted_" gated,                                                                                          \
   .work = "weighted_swiglu",                                                                                          \
   .of_experts = true,                                                                                                 \
   .cheap = true,                                                                                                      \
   .keeps_inputs = 1u << X | 1u << TABLES | 1u << ROW_WEIGHTS,                                                         \
   .no_gradients = 1u << TABLES,                                                                                       \
   .shape = op_weighted_gated_shape,                                                                                   \
   .forward = op_weighted_gated_forward,                                                                               \
   .backward_input = op_weighted_gated_backward_input,                                                                 \
   .cost = op_weighted_gated_cost},
static const tri_op weighted_gates[] = {TRI_ACTIVATIONS(OPERATION)};

tri_status tri_op_weighted_gated(tri_op_list *list, const tri_expert_rows *rows, tri_activation kind, int64_t width,
                                 int32_t x, int32_t weights, int32_t tables, int32_t *out) {
  const weighted_gated at = {width, rows->capacity, rows->here + rows->num_experts, tri_expert_rows_first(rows), kind};
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &weighted_gates[kind], &at, sizeof at, &call));
  call.inputs[X] = x;
  call.inputs[TABLES] = tables;
  call.inputs[ROW_WEIGHTS] = weights;
  return tri_op_list_append_first(list, &call, 1, out);
}
