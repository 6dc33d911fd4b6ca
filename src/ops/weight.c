#include "ops/weight.h"

#include "base/count.h"
#include "device/kernels.h"
#include "device/nf4.h"

static bool is_in_out(const tri_weight *weight) {
  switch (weight->order) {
    case TRI_WEIGHT_IN_OUT: return true;
    case TRI_WEIGHT_OUT_IN: return false;
  }
  return false;
}

static bool is_forward(tri_direction direction) {
  switch (direction) {
    case TRI_DIRECTION_FORWARD: return true;
    case TRI_DIRECTION_BACKWARD: return false;
  }
  return false;
}

tri_matmul tri_weight_gemm(const tri_op_call *call, const tri_weight *weight, tri_direction direction, int64_t rows) {
  bool forward = is_forward(direction);
  int64_t k = forward ? weight->in : weight->out;
  int64_t n = forward ? weight->out : weight->in;
  bool stored_as_read = forward == is_in_out(weight);
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
      .b_unpacked = call->weights_gathered,
      .generating = call->generating,
  };
}

tri_gemm_form tri_weight_form(tri_pass pass, tri_weight_order order) {
  const bool in_out = is_in_out(&(tri_weight){.order = order});
  switch (pass) {
    case TRI_PASS_FORWARD: return in_out ? TRI_GEMM_PLAIN : TRI_GEMM_TRANSPOSED;
    case TRI_PASS_BACKWARD_INPUT: return in_out ? TRI_GEMM_TRANSPOSED : TRI_GEMM_PLAIN;
    case TRI_PASS_BACKWARD_WEIGHT: break;
  }
  return TRI_GEMM_GRADIENT;
}

