/* The logits of some rows, for generation: out[L,V] = h[logit_rows] W^T, with a bias, a scale and a soft cap if the
 * model has them (tri_logits). Under tensor parallelism V is this rank's slice of the vocabulary. */
#include "device/kernels.h"
#include "ops/lora_up.h"

enum { LOGITS, HIDDEN, U }; /* outputs: the logits, and the rows of h and of u that they are computed from */

typedef struct row_logits {
  tri_weight weight; /* stored as [V, C] */
  tri_lora_up factors;
  tri_logit_form form;
  int64_t most_rows;
} row_logits;

static tri_matmul gemm_of(const tri_op_call *call, int64_t rows) {
  const row_logits *at = call->attributes;
  tri_matmul gemm = tri_weight_gemm(call, &at->weight, TRI_DIRECTION_FORWARD, rows);
  gemm.c_type = tri_dtype_wide(call->type);
  gemm.bias = call->parameters[1] >= 0;
  gemm.b_unpacked = true; /* with tied embeddings the weight is also the embedding's table */
  return gemm;
}

static tri_up_rows rows_of(const row_logits *at, int64_t rows) {
  return (tri_up_rows){rows, at->weight.out, at->weight.out, true};
}

static tri_status op_row_logits_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                      tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)inputs;
  const row_logits *at = call->attributes;
  outputs[LOGITS] = (tri_shape){at->most_rows, at->weight.out, tri_dtype_wide(call->type)};
  outputs[HIDDEN] = (tri_shape){at->most_rows, at->weight.in, call->type};
  outputs[U] = (tri_shape){at->most_rows, at->factors.b.in, call->type};
  return TRI_OK;
}

static tri_status op_row_logits_memory(const tri_op_call *call, const tri_device_description *device,
                                       tri_op_memory *out) {
  const row_logits *at = call->attributes;
  tri_matmul gemm = gemm_of(call, at->most_rows);
  TRI_TRY(tri_lora_up_memory(call, device, &at->factors, rows_of(at, at->most_rows), out));
  return tri_weight_memory(call, device, &gemm, TRI_DIRECTION_FORWARD, out);
}

static tri_status op_row_logits_prepare(tri_run *run, const tri_op_call *call) {
  const row_logits *at = call->attributes;
  tri_matmul gemm = gemm_of(call, at->most_rows);
  return tri_weight_prepare(run, call, &gemm, TRI_DIRECTION_FORWARD);
}

/* Copies the rows of an input that have logits to an output. */
static tri_status gather(tri_run *run, const tri_op_call *call, int input, int output, int64_t width) {
  const tri_row_copy copy = {.rows = tri_all_rows(run->cache->logit_rows),
                             .width = width,
                             .from_type = call->type,
                             .to_type = call->type,
                             .from_stride = width,
                             .to_stride = width};
  TRI_KERNEL_CALL(run->queue, copy_rows, &copy, run->logit_rows, run->slots[call->inputs[input]], NULL,
                  run->slots[call->outputs[output]]);
  return TRI_OK;
}

static tri_status op_row_logits_forward(tri_run *run, const tri_op_call *call) {
  const row_logits *at = call->attributes;
  const int64_t rows = run->cache->logit_rows;
  tri_matmul gemm = gemm_of(call, rows);
  const void *bias = gemm.bias ? run->parameters[call->parameters[1]].value : NULL;
  void *logits = run->slots[call->outputs[LOGITS]], *hidden = run->slots[call->outputs[HIDDEN]];
  if (rows == 0) return TRI_OK;
  TRI_TRY(gather(run, call, 0, HIDDEN, at->weight.in));
  TRI_TRY(tri_weight_multiply(run, call, &gemm, TRI_DIRECTION_FORWARD, hidden, bias, logits, run->workspace));
  if (at->factors.b.in > 0) {
    TRI_TRY(gather(run, call, TRI_UP_U, U, at->factors.b.in));
    TRI_TRY(tri_lora_up_add(run, call, &at->factors, rows_of(at, rows), run->slots[call->outputs[U]], logits,
                            run->workspace));
  }
  if (at->form.scale == 1 && at->form.soft_cap == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, softmax_logits, call->type, gemm.m, at->weight.out, gemm.ldc, at->form, logits);
  return TRI_OK;
}

static void op_row_logits_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const row_logits *at = call->attributes;
  (void)pass;
  out->flops = 2.0 * (double)at->most_rows * (double)at->weight.in * (double)at->weight.out;
  out->bytes = (double)at->weight.in * (double)at->weight.out * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_row_logits = {
    .name = "row_logits",
    .shape = op_row_logits_shape,
    .memory = op_row_logits_memory,
    .prepare = op_row_logits_prepare,
    .forward = op_row_logits_forward,
    .cost = op_row_logits_cost,
};

tri_status tri_op_row_logits(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits, int32_t hidden,
                             int32_t weight, int32_t *out) {
  const int64_t own = tri_op_share(list, vocab_size);
  row_logits attributes = {.weight = {width, own, TRI_WEIGHT_OUT_IN},
                           .form = {logits.scale, logits.soft_cap},
                           .most_rows = list->logit_rows};
  tri_op_call call = tri_op_call_of(&op_row_logits, NULL);
  call.inputs[0] = hidden;
  call.parameters[0] = weight;
  call.parameters[1] = logits.bias;
  TRI_TRY(tri_lora_up_of_head(list, width, own, weight, hidden, &call, &attributes.factors));
  TRI_TRY(tri_op_list_keep(list, &attributes, sizeof attributes, &call.attributes));
  return tri_op_list_append_first(list, &call, attributes.factors.b.in > 0 ? 3 : 2, out);
}
