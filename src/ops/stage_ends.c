/* Ends of a pipeline stage. stage_input copies the rows from the previous stage out of the stage buffer that received
 * them, and their gradient into the stage buffer that sends it back. stage_output copies the rows for the next stage
 * into the stage buffer that sends them; their gradient arrives in another stage buffer. Sending and receiving are
 * instructions of the step program, not of the list. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct stage_end {
  int64_t width;
} stage_end;

static tri_status copy_rows(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const stage_end *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, from, call->type, to);
  return TRI_OK;
}

static void op_stage_end_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const stage_end *at = call->attributes;
  (void)pass;
  out->bytes = 2.0 * (double)(call->rows * at->width) * (double)tri_dtype_bytes(call->type);
}

/* ---- from the previous stage ------------------------------------------------------------------------------------- */

static tri_status op_stage_input_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                       tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)inputs;
  const stage_end *at = call->attributes;
  outputs[0] = (tri_shape){call->rows, at->width, call->type};
  return TRI_OK;
}

static tri_status op_stage_input_forward(tri_run *run, const tri_op_call *call) {
  return copy_rows(run, call, run->received, run->slots[call->outputs[0]]);
}

static tri_status op_stage_input_backward_input(tri_run *run, const tri_op_call *call) {
  return copy_rows(run, call, run->gradients[call->outputs[0]], run->gradient_to_send);
}

static const tri_op op_stage_input = {
    .name = "stage_input",
    .passes_messages = true,
    .shape = op_stage_input_shape,
    .forward = op_stage_input_forward,
    .backward_input = op_stage_input_backward_input,
    .cost = op_stage_end_cost,
};

tri_status tri_op_stage_input(tri_op_list *list, int64_t width, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_stage_input, &(stage_end){width}, sizeof(stage_end), &call));
  return tri_op_list_append_first(list, &call, 1, out);
}

/* ---- to the next stage ------------------------------------------------------------------------------------------- */

static tri_status op_stage_output_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                        tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  (void)inputs;
  (void)outputs;
  return TRI_OK;
}

static tri_status op_stage_output_forward(tri_run *run, const tri_op_call *call) {
  return copy_rows(run, call, run->slots[call->inputs[0]], run->to_send);
}

static tri_status op_stage_output_backward_input(tri_run *run, const tri_op_call *call) {
  return copy_rows(run, call, run->received_gradient, run->gradients[call->inputs[0]]);
}

static const tri_op op_stage_output = {
    .name = "stage_output",
    .passes_messages = true,
    .shape = op_stage_output_shape,
    .forward = op_stage_output_forward,
    .backward_input = op_stage_output_backward_input,
    .cost = op_stage_end_cost,
};

tri_status tri_op_stage_output(tri_op_list *list, int32_t x) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_stage_output, &(stage_end){list->slots[x].shape.width}, sizeof(stage_end), &call));
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  return tri_op_list_append(list, &call, 0, outputs);
}
