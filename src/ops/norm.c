/* Norms over each row, with the weight as parameter 0. Layer norm (Ba et al. 2016): y = (x - mean) rstd weight + bias,
 * rstd = 1 / sqrt(variance + eps); the bias, parameter 1, is optional. RMS norm (Zhang and Sennrich 2019): y = x rstd
 * (weight + offset), rstd = 1 / sqrt(mean of squares + eps). The statistics of each row are kept for the backward
 * passes: mean and rstd as outputs 1 and 2, or rstd as output 1. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct row_norm {
  tri_rms rms; /* settings of the norm; layer norm uses only eps */
  int64_t width;
  double flops; /* arithmetic operations per element */
} row_norm;

static tri_status op_norm_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                tri_shape outputs[TRI_OP_OUTPUTS]) {
  outputs[0] = inputs[0];
  outputs[1] = outputs[2] = (tri_shape){inputs[0].rows, 1, tri_dtype_wide(call->type)};
  return TRI_OK;
}

static tri_norm norm_of(const tri_run *run, const tri_op_call *call) {
  const row_norm *at = call->attributes;
  tri_norm of = tri_norm_of_rows(call->type, tri_all_rows(tri_run_rows(run, call)), at->width, at->rms.eps);
  of.offset = at->rms.offset;
  return of;
}

static void op_norm_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const row_norm *at = call->attributes;
  double forward = call->sum >= 0
                       ? 1.0
                       : 2.0; /* values read and written per element; the cost of a preceding sum includes the read */
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width, at->flops,
                          tri_pass_choose(pass, forward, 3.0, 2.0), out);
}

static tri_status append(tri_op_list *list, const tri_op *op, row_norm with, int32_t x, const int32_t parameters[2],
                         int num_outputs, int32_t *out) {
  with.width = list->slots[x].shape.width;
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, op, &with, sizeof with, &call));
  call.inputs[0] = x;
  call.parameters[0] = parameters[0];
  call.parameters[1] = parameters[1];
  return tri_op_list_append_first(list, &call, num_outputs, out);
}

/* ---- layer norm -------------------------------------------------------------------------------------------------- */

static bool has_bias(const tri_op_call *call) { return call->parameters[1] >= 0; }

static tri_status op_layer_norm_forward(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  const tri_run_input in = tri_run_input_of(run, call);
  const void *bias = has_bias(call) ? run->parameters[call->parameters[1]].value : NULL;
  TRI_KERNEL_CALL(run->queue, layer_norm_forward, &norm, in.x, in.branch, in.sum,
                  run->parameters[call->parameters[0]].value, bias, run->slots[call->outputs[0]],
                  run->slots[call->outputs[1]], run->slots[call->outputs[2]]);
  return TRI_OK;
}

static tri_status op_layer_norm_backward_input(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  TRI_KERNEL_CALL(run->queue, layer_norm_backward_input, &norm, run->gradients[call->outputs[0]],
                  run->slots[call->inputs[0]], run->parameters[call->parameters[0]].value, run->slots[call->outputs[1]],
                  run->slots[call->outputs[2]], run->gradients[call->inputs[0]], call->accumulate[0]);
  return TRI_OK;
}

static tri_status op_layer_norm_backward_weight(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  tri_run_parameter *weight = &run->parameters[call->parameters[0]];
  tri_run_parameter *bias = has_bias(call) ? &run->parameters[call->parameters[1]] : NULL;
  TRI_KERNEL_CALL(run->queue, layer_norm_backward_weight, &norm, run->gradients[call->outputs[0]],
                  run->slots[call->inputs[0]], run->slots[call->outputs[1]], run->slots[call->outputs[2]],
                  weight->gradient, bias == NULL ? NULL : bias->gradient, weight->gradient_written);
  weight->gradient_written = true;
  if (bias != NULL) bias->gradient_written = true;
  return TRI_OK;
}

static const tri_op op_layer_norm = {
    .name = "layer_norm",
    .cheap = true,
    .takes_sum = true,
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 1 | 1u << 2,
    .adds_gradients = 1u << 0,
    .shape = op_norm_shape,
    .forward = op_layer_norm_forward,
    .backward_input = op_layer_norm_backward_input,
    .backward_weight = op_layer_norm_backward_weight,
    .cost = op_norm_cost,
};

tri_status tri_op_layer_norm(tri_op_list *list, double eps, int32_t x, int32_t weight, int32_t bias, int32_t *out) {
  const row_norm with = {.rms = {.eps = eps}, .flops = 8};
  return append(list, &op_layer_norm, with, x, (const int32_t[]){weight, bias}, 3, out);
}

/* ---- RMS norm ---------------------------------------------------------------------------------------------------- */

static tri_status op_rms_norm_forward(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  const tri_run_input in = tri_run_input_of(run, call);
  TRI_KERNEL_CALL(run->queue, rms_norm_forward, &norm, in.x, in.branch, in.sum,
                  run->parameters[call->parameters[0]].value, run->slots[call->outputs[0]],
                  run->slots[call->outputs[1]]);
  return TRI_OK;
}

static tri_status op_rms_norm_backward_input(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  TRI_KERNEL_CALL(run->queue, rms_norm_backward_input, &norm, run->gradients[call->outputs[0]],
                  run->slots[call->inputs[0]], run->parameters[call->parameters[0]].value, run->slots[call->outputs[1]],
                  run->gradients[call->inputs[0]], call->accumulate[0]);
  return TRI_OK;
}

static tri_status op_rms_norm_backward_weight(tri_run *run, const tri_op_call *call) {
  const tri_norm norm = norm_of(run, call);
  tri_run_parameter *weight = &run->parameters[call->parameters[0]];
  TRI_KERNEL_CALL(run->queue, rms_norm_backward_weight, &norm, run->gradients[call->outputs[0]],
                  run->slots[call->inputs[0]], run->slots[call->outputs[1]], weight->gradient,
                  weight->gradient_written);
  weight->gradient_written = true;
  return TRI_OK;
}

static const tri_op op_rms_norm = {
    .name = "rms_norm",
    .cheap = true,
    .takes_sum = true,
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 1,
    .adds_gradients = 1u << 0,
    .shape = op_norm_shape,
    .forward = op_rms_norm_forward,
    .backward_input = op_rms_norm_backward_input,
    .backward_weight = op_rms_norm_backward_weight,
    .cost = op_norm_cost,
};

tri_status tri_op_rms_norm(tri_op_list *list, tri_rms rms, int32_t x, int32_t weight, int32_t *out) {
  const row_norm with = {.rms = rms, .flops = 5};
  return append(list, &op_rms_norm, with, x, (const int32_t[]){weight, -1}, 2, out);
}
