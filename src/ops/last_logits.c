/* The logits of the last position of each sequence that is not padding, for generation: out[B,V] = h[last] W^T, or
 * what a bias, a scale and a cap make of that (tri_logits). */
#include "device/kernels.h"
#include "ops/weight.h"

typedef struct last_logits {
  tri_weight weight; /* stored [V, C] */
  tri_logit_form form;
} last_logits;

static tri_matmul product_of(const tri_op_call *call, int64_t batch, int64_t sequence) {
  const last_logits *at = call->attributes;
  tri_matmul product = tri_weight_product(call, &at->weight, TRI_DIRECTION_FORWARD, batch);
  product.lda = at->weight.in * sequence;
  product.c_type = tri_dtype_wide(call->type);
  product.bias = call->parameters[1] >= 0;
  return product;
}

static tri_status op_last_logits_shape(const tri_op_call *call, const tri_shape inputs[TRI_OP_INPUTS],
                                       tri_shape outputs[TRI_OP_OUTPUTS]) {
  (void)inputs;
  const last_logits *at = call->attributes;
  outputs[0] = (tri_shape){call->rows / call->sequence, at->weight.out, tri_dtype_wide(call->type)};
  return TRI_OK;
}

/* In pieces of the planned length, and one position at a time. */
static tri_status op_last_logits_memory(const tri_op_call *call, const tri_device_description *device,
                                        tri_op_memory *out) {
  int64_t batch = call->rows / call->sequence;
  tri_matmul piece = product_of(call, batch, call->sequence);
  tri_matmul one = product_of(call, batch, 1);
  TRI_TRY(tri_weight_memory(call, device, &piece, TRI_DIRECTION_FORWARD, out));
  return tri_weight_memory(call, device, &one, TRI_DIRECTION_FORWARD, out);
}

static tri_status op_last_logits_prepare(tri_run *run, const tri_op_call *call) {
  tri_matmul product = product_of(call, call->rows / call->sequence, call->sequence);
  return tri_weight_prepare(run, call, &product, TRI_DIRECTION_FORWARD);
}

static tri_status op_last_logits_forward(tri_run *run, const tri_op_call *call) {
  const last_logits *at = call->attributes;
  tri_matmul product = product_of(call, run->batch, run->sequence);
  size_t row_bytes = (size_t)at->weight.in * tri_dtype_bytes(call->type);
  const char *last = (const char *)run->slots[call->inputs[0]] + row_bytes * (size_t)(run->valid - 1);
  const void *bias = product.bias ? run->parameters[call->parameters[1]].value : NULL;
  void *logits = run->slots[call->outputs[0]];
  TRI_TRY(tri_weight_multiply(run, call, &product, TRI_DIRECTION_FORWARD, last, bias, logits, run->workspace));
  if (at->form.scale == 1 && at->form.soft_cap == 0) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, softmax_logits, call->type, product.m, at->weight.out, product.ldc, at->form, logits);
  return TRI_OK;
}

static void op_last_logits_cost(const tri_op_call *call, tri_pass pass, tri_cost *out) {
  const last_logits *at = call->attributes;
  *out = (tri_cost){0};
  if (pass != TRI_PASS_FORWARD) return;
  int64_t sequences = call->rows / call->sequence;
  out->flops = 2.0 * (double)sequences * (double)at->weight.in * (double)at->weight.out;
  out->bytes = (double)at->weight.in * (double)at->weight.out * (double)tri_dtype_bytes(call->type);
}

static const tri_op op_last_logits = {
    .name = "last_logits",
    .shape = op_last_logits_shape,
    .memory = op_last_logits_memory,
    .prepare = op_last_logits_prepare,
    .forward = op_last_logits_forward,
    .cost = op_last_logits_cost,
};

tri_status tri_op_last_logits(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits, int32_t hidden,
                              int32_t weight, int32_t *out) {
  const void *at = NULL;
  last_logits attributes = {{width, vocab_size, TRI_WEIGHT_OUT_IN}, {logits.scale, logits.soft_cap}};
  TRI_TRY(tri_op_list_keep(list, &attributes, sizeof attributes, &at));
  tri_op_call call = tri_op_call_of(&op_last_logits, at);
  call.inputs[0] = hidden;
  call.parameters[0] = weight;
  call.parameters[1] = logits.bias;
  int32_t outputs[TRI_OP_OUTPUTS];
  TRI_TRY(tri_op_list_append(list, &call, 1, outputs));
  *out = outputs[0];
  return TRI_OK;
}
