/* RMS norm of queries and keys before rotary embedding: y = x rstd (weight + offset) over groups of each row of q, k
 * and v. A group is a head (Dehghani et al. 2023, section 2.1, with RMS norm; Qwen 3), or all of q and all of k
 * (OLMoE). Values are copied unchanged.
 *
 * If groups are heads, all heads share their weights: if the heads are split over ranks, each rank has a partial sum of
 * the weights' gradient. */
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct head_norm {
  tri_rms rms;
  tri_heads heads;
  bool whole;
} head_norm;

/* The columns of q or k in a row. */
typedef struct column_range {
  int64_t first, groups, width;
  int parameter, rstd; /* the call's parameter index and output index */
} column_range;

static int64_t row_width(const head_norm *at) {
  return (at->heads.heads + 2 * at->heads.kv_heads) * at->heads.head_dim;
}

static int64_t values_width(const head_norm *at) { return at->heads.kv_heads * at->heads.head_dim; }

static column_range columns_of(const head_norm *at, int which) {
  const int64_t heads = which == 0 ? at->heads.heads : at->heads.kv_heads, d = at->heads.head_dim;
  return (column_range){.first = which == 0 ? 0 : at->heads.heads * d,
                        .groups = at->whole ? 1 : heads,
                        .width = at->whole ? heads * d : d,
                        .parameter = which,
                        .rstd = 1 + which};
}

static tri_status op_head_norm_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                     tri_shape outputs[TRI_OP_OUTPUTS]) {
  const head_norm *at = call->attributes;
  outputs[0] = inputs[0];
  for (int which = 0; which < 2; which++) {
    const column_range s = columns_of(at, which);
    outputs[s.rstd] = (tri_shape){inputs[0].rows, s.groups, tri_dtype_wide(call->type)};
  }
  return TRI_OK;
}

static tri_norm norm_of(const tri_run *run, const tri_op_call *call, const column_range *s) {
  const head_norm *at = call->attributes;
  const int64_t row = row_width(at);
  return (tri_norm){.type = call->type,
                    .rows = tri_all_rows(tri_run_rows(run, call)),
                    .groups = s->groups,
                    .width = s->width,
                    .x_row = row,
                    .x_group = s->width,
                    .y_row = row,
                    .y_group = s->width,
                    .eps = at->rms.eps,
                    .offset = at->rms.offset};
}

/* Returns the address of element `first` of the first row. */
static void *at_column(const tri_op_call *call, const void *matrix, int64_t first) {
  return (char *)matrix + (size_t)first * tri_dtype_bytes(call->type);
}

static tri_status copy_values(tri_run *run, const tri_op_call *call, const void *from, void *to) {
  const head_norm *at = call->attributes;
  const int64_t row = row_width(at), first = row - values_width(at);
  const tri_row_copy copy = {.rows = tri_all_rows(tri_run_rows(run, call)),
                             .width = values_width(at),
                             .from_type = call->type,
                             .to_type = call->type,
                             .from_stride = row,
                             .to_stride = row};
  TRI_KERNEL_CALL(run->queue, copy_rows, &copy, NULL, at_column(call, from, first), NULL, at_column(call, to, first));
  return TRI_OK;
}

static tri_status op_head_norm_forward(tri_run *run, const tri_op_call *call) {
  const void *x = run->slots[call->inputs[0]];
  void *y = run->slots[call->outputs[0]];
  for (int which = 0; which < 2; which++) {
    const column_range s = columns_of(call->attributes, which);
    const tri_norm norm = norm_of(run, call, &s);
    TRI_KERNEL_CALL(run->queue, rms_norm_forward, &norm, at_column(call, x, s.first), NULL, NULL,
                    run->parameters[call->parameters[s.parameter]].value, at_column(call, y, s.first),
                    run->slots[call->outputs[s.rstd]]);
  }
  return copy_values(run, call, x, y);
}

static tri_status op_head_norm_backward_input(tri_run *run, const tri_op_call *call) {
  const void *x = run->slots[call->inputs[0]], *gradient_y = run->gradients[call->outputs[0]];
  void *gradient_x = run->gradients[call->inputs[0]];
  for (int which = 0; which < 2; which++) {
    const column_range s = columns_of(call->attributes, which);
    const tri_norm norm = norm_of(run, call, &s);
    TRI_KERNEL_CALL(run->queue, rms_norm_backward_input, &norm, at_column(call, gradient_y, s.first),
                    at_column(call, x, s.first), run->parameters[call->parameters[s.parameter]].value,
                    run->slots[call->outputs[s.rstd]], at_column(call, gradient_x, s.first), false);
  }
  return copy_values(run, call, gradient_y, gradient_x);
}

static tri_status op_head_norm_backward_weight(tri_run *run, const tri_op_call *call) {
  const void *x = run->slots[call->inputs[0]], *gradient_y = run->gradients[call->outputs[0]];
  for (int which = 0; which < 2; which++) {
    const column_range s = columns_of(call->attributes, which);
    const tri_norm norm = norm_of(run, call, &s);
    tri_run_parameter *weight = &run->parameters[call->parameters[s.parameter]];
    TRI_KERNEL_CALL(run->queue, rms_norm_backward_weight, &norm, at_column(call, gradient_y, s.first),
                    at_column(call, x, s.first), run->slots[call->outputs[s.rstd]], weight->gradient,
                    weight->gradient_written);
    weight->gradient_written = true;
  }
  return TRI_OK;
}

static void op_head_norm_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const head_norm *at = call->attributes;
  const double rows = (double)call->rows, bytes = (double)tri_dtype_bytes(call->type);
  const double elements = rows * (double)(row_width(at) - values_width(at));
  const double values = rows * (double)values_width(at);
  *out = (tri_cost){
      .elements = elements,
      .vector_flops = elements * 5.0,
      .bytes = bytes * (elements * tri_pass_choose(pass, 2.0, 3.0, 2.0) + values * tri_pass_choose(pass, 2.0, 2.0, 0)),
  };
}

static const tri_op op_head_norm = {
    .name = "head_norm",
    .work = "rms_norm",
    .keeps_inputs = 1u << 0,
    .keeps_outputs = 1u << 1 | 1u << 2,
    .shape = op_head_norm_shape,
    .forward = op_head_norm_forward,
    .backward_input = op_head_norm_backward_input,
    .backward_weight = op_head_norm_backward_weight,
    .cost = op_head_norm_cost,
};

tri_status tri_op_head_norm(tri_op_list *list, tri_heads heads, tri_rms rms, bool whole, int32_t qkv, int32_t q_weight,
                            int32_t k_weight, int32_t *out) {
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_head_norm, &(head_norm){rms, heads, whole}, sizeof(head_norm), &call));
  call.inputs[0] = qkv;
  call.parameters[0] = q_weight;
  call.parameters[1] = k_weight;
  return tri_op_list_append_first(list, &call, 3, out);
}
