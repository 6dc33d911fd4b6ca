/* Sequence parallelism (Korthikanti et al. 2022): from each rank's slice of the rows to all rows on every rank of the
 * tensor group. The backward adds the ranks' gradients and leaves each its slice. */
#include "ops/ops.h"
#include "ops/run.h"

typedef struct gather_sequence {
  int64_t width, all_rows;
  const int64_t *begins; /* [tensor + 1]: where each rank's slice begins, in elements */
} gather_sequence;

static tri_status op_gather_sequence_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                           tri_shape outputs[TRI_OP_OUTPUTS]) {
  const gather_sequence *at = call->attributes;
  outputs[0] = (tri_shape){at->all_rows, at->width, inputs[0].type};
  return TRI_OK;
}

static char *slice_of(const tri_op_call *call, void *all) {
  const gather_sequence *at = call->attributes;
  return (char *)all + (size_t)(call->first_row * at->width) * tri_dtype_bytes(call->type);
}

static tri_status op_gather_sequence_forward(tri_run *run, const tri_op_call *call) {
  const gather_sequence *at = call->attributes;
  void *all = run->slots[call->outputs[0]];
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, run->slots[call->inputs[0]], call->type,
                  slice_of(call, all));
  return tri_run_all_gather(run, TRI_DOMAIN_TENSOR, call->type, at->begins, all);
}

static tri_status op_gather_sequence_backward_input(tri_run *run, const tri_op_call *call) {
  const gather_sequence *at = call->attributes;
  void *all = run->gradients[call->outputs[0]]; /* nobody reads it after this call */
  TRI_TRY(tri_run_reduce_scatter(run, TRI_DOMAIN_TENSOR, call->type, at->begins, all));
  TRI_KERNEL_CALL(run->queue, convert, call->rows * at->width, call->type, slice_of(call, all), call->type,
                  run->gradients[call->inputs[0]]);
  return TRI_OK;
}

static void op_gather_sequence_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const gather_sequence *at = call->attributes;
  *out = (tri_cost){0};
  switch (pass) {
    case TRI_PASS_FORWARD: out->collective = TRI_COLLECTIVE_ALL_GATHER; break;
    case TRI_PASS_BACKWARD_INPUT: out->collective = TRI_COLLECTIVE_REDUCE_SCATTER; break;
    case TRI_PASS_BACKWARD_WEIGHT: return;
  }
  out->collective_bytes = (double)(at->all_rows * at->width) * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_gather_sequence = {
    .name = "gather_sequence",
    .shape = op_gather_sequence_shape,
    .forward = op_gather_sequence_forward,
    .backward_input = op_gather_sequence_backward_input,
    .cost = op_gather_sequence_cost,
};

tri_status tri_op_gather_sequence(tri_op_list *list, int32_t x, int32_t *out) {
  const void *at = NULL;
  gather_sequence attributes = {.width = list->slots[x].shape.width, .all_rows = list->batch * list->sequence};
  TRI_TRY(tri_op_list_keep_slices(list, attributes.width, &attributes.begins));
  TRI_TRY(tri_op_list_keep(list, &attributes, sizeof attributes, &at));
  tri_op_call call = tri_op_call_of(&op_gather_sequence, at);
  call.inputs[0] = x;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  list->sliced = false;
  *out = outputs[0];
  return TRI_OK;
}