tri_matmul tri_weight_gradient(const tri_op_call *call, const tri_weight *weight, int64_t rows) {
  bool in_out = is_in_out(weight);
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

/* Sets *out to whether this GEMM of a generating list reads a frozen narrow weight in a packed form, which has the size
 * of the dense one. The packed values overwrite the dense ones or, if another call or executor reads these, are in a
 * buffer. So the GEMM's result has the same bits with and without other readers. */
static tri_status packs_frozen(const tri_op_call *call, const tri_device_description *device, const tri_matmul *gemm,
                               bool *out) {
  size_t bytes = 0;
  *out = false;
  if (!gemm->generating || gemm->b_unpacked || !tri_op_is_frozen(call, 0)) return TRI_OK;
  if (call->stored != TRI_STORED_NARROW || gemm->b_type == tri_dtype_wide(gemm->b_type)) return TRI_OK;
  if (call->keeps_dense && device->packs_plain) return TRI_OK; /* packed values would equal the dense ones */
  TRI_TRY(device->matmul_packed(device, gemm, &bytes));
  *out = bytes == (size_t)(gemm->k * gemm->n) * tri_dtype_bytes(gemm->b_type);
  return TRI_OK;
}

/* Decides whether the weight is packed for this GEMM. If not, the GEMM reads the parameter itself, in its stored type.
 * *packed_bytes: bytes of the buffer for the packed weight; 0 if the weight is not packed, or packed in place. */
static tri_status choose_form(const tri_op_call *call, const tri_device_description *device, const tri_matmul *gemm,
                              tri_matmul *out, size_t *packed_bytes) {
  const bool stays = gemm->b_unpacked || tri_op_is_frozen(call, 0);
  *packed_bytes = 0;
  *out = *gemm;
  TRI_TRY(packs_frozen(call, device, gemm, &out->b_packed));
  if (out->b_packed && !call->keeps_dense) return TRI_OK;
  if (out->b_packed || !stays) TRI_TRY(device->matmul_packed(device, gemm, packed_bytes));
  out->b_packed = *packed_bytes > 0;
  if (!out->b_packed) out->b_type = tri_stored_type(call->stored, gemm->b_type);
  return TRI_OK;
}

/* ---- in 4 bits --------------------------------------------------------------------------------------------------- */

double tri_weight_copied(const tri_op_call *call, tri_pass pass, double elements) {
  const double kept = (double)TRI_NF4_BLOCK_BYTES / TRI_NF4_BLOCK, narrow = (double)tri_dtype_bytes(call->type);
  if (call->stored != TRI_STORED_NF4) return 0;
  return tri_pass_choose(pass, 1, 1, 0) * elements * (kept + narrow);
}

/* Returns the bytes of scratch memory for the GEMM's whole dequantised matrix in the activations' type, which comes
 * before the GEMM's own scratch; 0 if the matrix is not in NF4. */
static size_t whole_bytes(const tri_op_call *call, const tri_matmul *gemm, int64_t matrices) {
  if (call->stored != TRI_STORED_NF4) return 0;
  const size_t elements = tri_bytes_times((size_t)(gemm->k * gemm->n), (size_t)matrices);
  return tri_bytes_in_lines(tri_bytes_times(elements, tri_dtype_bytes(call->type)));
}

/* Dequantises the parameters that share the GEMM into one matrix. */
static tri_status make_whole(tri_run *run, const tri_op_call *call, int64_t elements, char *to) {
  const tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  for (int64_t done = 0; done < elements; parameter++) {
    const int64_t count = parameter->cut.rows * parameter->cut.width;
    const char *kept = parameter->value;
    if (parameter->matrices * count == 0) return tri_fail_internal("a product lacks some of its matrix");
    for (int64_t m = 0; m < parameter->matrices; m++, done += count) {
      TRI_KERNEL_CALL(run->queue, dequantise_nf4, call->type, &parameter->cut, 0, count, kept,
                      to + (size_t)done * tri_dtype_bytes(call->type));
      kept += tri_bytes_in_lines(tri_nf4_layout_of_cut(&parameter->cut).bytes);
    }
  }
  return TRI_OK;
}

/* Sets *b to a GEMM's matrix that is not packed, dequantised if it is in 4 bits, and *workspace to the remaining
 * scratch memory. */
static tri_status find_plain(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                             const void **b, void **workspace) {
  const size_t whole = whole_bytes(call, gemm, matrices);
  *b = run->parameters[call->parameters[0]].value;
  if (whole == 0) return TRI_OK;
  TRI_TRY(make_whole(run, call, matrices * gemm->k * gemm->n, *workspace));
  *b = *workspace;
  *workspace = (char *)*workspace + whole;
  return TRI_OK;
}

/* Dequantises elements [first, first + count), whole rows, of one coded parameter on this rank. */
static tri_status widen_codes(tri_run *run, const tri_op_call *call, const tri_run_parameter *parameter, int64_t first,
                              int64_t count, void *to) {
  const tri_dtype wide = tri_dtype_wide(call->type);
  if (call->stored == TRI_STORED_NF4) {
    TRI_KERNEL_CALL(run->queue, dequantise_nf4, wide, &parameter->cut, first, count, parameter->value, to);
    return TRI_OK;
  }
  const tri_block_matrix *matrix = &parameter->blocks;
  const int64_t width = parameter->in_out ? matrix->out : matrix->in;
  tri_block_part part = {
      .first_out = first / width, .outputs = count / width, .inputs = width, .out_stride = width, .in_stride = 1};
  if (parameter->in_out)
    part = (tri_block_part){
        .first_in = first / width, .inputs = count / width, .outputs = width, .in_stride = width, .out_stride = 1};
  TRI_KERNEL_CALL(run->queue, unpack_blocks, wide, matrix, &part, parameter->value, to);
  return TRI_OK;
}

/* Returns the elements of one of a coded parameter's matrices on this rank. */
static int64_t elements_of(const tri_op_call *call, const tri_run_parameter *parameter) {
  if (call->stored == TRI_STORED_NF4) return parameter->cut.rows * parameter->cut.width;
  return parameter->blocks.in * parameter->blocks.out;
}

tri_status tri_weight_widen(tri_run *run, const tri_op_call *call, int64_t first, int64_t count, void *to) {
  const tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  const tri_dtype stored = tri_stored_type(call->stored, call->type), wide = tri_dtype_wide(call->type);
  const char *values = parameter->value;
  if (!tri_stored_is_coded(call->stored)) {
    TRI_KERNEL_CALL(run->queue, convert, count, stored, values + (size_t)first * tri_dtype_bytes(stored), wide, to);
    return TRI_OK;
  }
  for (int64_t done = 0; done < count; parameter++) {
    const int64_t whole = elements_of(call, parameter), left = whole - first;
    const int64_t some = left < count - done ? left : count - done;
    if (whole == 0) return tri_fail_internal("a product lacks some of its matrix");
    if (some > 0) {
      TRI_TRY(widen_codes(run, call, parameter, first, some, (char *)to + (size_t)done * tri_dtype_bytes(wide)));
      done += some;
    }
    first = first > whole ? first - whole : 0;
  }
  return TRI_OK;
}

/* ---- in blocks ----------------------------------------------------------------------------------------------------
 */

/* Returns whether the call's matrix is in blocks. Its GEMMs then need no scratch memory and no other form of it. */
static bool is_in_blocks(const tri_op_call *call) {
  tri_block_type type;
  return tri_stored_in_blocks(call->stored, &type);
}

/* Multiplies x by the parameters that share the GEMM. Each computes some adjacent columns of y. */
static tri_status multiply_blocks(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, const void *x,
                                  const void *bias, char *y) {
  const tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  const tri_dtype wide = tri_dtype_wide(call->type);
  for (int64_t done = 0; done < gemm->n; done += parameter->blocks.out, parameter++) {
    const tri_block_product product = {
        .matrix = parameter->blocks, .rows = gemm->m, .lda = gemm->lda, .ldc = gemm->ldc};
    const size_t into = (size_t)done * tri_dtype_bytes(wide);
    const void *own_bias = bias == NULL ? NULL : (const char *)bias + into;
    if (parameter->blocks.out == 0) return tri_fail_internal("a product lacks some of its matrix");
    TRI_KERNEL_CALL(run->queue, block_matmul, wide, &product, NULL, x, parameter->value, own_bias, y + into);
  }
  return TRI_OK;
}

/* Multiplies groups of rows by a stack in blocks: each group by its member's matrices of every kind, which compute
 * adjacent columns of y. */
static tri_status multiply_stack(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t members,
                                 const int32_t *begins, const void *x, char *y) {
  const tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  const tri_dtype wide = tri_dtype_wide(call->type);
  const size_t bytes = tri_bytes_in_lines(tri_block_matrix_bytes(&parameter->blocks));
  const int64_t kinds = members == 0 ? 0 : parameter->matrices / members;
  const tri_block_product product = {.matrix = parameter->blocks,
                                     .rows = gemm->m,
                                     .lda = gemm->lda,
                                     .ldc = gemm->ldc,
                                     .groups = members,
                                     .stride = kinds * (int64_t)bytes};
  for (int64_t kind = 0; kind < kinds; kind++) {
    const char *matrices = (const char *)parameter->value + (size_t)kind * bytes;
    TRI_KERNEL_CALL(run->queue, block_matmul, wide, &product, begins, x, matrices, NULL,
                    y + (size_t)(kind * parameter->blocks.out) * tri_dtype_bytes(wide));
  }
  return TRI_OK;
}

/* ---- one matrix -------------------------------------------------------------------------------------------------- */

/* Returns the direction whose buffer holds the packed weight for `direction`. */
static tri_direction holder(const tri_device_description *device, tri_direction direction) {
  return device->packs_plain ? TRI_DIRECTION_FORWARD : direction;
}

tri_status tri_gemm_memory(const tri_device_description *device, const tri_matmul *gemm, tri_op_memory *out) {
  size_t bytes = 0;
  TRI_TRY(device->matmul_workspace(device, gemm, &bytes));
  if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
  return TRI_OK;
}

tri_status tri_weight_memory(const tri_op_call *call, const tri_device_description *device, const tri_matmul *gemm,
                             tri_direction direction, tri_op_memory *out) {
  tri_matmul chosen;
  size_t packed_bytes = 0, workspace_bytes = 0;
  if (is_in_blocks(call)) return TRI_OK;
  TRI_TRY(choose_form(call, device, gemm, &chosen, &packed_bytes));
  TRI_TRY(device->matmul_workspace(device, &chosen, &workspace_bytes));
  workspace_bytes = tri_bytes_plus(workspace_bytes, whole_bytes(call, gemm, 1));
  if (workspace_bytes > out->workspace_bytes) out->workspace_bytes = workspace_bytes;
  out->buffer_bytes[holder(device, direction)] = packed_bytes;
  return TRI_OK;
}

static void *buffer_of(const tri_run *run, const tri_op_call *call, tri_direction direction) {
  return run->buffers[call->index * TRI_OP_BUFFERS + (int)holder(&run->queue->device->description, direction)];
}

/* Returns whether the buffer is the parameter's copy and an update has written all of it since the last call. Makes the
 * buffer the copy if the parameter has none yet. If several calls read the same parameter from buffers of their own,
 * the first call's buffer is the copy; the others pack. */
static bool written_already(const tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                            void *buffer) {
  tri_run_copy *copy = run->parameters[call->parameters[0]].copy;
  bool plain = run->queue->device->description.packs_plain && gemm->b_type != tri_dtype_wide(gemm->b_type);
  if (copy == NULL || !plain) return false;
  if (copy->values == NULL) *copy = (tri_run_copy){.values = buffer, .count = matrices * gemm->k * gemm->n};
  if (copy->values != buffer) return false;
  bool whole = copy->written == copy->count;
  copy->written = 0;
  return whole;
}

static tri_status pack_in_place(tri_run *run, const tri_op_call *call, const tri_matmul *gemm) {
  tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  if (parameter->packed) return TRI_OK;
  TRI_KERNEL_CALL(run->queue, matmul_pack, gemm, gemm->b_type, parameter->value, parameter->value);
  parameter->packed = true;
  return TRI_OK;
}

/* Packs one matrix, or several adjacent ones. */
static tri_status prepare(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                          tri_direction direction) {
  tri_matmul chosen;
  size_t packed_bytes = 0;
  const tri_dtype stored = tri_stored_type(call->stored, gemm->b_type);
  if (is_in_blocks(call)) return TRI_OK;
  TRI_TRY(choose_form(call, &run->queue->device->description, gemm, &chosen, &packed_bytes));
  if (chosen.b_packed && packed_bytes == 0) return pack_in_place(run, call, gemm);
  if (!chosen.b_packed || holder(&run->queue->device->description, direction) != direction) return TRI_OK;
  const char *value = run->parameters[call->parameters[0]].value;
  char *buffer = buffer_of(run, call, direction);
  if (written_already(run, call, gemm, matrices, buffer)) return TRI_OK;
  for (int64_t i = 0; i < matrices; i++) {
    TRI_KERNEL_CALL(run->queue, matmul_pack, gemm, stored,
                    value + (size_t)(i * gemm->k * gemm->n) * tri_dtype_bytes(stored),
                    buffer + (size_t)i * packed_bytes);
  }
  return TRI_OK;
}

tri_status tri_weight_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, tri_direction direction) {
  return prepare(run, call, gemm, 1, direction);
}

