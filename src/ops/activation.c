/* y = act(x), element by element. */
#include "ops/activation.h"

#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct activation {
  tri_activation kind;
  int64_t width;
} activation;

static tri_status op_activation_forward(tri_run *run, const tri_op_call *call) {
  const activation *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, activation_forward, call->type, at->kind, tri_all_rows(tri_run_rows(run, call)),
                  at->width, run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_activation_backward_input(tri_run *run, const tri_op_call *call) {
  const activation *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, activation_backward, call->type, at->kind, tri_all_rows(tri_run_rows(run, call)),
                  at->width, run->slots[call->inputs[0]], run->gradients[call->outputs[0]],
                  run->gradients[call->inputs[0]]);
  return TRI_OK;
}

double tri_activation_flops(tri_activation kind, tri_pass pass) {
#define FLOPS(VALUE, name, hf_names, operation, gated, forward, backward, ...) {forward, backward},
  static const double of[][2] = {TRI_ACTIVATIONS(FLOPS)};
  return tri_pass_choose(pass, of[kind][0], of[kind][1], 0);
}

static void op_activation_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const activation *at = call->attributes;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width, tri_activation_flops(at->kind, pass),
                          tri_pass_choose(pass, 2.0, 3.0, 0), out);
}

/* All activations are bound by memory bandwidth; their cost is the measured cost of GELU. */
#define OPERATION(VALUE, name_, hf_names, operation, ...)                                                              \
  {.name = operation,                                                                                                  \
   .work = "gelu",                                                                                                     \
   .cheap = true,                                                                                                      \
   .keeps_inputs = 1u << 0,                                                                                            \
   .backward_in_place = true,                                                                                          \
   .shape = tri_op_same_shape,                                                                                         \
   .forward = op_activation_forward,                                                                                   \
   .backward_input = op_activation_backward_input,                                                                     \
   .cost = op_activation_cost},
static const tri_op activations[] = {TRI_ACTIVATIONS(OPERATION)};

tri_status tri_op_activation(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &activations[kind], &(activation){kind, list->slots[x].shape.width},
                           sizeof(activation), &call));
  call.inputs[0] = x;
  return tri_op_list_append_first(list, &call, 1, out);
}
