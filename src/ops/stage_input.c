/* Copies the rows from the previous stage out of the stage buffer that received them, and their gradient into the stage
 * buffer that sends it back. Sending and receiving are instructions of the step program, not of the list. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct stage_input {
  int64_t width;
} stage_input;

static tri_status op_stage_input_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                       tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)inputs;
  const stage_input *at = call->attributes;
  outputs[0] = (tri_shape){call->rows, at->width, call->type};
  return TRI_OK;
}

static tri_status op_stage_input_forward(tri_run *run, const tri_op_call *call) {
  const stage_input *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, run->received, call->type,
                  run->slots[call->outputs[0]]);
  return TRI_OK;
}

static tri_status op_stage_input_backward_input(tri_run *run, const tri_op_call *call) {
  const stage_input *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, run->gradients[call->outputs[0]], call->type,
                  run->gradient_to_send);
  return TRI_OK;
}

static void op_stage_input_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const stage_input *at = call->attributes;
  *out = (tri_cost){0};
  if (pass == TRI_PASS_BACKWARD_WEIGHT) return;
  out->bytes = 2.0 * (double)(call->rows * at->width) * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_stage_input = {
    .name = "stage_input",
    .passes_messages = true,
    .shape = op_stage_input_shape,
    .forward = op_stage_input_forward,
    .backward_input = op_stage_input_backward_input,
    .cost = op_stage_input_cost,
};

tri_status tri_op_stage_input(tri_op_list *list, int64_t width, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(stage_input){width}, sizeof(stage_input), &at));
  tri_op_call call = tri_op_call_of(&op_stage_input, at);
  return tri_op_list_append_first(list, &call, 1, out);
}
