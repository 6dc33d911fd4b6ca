#include "ops/weight.h"

tri_matmul tri_weight_product(const tri_op_call *call, const tri_weight *weight, tri_direction direction,
                              int64_t rows) {
  bool forward = direction == TRI_DIRECTION_FORWARD;
  int64_t k = forward ? weight->in : weight->out;
  int64_t n = forward ? weight->out : weight->in;
  bool stored_as_read = forward == (weight->order == TRI_WEIGHT_IN_OUT);
  return (tri_matmul){
      .m = rows,
      .n = n,
      .k = k,
      .lda = k,
      .ldb = stored_as_read ? n : k,
      .ldc = n,
      .a_type = call->type,
      .b_type = call->type,
      .c_type = call->type,
      .b_transposed = !stored_as_read,
  };
}

tri_matmul tri_weight_gradient(const tri_op_call *call, const tri_weight *weight, int64_t rows) {
  bool in_out = weight->order == TRI_WEIGHT_IN_OUT;
  return (tri_matmul){
      .m = in_out ? weight->in : weight->out,
      .n = in_out ? weight->out : weight->in,
      .k = rows,
      .lda = in_out ? weight->in : weight->out,
      .ldb = in_out ? weight->out : weight->in,
      .ldc = in_out ? weight->out : weight->in,
      .a_type = call->type,
      .b_type = call->type,
      .c_type = tri_dtype_wide(call->type),
      .a_transposed = true,
  };
}

/* The forms in which a direction's buffer may hold the weight. */
typedef enum weight_form { FORM_PARAMETER, FORM_COPY, FORM_PACKED } weight_form;

/* A copy in the activations' type serves both directions and lives in the forward buffer. */
static tri_status find_form(tri_device *device, const tri_matmul *product, weight_form *form, size_t *packed_bytes) {
  *packed_bytes = 0;
  TRI_KERNEL_CALL(device, matmul_packed, product, packed_bytes);
  *form = *packed_bytes > 0                                    ? FORM_PACKED
          : product->b_type == tri_dtype_wide(product->b_type) ? FORM_PARAMETER
                                                               : FORM_COPY;
  return TRI_OK;
}

tri_status tri_weight_memory(const tri_op_call *call, tri_device *device, const tri_matmul *product,
                             tri_direction direction, tri_op_memory *out) {
  (void)call;
  weight_form form = FORM_PARAMETER;
  size_t packed_bytes = 0;
  TRI_TRY(find_form(device, product, &form, &packed_bytes));
  tri_matmul run_product = *product;
  run_product.b_packed = form == FORM_PACKED;
  size_t workspace_bytes = 0;
  TRI_KERNEL_CALL(device, matmul_workspace, &run_product, &workspace_bytes);
  if (workspace_bytes > out->workspace_bytes) out->workspace_bytes = workspace_bytes;
  if (form == FORM_PACKED) out->buffer_bytes[direction] = packed_bytes;
  if (form == FORM_COPY) {
    size_t copy_bytes = (size_t)product->k * (size_t)product->n * tri_dtype_bytes(product->b_type);
    if (copy_bytes > out->buffer_bytes[TRI_DIRECTION_FORWARD]) out->buffer_bytes[TRI_DIRECTION_FORWARD] = copy_bytes;
  }
  return TRI_OK;
}

static void *buffer_of(const tri_run *run, const tri_op_call *call, tri_direction direction) {
  return run->buffers[call->index * TRI_OP_BUFFERS + (int)direction];
}

tri_status tri_weight_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *product,
                              tri_direction direction) {
  weight_form form = FORM_PARAMETER;
  size_t packed_bytes = 0;
  TRI_TRY(find_form(run->device, product, &form, &packed_bytes));
  const void *value = run->parameters[call->parameters[0]].value;
  tri_dtype wide = tri_dtype_wide(product->b_type);
  if (form == FORM_PACKED) {
    TRI_KERNEL_CALL(run->device, matmul_pack, product, wide, value, buffer_of(run, call, direction));
  } else if (form == FORM_COPY && (direction == TRI_DIRECTION_FORWARD)) {
    TRI_KERNEL_CALL(run->device, convert, product->k * product->n, wide, value, product->b_type,
                    buffer_of(run, call, TRI_DIRECTION_FORWARD));
  }
  return TRI_OK;
}

tri_status tri_weight_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *product,
                               tri_direction direction, const void *x, const void *bias, void *y, void *workspace) {
  weight_form form = FORM_PARAMETER;
  size_t packed_bytes = 0;
  TRI_TRY(find_form(run->device, product, &form, &packed_bytes));
  const void *b = run->parameters[call->parameters[0]].value;
  if (form == FORM_PACKED) b = buffer_of(run, call, direction);
  if (form == FORM_COPY) b = buffer_of(run, call, TRI_DIRECTION_FORWARD);
  tri_matmul run_product = *product;
  run_product.b_packed = form == FORM_PACKED;
  TRI_KERNEL_CALL(run->device, matmul, &run_product, x, b, bias, y, workspace);
  return TRI_OK;
}

tri_status tri_weight_accumulate(tri_run *run, const tri_op_call *call, const tri_weight *weight,
                                 const tri_matmul *product, const void *x, const void *gradient_y, void *workspace) {
  tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  tri_matmul run_product = *product;
  run_product.accumulate = parameter->gradient_written;
  bool in_out = weight->order == TRI_WEIGHT_IN_OUT;
  TRI_KERNEL_CALL(run->device, matmul, &run_product, in_out ? x : gradient_y, in_out ? gradient_y : x, NULL,
                  parameter->gradient, workspace);
  parameter->gradient_written = true;
  return TRI_OK;
}
