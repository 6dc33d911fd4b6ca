/* Launches the kernels of kernels/magnitude.c. */
#include "device/gpu/columns.h"
#include "device/gpu/internal.h"

static tri_status gpu_magnitude_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                        const void *magnitudes, const void *squares, const void *offsets, const void *x,
                                        void *y) {
  TRI_GPU_LAUNCH(magnitude_forward, type, tri_gpu_shape_of(rows.capacity * width, magnitude_forward_threads),
                 .magnitudes = magnitudes, .squares = squares, .offsets = offsets, .x = x, .y = y,
                 .capacity = rows.capacity, .width = width, .ld = ld, .count = rows.count);
  return TRI_OK;
}

static tri_status gpu_magnitude_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                         const void *gradient_y, const void *x, const void *squares,
                                         const void *offsets, void *gradient, bool accumulate) {
  tri_gpu_columns all;
  TRI_TRY(tri_gpu_columns_create(type, rows, 1, width, 1, &all));
  do {
    TRI_GPU_LAUNCH(magnitude_sums, type, ((tri_gpu_shape){.x = tri_gpu_columns_slabs(&all) * all.strips}),
                   .gradient_y = gradient_y, .x = x, .squares = squares, .offsets = offsets,
                   .slabs = tri_gpu_scratch(queue), .capacity = rows.capacity, .width = width, .ld = ld,
                   .count = rows.count, .cut = tri_gpu_columns_cut(&all));
    TRI_TRY(tri_gpu_columns_total(queue, &all, type, rows, 0, gradient, accumulate));
  } while (tri_gpu_columns_next(&all));
  return TRI_OK;
}

void tri_gpu_fill_magnitude(tri_device_kernels *out) {
  out->magnitude_forward = gpu_magnitude_forward;
  out->magnitude_backward = gpu_magnitude_backward;
}
