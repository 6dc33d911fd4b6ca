/* Inverted dropout (Srivastava et al. 2014) with a mask that is a function of the seed, the step, the site in the model
 * and the global index of the element, so that it is the same on any rank and need not be kept for the backward. */
#include "device/dropout.h"
#include "device/kernels.h"
#include "ops/ops.h"
#include "ops/run.h"

typedef struct dropout {
  double probability;
  int64_t width, tokens, site; /* elements of a row on this rank; tokens of a sequence; number of the dropout in the
                                  model */
  int64_t row_elements, first; /* elements of a whole row; index of the first one on this rank */
} dropout;

static tri_status apply(tri_run *run, const tri_op_call *call, const void *x, void *y) {
  const dropout *at = call->attributes;
  int64_t count = tri_run_rows(run, call) * at->width;
  if (!run->training) {
    if (x != y) TRI_KERNEL_CALL(run->queue, convert, count, call->type, x, call->type, y);
    return TRI_OK;
  }
  tri_dropout options = {.probability = at->probability,
                         .site = at->site,
                         .width = at->width,
                         .row_elements = at->row_elements,
                         .sample_elements = at->tokens * at->row_elements,
                         .first = run->sample * at->tokens * at->row_elements + at->first};
  const int32_t *numbers = run->global_rows == NULL ? NULL : run->global_rows + call->first_row;
  if (numbers == NULL) options.first += call->first_row * at->row_elements;
  TRI_KERNEL_CALL(run->queue, dropout, call->type, count, &options, run->values, numbers, x, y);
  return TRI_OK;
}

static tri_status op_dropout_forward(tri_run *run, const tri_op_call *call) {
  return apply(run, call, run->slots[call->inputs[0]], run->slots[call->outputs[0]]);
}

/* The gradient of the output is not read after this call. So if the input's gradient accumulates, the mask is applied
 * to the output's gradient in place, and the result is added to the input's gradient. */
static tri_status op_dropout_backward_input(tri_run *run, const tri_op_call *call) {
  const dropout *at = call->attributes;
  void *dy = run->gradients[call->outputs[0]], *dx = run->gradients[call->inputs[0]];
  TRI_TRY(apply(run, call, dy, call->accumulate[0] ? dy : dx));
  if (!call->accumulate[0]) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, add, call->type, tri_all_rows(tri_run_rows(run, call)), at->width, dx, dy, dx);
  return TRI_OK;
}

static void op_dropout_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const dropout *at = call->attributes;
  (void)pass;
  tri_op_cost_of_elements(call, (double)call->rows * (double)at->width, 12.0, 2.0, out);
}

static const tri_op op_dropout = {
    .name = "dropout",
    .in_place = true,
    .backward_in_place = true,
    .adds_gradients = 1u << 0,
    .shape = tri_op_same_shape,
    .forward = op_dropout_forward,
    .backward_input = op_dropout_backward_input,
    .cost = op_dropout_cost,
};

tri_status tri_op_dropout(tri_op_list *list, double probability, int64_t site, int32_t x, int32_t *out) {
  return tri_op_dropout_columns(list, probability, site, list->slots[x].shape.width, 0, x, out);
}

tri_status tri_op_dropout_columns(tri_op_list *list, double probability, int64_t site, int64_t row_elements,
                                  int64_t first, int32_t x, int32_t *out) {
  *out = x;
  if (probability == 0.0) return TRI_OK;
  const dropout attributes = {probability, list->slots[x].shape.width, list->tokens, site, row_elements, first};
  tri_op_call call;
  TRI_TRY(tri_op_list_call(list, &op_dropout, &attributes, sizeof attributes, &call));
  call.inputs[0] = x;
  return tri_op_list_append_first(list, &call, 1, out);
}
