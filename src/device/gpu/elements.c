#include "device/gpu/internal.h"

static tri_status gpu_add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                          void *out) {
  TRI_GPU_LAUNCH(add, type, tri_gpu_shape_of(rows.capacity * width, add_threads), .a = a, .b = b, .out = out,
                 .capacity = rows.capacity, .width = width, .count = rows.count);
  return TRI_OK;
}

static tri_status gpu_convert(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to,
                              void *out) {
  TRI_GPU_LAUNCH(convert, from, tri_gpu_shape_of(count, convert_threads), .in = in, .out = out, .count = count,
                 .to_bits = tri_gpu_type_bits(to));
  return TRI_OK;
}

void tri_gpu_fill_elements(tri_device_kernels *out) {
  out->add = gpu_add;
  out->convert = gpu_convert;
}
