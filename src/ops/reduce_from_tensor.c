/* y = sum of the x of the ranks of the tensor group; dx = dy.
 *
 * Behind products whose rows are split: each rank's product is a part of the sum. ("g" of Megatron-LM, Shoeybi et al.
 * 2019, figure 3.) */
#include "ops/ops.h"
#include "ops/run.h"

typedef struct reduce_from_tensor {
  int64_t width;
} reduce_from_tensor;

static tri_status op_reduce_from_tensor_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                              tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)call;
  outputs[0] = inputs[0];
  return TRI_OK;
}

static tri_status copy(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const reduce_from_tensor *at = call->attributes;
  if (from == to) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, convert, tri_run_rows(run, call) * at->width, call->type, from, call->type, to);
  return TRI_OK;
}

static tri_status op_reduce_from_tensor_forward(tri_run *run, const tri_op_call *call) {
  const reduce_from_tensor *at = call->attributes;
  void *sum = run->slots[call->outputs[0]];
  TRI_TRY(copy(run, call, run->slots[call->inputs[0]], sum));
  return tri_run_all_reduce(run, TRI_DOMAIN_TENSOR, call->type, tri_run_rows(run, call) * at->width, sum);
}

static tri_status op_reduce_from_tensor_backward_input(tri_run *run, const tri_op_call *call) {
  return copy(run, call, run->gradients[call->outputs[0]], run->gradients[call->inputs[0]]);
}

static void op_reduce_from_tensor_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const reduce_from_tensor *at = call->attributes;
  *out = (tri_cost){0};
  if (pass != TRI_PASS_FORWARD) return;
  out->collective = TRI_COLLECTIVE_ALL_REDUCE;
  out->collective_bytes = (double)(call->rows * at->width) * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_reduce_from_tensor = {
    .name = "reduce_from_tensor",
    .in_place = true,
    .backward_in_place = true,
    .shape = op_reduce_from_tensor_shape,
    .forward = op_reduce_from_tensor_forward,
    .backward_input = op_reduce_from_tensor_backward_input,
    .cost = op_reduce_from_tensor_cost,
};

tri_status tri_op_reduce_from_tensor(tri_op_list *list, int32_t x, int32_t *out) {
  const void *at = NULL;
  TRI_TRY(tri_op_list_keep(list, &(reduce_from_tensor){list->slots[x].shape.width}, sizeof(reduce_from_tensor), &at));
  tri_op_call call = tri_op_call_of(&op_reduce_from_tensor, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
