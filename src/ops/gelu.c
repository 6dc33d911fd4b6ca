/* GELU (Hendrycks and Gimpel 2016), exact by erf or by GPT-2's tanh. */
#include "ops/ops.h"
#include "ops/run.h"

typedef struct gelu {
  tri_gelu variant;
  int64_t width;
} gelu;

static tri_status op_gelu_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[0];
  return TRI_OK;
}

static tri_status op_gelu_forward(tri_run *run, const tri_op_call *call) {
  const gelu *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, gelu_forward, call->type, at->variant, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_gelu_backward_input(tri_run *run, const tri_op_call *call) {
  const gelu *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, gelu_backward, call->type, at->variant, tri_all_rows(tri_run_rows(run, call)), at->width,
                  run->slots[call->inputs[0]], run->gradients[call->outputs[0]], run->gradients[call->inputs[0]]);
  return TRI_OK;
}

static void op_gelu_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const gelu *at = call->attributes;
  double elements = (double)call->rows * (double)at->width;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  out->elements = elements;
  out->vector_flops = elements * tri_pass_choose(pass, 16.0, 24.0, 0);
  out->bytes = elements * (double)tri_dtype_bytes(call->type) * tri_pass_choose(pass, 2.0, 3.0, 0);
}

static const tri_op op_gelu = {
    .name = "gelu",
    .cheap = true,
    .keeps_inputs = 1u << 0,
    .backward_in_place = true,
    .shape = op_gelu_shape,
    .forward = op_gelu_forward,
    .backward_input = op_gelu_backward_input,
    .cost = op_gelu_cost,
};

tri_status tri_op_gelu(tri_op_list *list, tri_gelu variant, int32_t x, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(gelu){variant, list->slots[x].shape.width}, sizeof(gelu), &at));
  tri_op_call call = tri_op_call_of(&op_gelu, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
