/* SwiGLU (Shazeer 2020): y = silu(gate) * up, with gate and up side by side in each row of x. */
#include "ops/ops.h"
#include "ops/run.h"

typedef struct swiglu {
  int64_t width;
} swiglu;

static tri_status op_swiglu_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                  tri_shape outputs[TRI_OP_OUTPUTS]) {
  const swiglu *at = call->attributes;
  outputs[0] = (tri_shape){inputs[0].rows, at->width, call->type};
  return TRI_OK;
}

static tri_status op_swiglu_forward(tri_run *run, const tri_op_call *call) {
  const swiglu *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, swiglu_forward, call->type, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_swiglu_backward_input(tri_run *run, const tri_op_call *call) {
  const swiglu *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, swiglu_backward, call->type, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->gradients[call->outputs[0]], run->gradients[call->inputs[0]]);
  return TRI_OK;
}

static void op_swiglu_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const swiglu *at = call->attributes;
  double elements = (double)call->rows * (double)at->width;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  out->elements = elements;
  out->vector_flops = elements * tri_pass_choose(pass, 12.0, 18.0, 0);
  out->bytes = elements * (double)tri_dtype_bytes(call->type) * tri_pass_choose(pass, 3.0, 5.0, 0);
}

static const tri_op op_swiglu = {
    .name = "swiglu",
    .cheap = true,
    .keeps_inputs = 1u << 0,
    .shape = op_swiglu_shape,
    .forward = op_swiglu_forward,
    .backward_input = op_swiglu_backward_input,
    .cost = op_swiglu_cost,
};

tri_status tri_op_swiglu(tri_op_list *list, int32_t x, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(swiglu){list->slots[x].shape.width / 2}, sizeof(swiglu), &at));
  tri_op_call call = tri_op_call_of(&op_swiglu, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
