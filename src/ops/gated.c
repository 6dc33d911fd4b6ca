/* Gated activations (Shazeer 2020): y = act(gate) * up, with gate and up adjacent in each row of x. SwiGLU uses SiLU,
 * GeGLU GELU, ReGLU ReLU. */
#include "device/kernels.h"
#include "ops/activation.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct gated {
  tri_activation kind;
  int64_t width;
} gated;

static tri_status op_gated_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                 tri_shape outputs[TRI_OP_OUTPUTS]) {
  const gated *at = call->attributes;
  outputs[0] = (tri_shape){inputs[0].rows, at->width, call->type};
  return TRI_OK;
}

static tri_status op_gated_forward(tri_run *run, const tri_op_call *call) {
  const gated *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, gated_forward, call->type, at->kind, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_gated_backward_input(tri_run *run, const tri_op_call *call) {
  const gated *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, gated_backward, call->type, at->kind, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->gradients[call->outputs[0]], run->gradients[call->inputs[0]]);
  return TRI_OK;
}

static void op_gated_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const gated *at = call->attributes;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width,
                          tri_activation_flops(at->kind, pass) + tri_pass_choose(pass, 1.0, 2.0, 0),
                          tri_pass_choose(pass, 3.0, 5.0, 0), out);
}

/* All gated activations are bound by memory bandwidth; their cost is the measured cost of SwiGLU. */
#define OPERATION(VALUE, name_, hf_names, operation, gated, ...)                                                       \
  {.name = gated,                                                                                                      \
   .work = "swiglu",                                                                                                   \
   .cheap = true,                                                                                                      \
   .keeps_inputs = 1u << 0,                                                                                            \
   .shape = op_gated_shape,                                                                                            \
   .forward = op_gated_forward,                                                                                        \
   .backward_input = op_gated_backward_input,                                                                          \
   .cost = op_gated_cost},
static const tri_op gates[] = {TRI_ACTIVATIONS(OPERATION)};

tri_status tri_op_gated(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &gates[kind], &(gated){kind, list->slots[x].shape.width / 2}, sizeof(gated), &call));
  call.inputs[0] = x;
  return tri_op_list_append_first(list, &call, 1, out);
}
