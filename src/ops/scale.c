/* y = factor x: embeddings, and branches of the residual stream (Gemma, Granite). */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct scale {
  double factor;
  int64_t width;
} scale;

static tri_status multiply(tri_run *run, const tri_op_call *call, const void *x, void *y) {
  const scale *at = call->attributes;
  TRI_KERNEL_CALL(run->queue, scale, call->type, tri_run_rows(run, call) * at->width, at->factor, x, y);
  return TRI_OK;
}

static tri_status op_scale_forward(tri_run *run, const tri_op_call *call) {
  return multiply(run, call, run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
}

/* If the input's gradient accumulates, the scaled gradient goes to the workspace first, because the output's gradient
 * may still be read by another operation. */
static tri_status op_scale_memory(const tri_op_call *call, const tri_device_description *device, tri_op_memory *out) {
  const scale *at = call->attributes;
  (void)device;
  if (call->training && call->accumulate[0]) {
    out->workspace_bytes = (size_t)(call->rows * at->width) * tri_dtype_bytes(call->type);
  }
  return TRI_OK;
}

static tri_status op_scale_backward_input(tri_run *run, const tri_op_call *call) {
  const scale *at = call->attributes;
  const void *dy = run->gradients[call->outputs[0]];
  void *dx = run->gradients[call->inputs[0]];
  if (!call->accumulate[0]) return multiply(run, call, dy, dx);
  TRI_TRY(multiply(run, call, dy, run->workspace));
  TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(tri_run_rows(run, call)), at->width, dx, run->workspace,
                  dx);
  return TRI_OK;
}

static void op_scale_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const scale *at = call->attributes;
  (void)pass;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width, 1.0, 2.0, out);
}

static const tri_op op_scale = {
    .name = "scale",
    .work = "copy",
    .in_place = true,
    .backward_in_place = true,
    .adds_gradients = 1u << 0,
    .shape = tri_op_same_shape,
    .memory = op_scale_memory,
    .forward = op_scale_forward,
    .backward_input = op_scale_backward_input,
    .cost = op_scale_cost,
};

tri_status tri_op_scale(tri_op_list *list, double factor, int32_t x, int32_t *out) {
  *out = x;
  if (factor == 1) return TRI_OK;
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_scale, &(scale){factor, list->slots[x].shape.width}, sizeof(scale), &call));
  call.inputs[0] = x;
  return tri_op_list_append_first(list, &call, 1, out);
}
