/* Copies the rows for the next stage into the stage buffer that sends them; their gradient arrives in another. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct stage_output {
  int64_t width;
} stage_output;

static tri_status op_stage_output_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                        tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  (void)inputs;
  (void)outputs;
  return TRI_OK;
}

static tri_status op_stage_output_forward(tri_run *run, const tri_op_call *call) {
  const stage_output *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, run->slots[call->inputs[0]], call->type,
                  run->to_send);
  return TRI_OK;
}

static tri_status op_stage_output_backward_input(tri_run *run, const tri_op_call *call) {
  const stage_output *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, run->received_gradient, call->type,
                  run->gradients[call->inputs[0]]);
  return TRI_OK;
}

static void op_stage_output_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const stage_output *at = call->attributes;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  out->bytes = 2.0 * (double)(call->rows * at->width) * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_stage_output = {
    .name = "stage_output",
    .passes_messages = true,
    .shape = op_stage_output_shape,
    .forward = op_stage_output_forward,
    .backward_input = op_stage_output_backward_input,
    .cost = op_stage_output_cost,
};

tri_status tri_op_stage_output(tri_op_list *list, int32_t x) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(stage_output){list->slots[x].shape.width}, sizeof(stage_output), &at));
  tri_op_call call = tri_op_call_of(&op_stage_output, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  return tri_op_list_append(list, &call, 0, outputs);
}
