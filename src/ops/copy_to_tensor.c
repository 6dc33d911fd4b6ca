/* y = x on every rank of the tensor group; dx = sum of the ranks' dy.
 *
 * In front of products whose columns are split: each rank's product gives a part of dx alone. ("f" of Megatron-LM,
 * Shoeybi et al. 2019, figure 3.) */
#include "ops/ops.h"
#include "ops/run.h"

typedef struct copy_to_tensor {
  int64_t width;
} copy_to_tensor;

static tri_status op_copy_to_tensor_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                          tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[0];
  return TRI_OK;
}

static tri_status copy(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const copy_to_tensor *at = call->attributes;
  if (from == to) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, tri_run_rows(run, call) * at->width, call->type, from, call->type, to);
  return TRI_OK;
}

static tri_status op_copy_to_tensor_forward(tri_run *run, const tri_op_call *call) {
  return copy(run, call, run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
}

static tri_status op_copy_to_tensor_backward_input(tri_run *run, const tri_op_call *call) {
  const copy_to_tensor *at = call->attributes;
  void *gradient = run->gradients[call->inputs[0]];
  TRI_TRY(copy(run, call, run->gradients[call->outputs[0]], gradient));
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, call->type, tri_run_rows(run, call) * at->width, gradient);
}

static void op_copy_to_tensor_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const copy_to_tensor *at = call->attributes;
  *out = (tri_cost){0};
  if (pass != TRI_PASS_BACKWARD_INPUT) return;
  out->collective = TRI_COLLECTIVE_ALL_REDUCE;
  out->collective_bytes = (double)(call->rows * at->width) * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_copy_to_tensor = {
    .name = "copy_to_tensor",
    .cheap = true,
    .in_place = true,
    .backward_in_place = true,
    .shape = op_copy_to_tensor_shape,
    .forward = op_copy_to_tensor_forward,
    .backward_input = op_copy_to_tensor_backward_input,
    .cost = op_copy_to_tensor_cost,
};

tri_status tri_op_copy_to_tensor(tri_op_list *list, int32_t x, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(copy_to_tensor){list->slots[x].shape.width}, sizeof(copy_to_tensor), &at));
  tri_op_call call = tri_op_call_of(&op_copy_to_tensor, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