tri_status tri_weight_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, tri_direction direction,
                               const void *x, const void *bias, void *y, void *workspace) {
  tri_matmul chosen;
  size_t packed_bytes = 0;
  if (is_in_blocks(call)) return multiply_blocks(run, call, gemm, x, bias, y);
  TRI_TRY(choose_form(call, &run->queue->device->description, gemm, &chosen, &packed_bytes));
  const void *b = chosen.b_packed && packed_bytes > 0 ? buffer_of(run, call, direction) : NULL;
  if (packed_bytes == 0) TRI_TRY(find_plain(run, call, gemm, 1, &b, &workspace));
  TRI_KERNEL_CALL(run->queue, matmul, &chosen, x, b, bias, y, workspace);
  return TRI_OK;
}

tri_status tri_weight_accumulate(tri_run *run, const tri_op_call *call, const tri_weight *weight,
                                 const tri_matmul *gemm, const void *x, const void *gradient_y, void *workspace) {
  if (tri_op_is_frozen(call, 0)) return TRI_OK;
  tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  tri_matmul run_product = *gemm;
  run_product.accumulate = parameter->gradient_written;
  bool in_out = is_in_out(weight);
  TRI_KERNEL_CALL(run->queue, matmul, &run_product, in_out ? x : gradient_y, in_out ? gradient_y : x, NULL,
                  parameter->gradient, workspace);
  parameter->gradient_written = true;
  return TRI_OK;
}

