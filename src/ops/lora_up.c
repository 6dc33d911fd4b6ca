#include "ops/lora_up.h"

#include "device/kernels.h"

tri_status tri_lora_up_of_head(tri_op_list *list, int64_t width, int64_t vocabulary, int32_t weight, int32_t hidden,
                               tri_op_call *call, tri_lora_up *out) {
  *out = (tri_lora_up){.b = {0, vocabulary, TRI_WEIGHT_OUT_IN}};
  if (list->parameters == NULL || list->parameters[weight].factors[0] < 0) return TRI_OK;
  const int32_t a = list->parameters[weight].factors[0], b = list->parameters[weight].factors[1];
  const tri_op_parameter *down = &list->parameters[a];
  const tri_weight_order order = down->in_out ? TRI_WEIGHT_IN_OUT : TRI_WEIGHT_OUT_IN; /* an embedding's order */
  int32_t u = hidden;
  TRI_TRY(tri_op_dropout(list, list->adapter.dropout, TRI_FACTOR_SITES + weight, u, &u));
  TRI_TRY(tri_op_linear(list, width, down->out, order, u, a, -1, &u));
  TRI_TRY(tri_op_scale(list, down->scale, u, &u));
  out->b.in = down->out;
  out->b.order = order;
  call->inputs[TRI_UP_U] = u;
  call->parameters[TRI_UP_B] = b;
  return TRI_OK;
}

/* ---- GEMMs with a B that is read in place ------------------------------------------------------------------------ */

static tri_matmul add_product(const tri_op_call *call, const tri_lora_up *at, tri_up_rows of) {
  tri_matmul gemm = tri_weight_gemm(call, &at->b, TRI_DIRECTION_FORWARD, of.rows);
  gemm.b_type = tri_dtype_wide(call->type);
  gemm.c_type = of.wide ? gemm.b_type : call->type;
  gemm.ldc = of.ld;
  gemm.accumulate = true;
  return gemm;
}

static tri_matmul du_product(const tri_op_call *call, const tri_lora_up *at, tri_up_rows of) {
  tri_matmul gemm = tri_weight_gemm(call, &at->b, TRI_DIRECTION_BACKWARD, of.rows);
  gemm.b_type = tri_dtype_wide(call->type);
  gemm.lda = of.gradient_ld;
  return gemm;
}

/* Returns the GEMM of B's gradient: dy^T u, or u^T dy for a B that is stored as [rank, out]. */
static tri_matmul b_gradient(const tri_op_call *call, const tri_lora_up *at, tri_up_rows of) {
  tri_matmul gemm = tri_weight_gradient(call, &at->b, of.rows);
  switch (at->b.order) {
    case TRI_WEIGHT_OUT_IN: gemm.lda = of.gradient_ld; break;
    case TRI_WEIGHT_IN_OUT: gemm.ldb = of.gradient_ld; break;
  }
  return gemm;
}

tri_status tri_lora_up_memory(const tri_op_call *call, const tri_device_description *device, const tri_lora_up *at,
                              tri_up_rows of, tri_op_memory *out) {
  if (at->b.in == 0) return TRI_OK;
  const tri_matmul add = add_product(call, at, of), back = du_product(call, at, of);
  tri_matmul gradient = b_gradient(call, at, of);
  TRI_TRY(tri_gemm_memory(device, &add, out));
  if (!call->training) return TRI_OK;
  TRI_TRY(tri_gemm_memory(device, &back, out));
  TRI_TRY(tri_gemm_memory(device, &gradient, out));
  gradient.accumulate = true;
  return tri_gemm_memory(device, &gradient, out);
}

tri_status tri_lora_up_add(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of, const void *u,
                           void *y, void *workspace) {
  if (at->b.in == 0 || run->without_factors) return TRI_OK;
  const tri_matmul gemm = add_product(call, at, of);
  TRI_KERNEL_CALL(run->queue, matmul, &gemm, u, run->parameters[call->parameters[TRI_UP_B]].value, NULL, y, workspace);
  return TRI_OK;
}

tri_status tri_lora_up_gradients(tri_run *run, const tri_op_call *call, const tri_lora_up *at, tri_up_rows of,
                                 const void *gradient, const void *u, void *du, void *workspace) {
  if (at->b.in == 0) return TRI_OK;
  tri_run_parameter *b = &run->parameters[call->parameters[TRI_UP_B]];
  const tri_matmul back = du_product(call, at, of);
  tri_matmul of_b = b_gradient(call, at, of);
  of_b.accumulate = b->gradient_written;
  TRI_KERNEL_CALL(run->queue, matmul, &back, gradient, b->value, NULL, du, workspace);
  switch (at->b.order) {
    case TRI_WEIGHT_OUT_IN:
      TRI_KERNEL_CALL(run->queue, matmul, &of_b, gradient, u, NULL, b->gradient, workspace);
      break;
    case TRI_WEIGHT_IN_OUT:
      TRI_KERNEL_CALL(run->queue, matmul, &of_b, u, gradient, NULL, b->gradient, workspace);
      break;
  }
  b->gradient_written = true;
  return TRI_OK;
}
