/* y[R, sum of widths] = the concatenated columns of the inputs, which are results of a GEMM that was computed in parts.
 * The gradient of each input is its range of columns of y's gradient. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct join_columns {
  int64_t count, out;
  int64_t first[TRI_OP_INPUTS], width[TRI_OP_INPUTS];
} join_columns;

static tri_status op_join_columns_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                        tri_shape outputs[TRI_OP_OUTPUTS]) {
  const join_columns *at = call->attributes;
  outputs[0] = (tri_shape){inputs[0].rows, at->out, call->type};
  return TRI_OK;
}

static char *columns(const tri_op_call *call, void *matrix, int64_t first) {
  return (char *)matrix + (size_t)first * tri_dtype_bytes(call->type);
}

static tri_status op_join_columns_forward(tri_run *run, const tri_op_call *call) {
  const join_columns *at = call->attributes;
  const tri_rows rows = tri_all_rows(tri_run_rows(run, call));
  for (int64_t i = 0; i < at->count; i++) {
    const tri_row_copy copy = {rows, at->width[i], call->type, call->type, at->width[i], at->out};
    TRI_KERNEL_CALL(run->queue, copy_rows, &copy, NULL, run->slots[call->inputs[i]], NULL,
                    columns(call, run->slots[call->outputs[0]], at->first[i]));
  }
  return TRI_OK;
}

static tri_status op_join_columns_backward_input(tri_run *run, const tri_op_call *call) {
  const join_columns *at = call->attributes;
  const tri_rows rows = tri_all_rows(tri_run_rows(run, call));
  for (int64_t i = 0; i < at->count; i++) {
    const tri_row_copy copy = {rows, at->width[i], call->type, call->type, at->out, at->width[i]};
    TRI_KERNEL_CALL(run->queue, copy_rows, &copy, NULL, columns(call, run->gradients[call->outputs[0]], at->first[i]),
                    NULL, run->gradients[call->inputs[i]]);
  }
  return TRI_OK;
}

static void op_join_columns_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const join_columns *at = call->attributes;
  (void)pass;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->out, 0.0, 2.0, out);
}

static const tri_op op_join_columns = {
    .name = "join columns",
    .work = "copy",
    .shape = op_join_columns_shape,
    .forward = op_join_columns_forward,
    .backward_input = op_join_columns_backward_input,
    .cost = op_join_columns_cost,
};

tri_status tri_op_join_columns(tri_op_list *list, int64_t count, const int32_t parts[], int32_t *out) {
  join_columns at = {.count = count};
  *out = parts[0];
  if (count == 1) return TRI_OK;
  for (int64_t i = 0; i < count; i++) {
    at.first[i] = at.out;
    at.width[i] = list->slots[parts[i]].shape.width;
    at.out += at.width[i];
  }
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_join_columns, &at, sizeof at, &call));
  for (int64_t i = 0; i < count; i++) call.inputs[i] = parts[i];
  return tri_op_list_append_first(list, &call, 1, out);
}