/* ---- in groups --------------------------------------------------------------------------------------------------- */

/* Returns the GEMM without the flag for generation, because an expert may have many or few rows, as in training. */
static tri_matmul of_groups(const tri_matmul *gemm) {
  tri_matmul out = *gemm;
  out.generating = false;
  return out;
}

static tri_status grouped_form(const tri_op_call *call, const tri_device_description *device, const tri_matmul *gemm,
                               int64_t matrices, tri_grouped_matmul *out, size_t *packed_bytes) {
  const tri_matmul given = of_groups(gemm);
  *out = (tri_grouped_matmul){.groups = matrices};
  TRI_TRY(choose_form(call, device, &given, &out->product, packed_bytes));
  out->stride = out->product.b_packed ? (int64_t)*packed_bytes : gemm->k * gemm->n;
  return TRI_OK;
}

tri_status tri_weight_stack_memory(const tri_op_call *call, const tri_device_description *device,
                                   const tri_matmul *gemm, int64_t matrices, tri_direction direction,
                                   tri_op_memory *out) {
  tri_grouped_matmul grouped;
  size_t packed_bytes = 0, workspace_bytes = 0;
  if (is_in_blocks(call)) return TRI_OK;
  TRI_TRY(grouped_form(call, device, gemm, matrices, &grouped, &packed_bytes));
  TRI_TRY(device->grouped_workspace(device, &grouped, &workspace_bytes));
  workspace_bytes = tri_bytes_plus(workspace_bytes, whole_bytes(call, gemm, matrices));
  if (workspace_bytes > out->workspace_bytes) out->workspace_bytes = workspace_bytes;
  out->buffer_bytes[holder(device, direction)] = tri_bytes_times(packed_bytes, (size_t)matrices);
  return TRI_OK;
}

