/* Launches the kernels of kernels/elements.c. */
#include "device/gpu/internal.h"

#include <math.h>

/* Returns the blocks for `count` elements: a thread processes 16 bytes of each array at a time. */
static tri_gpu_shape shape_of(tri_dtype type, int64_t count, int threads) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(type);
  return tri_gpu_shape_of((count + vector - 1) / vector, threads);
}

static tri_status gpu_add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                          void *out) {
  TRI_GPU_LAUNCH(add, type, shape_of(type, rows.capacity * width, add_threads), .a = a, .b = b, .out = out,
                 .capacity = rows.capacity, .width = width, .count = rows.count);
  return TRI_OK;
}

static tri_status gpu_scale(tri_queue *queue, tri_dtype type, int64_t count, double factor, const void *x, void *y) {
  TRI_GPU_LAUNCH(scale, type, shape_of(type, count, scale_threads), .x = x, .y = y, .count = count, .factor = factor);
  return TRI_OK;
}

static tri_status not_converted(tri_dtype from, tri_dtype to) {
  return tri_fail(TRI_UNSUPPORTED, "a GPU does not convert %s to %s", tri_dtype_name(from), tri_dtype_name(to));
}

static tri_status gpu_convert(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to,
                              void *out) {
  if (count == 0) return TRI_OK;
  if (from == to) return tri_queue_move(queue, out, in, (size_t)count * tri_dtype_bytes(from));
  if (tri_gpu_type_bits(from) == 0 || tri_gpu_type_bits(to) == 0) return not_converted(from, to);
  TRI_GPU_LAUNCH(convert, from, tri_gpu_shape_of((count + 7) / 8, convert_threads), .in = in, .out = out,
                 .count = count, .to_bits = tri_gpu_type_bits(to));
  return TRI_OK;
}

/* Returns the type with which elements are copied. A copy without conversion does no arithmetic, so any type of the
 * same size is suitable. */
static tri_dtype moved_as(tri_dtype type) {
  switch (type) {
    case TRI_INT32: return TRI_FP32;
    case TRI_FP64:
    case TRI_FP32:
    case TRI_BF16: break;
  }
  return type;
}

static tri_status gpu_copy_rows(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows, const void *from,
                                const int32_t *to_rows, void *to) {
  const bool moves = copy->from_type == copy->to_type;
  const tri_dtype type = moves ? moved_as(copy->from_type) : copy->from_type;
  const tri_dtype to_type = moves ? type : copy->to_type;
  if (tri_gpu_type_bits(type) == 0 || tri_gpu_type_bits(to_type) == 0) return not_converted(type, to_type);
  TRI_GPU_LAUNCH(copy_rows, type, shape_of(type, copy->rows.capacity * copy->width, copy_rows_threads), .from = from,
                 .to = to, .from_rows = from_rows, .to_rows = to_rows, .capacity = copy->rows.capacity,
                 .width = copy->width, .from_stride = copy->from_stride, .to_stride = copy->to_stride,
                 .count = copy->rows.count, .to_bits = tri_gpu_type_bits(to_type));
  return TRI_OK;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

static tri_status gpu_activation_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                         int64_t width, const void *x, void *y) {
  TRI_GPU_LAUNCH(activation_forward, type, shape_of(type, rows.capacity * width, activation_forward_threads), .x = x,
                 .y = y, .capacity = rows.capacity, .width = width, .count = rows.count, .kind = (int32_t)kind);
  return TRI_OK;
}

static tri_status gpu_activation_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                          int64_t width, const void *x, const void *gradient_y, void *gradient_x) {
  TRI_GPU_LAUNCH(activation_backward, type, shape_of(type, rows.capacity * width, activation_backward_threads), .x = x,
                 .gradient_y = gradient_y, .gradient_x = gradient_x, .capacity = rows.capacity, .width = width,
                 .count = rows.count, .kind = (int32_t)kind);
  return TRI_OK;
}

static tri_status gpu_weighted_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                             int64_t width, const void *x, const void *weights, void *y) {
  TRI_GPU_LAUNCH(gated_forward, type, shape_of(type, rows.capacity * width, gated_forward_threads), .x = x,
                 .weights = weights, .y = y, .capacity = rows.capacity, .width = width, .count = rows.count,
                 .kind = (int32_t)kind);
  return TRI_OK;
}

static tri_status gpu_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                    const void *x, void *y) {
  return gpu_weighted_gated_forward(queue, type, kind, rows, width, x, NULL, y);
}

static tri_status gpu_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                     int64_t width, const void *x, const void *gradient_y, void *gradient_x) {
  TRI_GPU_LAUNCH(gated_backward, type, shape_of(type, rows.capacity * width, gated_backward_threads), .x = x,
                 .gradient_y = gradient_y, .gradient_x = gradient_x, .capacity = rows.capacity, .width = width,
                 .count = rows.count, .kind = (int32_t)kind);
  return TRI_OK;
}

static tri_status gpu_weighted_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                              int64_t width, const void *x, const void *weights, const void *gradient_y,
                                              void *gradient_x, void *gradient_weights) {
  enum { LANES = 32 }; /* minimum lanes of a warp */
  TRI_GPU_LAUNCH(weighted_gated_backward, type,
                 tri_gpu_shape_of(rows.capacity * LANES, weighted_gated_backward_threads), .x = x, .weights = weights,
                 .gradient_y = gradient_y, .gradient_x = gradient_x, .gradient_weights = gradient_weights,
                 .capacity = rows.capacity, .width = width, .count = rows.count, .kind = (int32_t)kind);
  return TRI_OK;
}

/* ---- dropout, rotary embedding ----------------------------------------------------------------------------------- */

/* Drops the elements whose random 32-bit word is below the threshold, which is probability * 2^32 rounded up. A
 * threshold of 2^32, which does not fit into 32 bits, drops all elements: y is zero. */
static tri_status gpu_dropout(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                              const tri_step_values *values, const int32_t *rows, const void *x, void *y) {
  const double threshold = ceil(options->probability * 0x1p32);
  if (threshold > (double)UINT32_MAX) return tri_gpu_queue_fill_zero(queue, (size_t)count * tri_dtype_bytes(type), y);
  TRI_GPU_LAUNCH(dropout, type, shape_of(type, count, dropout_threads), .x = x, .y = y, .values = values, .rows = rows,
                 .count = count, .options = *options, .threshold = (uint32_t)threshold);
  return TRI_OK;
}

static tri_status gpu_rope(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                           int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                           const void *sine, bool inverse, void *x) {
  const int64_t pairs = rows.capacity * heads * (head_dim / 2);
  TRI_GPU_LAUNCH(rope, type, shape_of(type, pairs, rope_threads), .x = x, .positions = positions, .cosine = cosine,
                 .sine = sine, .capacity = rows.capacity, .row_elements = row_elements, .heads = heads,
                 .head_stride = head_stride, .head_dim = head_dim, .count = rows.count, .inverse = inverse);
  return TRI_OK;
}

void tri_gpu_fill_elements(tri_device_kernels *out) {
  out->add = gpu_add;
  out->scale = gpu_scale;
  out->convert = gpu_convert;
  out->copy_rows = gpu_copy_rows;
  out->activation_forward = gpu_activation_forward;
  out->activation_backward = gpu_activation_backward;
  out->gated_forward = gpu_gated_forward;
  out->gated_backward = gpu_gated_backward;
  out->weighted_gated_forward = gpu_weighted_gated_forward;
  out->weighted_gated_backward = gpu_weighted_gated_backward;
  out->dropout = gpu_dropout;
  out->rope = gpu_rope;
}
