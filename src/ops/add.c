/* y = x + branch: the residual connection. The gradients of x and of branch both equal the gradient of y. If it is
 * safe, the memory plan lets all three share memory, and the backward does nothing. A norm that directly follows
 * computes this sum in its own forward. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

static tri_status op_add_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                               tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  if (inputs[0].width != inputs[1].width || inputs[0].rows != inputs[1].rows) {
    return tri_fail_internal("add takes equal shapes and was given widths %ld and %ld", (long)inputs[0].width,
                             (long)inputs[1].width);
  }
  outputs[0] = inputs[0];
  return TRI_OK;
}

typedef struct add {
  int64_t width;
} add;

static tri_status op_add_forward(tri_run *run, const tri_op_call *call) {
  const add *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->slots[call->inputs[1]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_add_backward_input(tri_run *run, const tri_op_call *call) {
  const add *at = call->attributes;
  const tri_rows rows = tri_all_rows(tri_run_rows(run, call));
  const void *gradient_y = run->gradients[call->outputs[0]];
  for (int i = 0; i < 2; i++) {
    void *gradient_x = run->gradients[call->inputs[i]];
    if (call->accumulate[i]) {
      TRI_KERNEL_CALL(run->queue, add, call->type, rows, at->width, gradient_x, gradient_y, gradient_x);
    } else if (gradient_x != gradient_y) {
      TRI_KERNEL_CALL(run->queue, convert, rows.capacity * at->width, call->type, gradient_y, call->type, gradient_x);
    }
  }
  return TRI_OK;
}

static void op_add_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const add *at = call->attributes;
  if (pass != TRI_PASS_FORWARD) return;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width, 1.0, 3.0, out);
}

static const tri_op op_add = {
    .name = "add",
    .in_place = true,
    .passes_gradient = true,
    .sums = true,
    .adds_gradients = 1u << 0,
    .shape = op_add_shape,
    .forward = op_add_forward,
    .backward_input = op_add_backward_input,
    .cost = op_add_cost,
};

tri_status tri_op_add(tri_op_list *list, int32_t x, int32_t branch, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_add, &(add){list->slots[x].shape.width}, sizeof(add), &call));
  call.inputs[0] = x;
  call.inputs[1] = branch;
  return tri_op_list_append_first(list, &call, 1, out);
}