tri_status tri_weight_stack_prepare(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                    tri_direction direction) {
  const tri_matmul given = of_groups(gemm);
  return prepare(run, call, &given, matrices, direction);
}

tri_status tri_weight_stack_multiply(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                     tri_direction direction, const int32_t *begins, const void *x, void *y,
                                     void *workspace) {
  tri_grouped_matmul grouped;
  size_t packed_bytes = 0;
  if (is_in_blocks(call)) return multiply_stack(run, call, gemm, matrices, begins, x, y);
  TRI_TRY(grouped_form(call, &run->queue->device->description, gemm, matrices, &grouped, &packed_bytes));
  const void *b = grouped.product.b_packed ? buffer_of(run, call, direction) : NULL;
  if (!grouped.product.b_packed) TRI_TRY(find_plain(run, call, gemm, matrices, &b, &workspace));
  TRI_KERNEL_CALL(run->queue, grouped_matmul, &grouped, begins, x, b, y, workspace);
  return TRI_OK;
}

static tri_grouped_matmul gradients_of(const tri_matmul *gemm, int64_t matrices) {
  return (tri_grouped_matmul){.product = *gemm, .groups = matrices, .stride = gemm->m * gemm->n};
}

tri_status tri_weight_stack_gradient_memory(const tri_device_description *device, const tri_matmul *gemm,
                                            int64_t matrices, tri_op_memory *out) {
  for (int accumulate = 0; accumulate < 2; accumulate++) {
    tri_grouped_matmul grouped = gradients_of(gemm, matrices);
    grouped.product.accumulate = accumulate == 1;
    size_t bytes = 0;
    TRI_TRY(device->grouped_workspace(device, &grouped, &bytes));
    if (bytes > out->workspace_bytes) out->workspace_bytes = bytes;
  }
  return TRI_OK;
}

tri_status tri_weight_stack_accumulate(tri_run *run, const tri_op_call *call, const tri_matmul *gemm, int64_t matrices,
                                       const int32_t *begins, const void *x, const void *gradient_y, void *workspace) {
  if (tri_op_is_frozen(call, 0)) return TRI_OK;
  tri_run_parameter *parameter = &run->parameters[call->parameters[0]];
  tri_grouped_matmul grouped = gradients_of(gemm, matrices);
  grouped.product.accumulate = parameter->gradient_written;
  TRI_KERNEL_CALL(run->queue, grouped_matmul, &grouped, begins, gradient_y, x, parameter->gradient, workspace);
  parameter->gradient_written = true;
  return TRI_OK;
}
