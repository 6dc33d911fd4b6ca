/* Embedding tables: rows gathered, and gradients scattered. The scattered sums are shared out by columns, so that each
 * element is added to by one thread, in the order of the rows, however many threads there are. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <stddef.h>

/* Columns [first, end) of a thread, in whole cache lines of floats. */
INLINE void share_of(int64_t width, int64_t part, int64_t parts, int64_t *first, int64_t *end) {
  int64_t lines = (width + 15) / 16;
  *first = lines * part / parts * 16;
  *end = lines * (part + 1) / parts * 16;
  if (*end > width) *end = width;
}

INLINE void forward_of(tri_dtype type, tri_device *device, int64_t rows, int64_t width, const int32_t *ids,
                       int64_t first_id, int64_t table_rows, const float *table, int64_t first_position, int64_t period,
                       const float *positions, void *out) {
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * width > TRI_ALONE)
  for (int64_t r = 0; r < rows; r++) {
    int64_t id = ids[r] - first_id;
    const float *token = id >= 0 && id < table_rows ? table + id * width : NULL;
    const float *position = positions == NULL ? NULL : positions + (first_position + r) % period * width;
    FOR_VECTORS(c, count, 0, width, {
      vf x = token == NULL ? (vf){0} : vf_get(TRI_FP32, token, c, count);
      if (position != NULL) x += vf_get(TRI_FP32, position, c, count);
      vf_put(type, out, r * width + c, count, x);
    });
  }
}

static tri_status embedding_forward(tri_device *device, tri_dtype type, int64_t rows, int64_t width, const int32_t *ids,
                                    int64_t first_id, int64_t table_rows, const void *table, int64_t first_position,
                                    int64_t period, const void *positions, void *out) {
  BY_TYPE(forward_of, device, rows, width, ids, first_id, table_rows, table, first_position, period, positions, out);
  return TRI_OK;
}

INLINE void backward_of(tri_dtype type, tri_device *device, int64_t rows, int64_t width, const int32_t *ids,
                        int64_t first_id, int64_t table_rows, const void *gradient, float *gradient_table) {
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * width > TRI_ALONE)
  for (int part = 0; part < device->threads; part++) {
    int64_t first = 0, end = 0;
    share_of(width, part, device->threads, &first, &end);
    for (int64_t r = 0; r < rows; r++) {
      int64_t id = ids[r] - first_id;
      if (id < 0 || id >= table_rows) continue;
      float *sum = gradient_table + id * width;
      FOR_VECTORS(c, count, first, end, {
        vf_put(TRI_FP32, sum, c, count, vf_get(TRI_FP32, sum, c, count) + vf_get(type, gradient, r * width + c, count));
      });
    }
  }
}

static tri_status embedding_backward(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                     const int32_t *ids, int64_t first_id, int64_t table_rows, const void *gradient,
                                     void *gradient_table) {
  BY_TYPE(backward_of, device, rows, width, ids, first_id, table_rows, gradient, gradient_table);
  return TRI_OK;
}

INLINE void position_of(tri_dtype type, tri_device *device, int64_t rows, int64_t width, int64_t first_position,
                        int64_t period, const void *gradient, float *gradient_positions, bool accumulate) {
#pragma omp parallel for schedule(static) num_threads(device->threads) if (rows * width > TRI_ALONE)
  for (int64_t p = 0; p < period; p++) {
    float *sum = gradient_positions + p * width;
    /* The first row at this position. */
    int64_t begin = (p - first_position % period + period) % period;
    FOR_VECTORS(c, count, 0, width, {
      vf total = accumulate ? vf_get(TRI_FP32, sum, c, count) : (vf){0};
      for (int64_t r = begin; r < rows; r += period) total += vf_get(type, gradient, r * width + c, count);
      vf_put(TRI_FP32, sum, c, count, total);
    });
  }
}

static tri_status position_backward(tri_device *device, tri_dtype type, int64_t rows, int64_t width,
                                    int64_t first_position, int64_t period, const void *gradient,
                                    void *gradient_positions, bool accumulate) {
  BY_TYPE(position_of, device, rows, width, first_position, period, gradient, gradient_positions, accumulate);
  return TRI_OK;
}

void TRI_KERNEL(table_embedding)(tri_device_kernels *table) {
  table->embedding_forward = embedding_forward;
  table->embedding_backward = embedding_backward;
  table->position_backward = position_backward;
}
