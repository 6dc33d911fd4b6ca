/* Embedding tables: rows gathered, and gradients scattered. Threads share the scattered sums by columns, so that one
 * thread adds all terms of an element, in the order of the rows, for any number of threads. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <stddef.h>

/* Computes the columns [first, end) of thread `part`, in whole cache lines of floats. */
INLINE void share_of(int64_t width, int64_t part, int64_t parts, int64_t *first, int64_t *end) {
  int64_t lines = (width + 15) / 16;
  *first = lines * part / parts * 16;
  *end = lines * (part + 1) / parts * 16;
  if (*end > width) *end = width;
}

INLINE void forward_row(tri_dtype type, tri_dtype table_type, int64_t width, const void *token, const float *position,
                        void *out, int64_t at) {
  FOR_VECTORS(c, count, 0, width, {
    vf x = token == NULL ? (vf){0} : vf_get(table_type, token, c, count);
    if (position != NULL) x += vf_get(TRI_FP32, position, c, count);
    vf_put(type, out, at + c, count, x);
  });
}

static tri_status embedding_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                    int64_t first_id, int64_t table_rows, tri_dtype table_type, const void *table,
                                    const int32_t *positions, const void *position_table, void *out) {
  const int64_t live = tri_rows_live(rows), row_bytes = width * (int64_t)tri_dtype_bytes(table_type);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t r = 0; r < live; r++) {
    int64_t id = ids[r] - first_id;
    const void *token = id >= 0 && id < table_rows ? (const char *)table + id * row_bytes : NULL;
    const float *position = NULL;
    if (position_table != NULL) position = (const float *)position_table + positions[r] * width;
    if (table_type == TRI_BF16) {
      forward_row(TRI_BF16, TRI_BF16, width, token, position, out, r * width); /* `type` is BF16 too */
    } else {
      BY_TYPE(forward_row, TRI_FP32, width, token, position, out, r * width);
    }
  }
  return TRI_OK;
}

INLINE void add_to_row(tri_dtype type, int64_t first, int64_t end, const void *gradient, int64_t at, float *sum) {
  FOR_VECTORS(c, count, first, end, {
    vf_put(TRI_FP32, sum, c, count, vf_get(TRI_FP32, sum, c, count) + vf_get(type, gradient, at + c, count));
  });
}

static tri_status embedding_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                     int64_t first_id, int64_t table_rows, const void *gradient, void *gradient_table) {
  const int64_t live = tri_rows_live(rows);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int part = 0; part < THREADS; part++) {
    int64_t first = 0, end = 0;
    share_of(width, part, THREADS, &first, &end);
    for (int64_t r = 0; r < live; r++) {
      int64_t id = ids[r] - first_id;
      if (id < 0 || id >= table_rows) continue;
      BY_TYPE(add_to_row, first, end, gradient, r * width, (float *)gradient_table + id * width);
    }
  }
  return TRI_OK;
}

/* Returns the number of columns of a table that stay in the L2 cache while all rows are added to them; fewer if threads
 * would be idle. */
INLINE int64_t strip_of(int64_t width, int64_t threads) {
  enum { LINE = 16, MOST = 64 };
  int64_t share = (width + threads * LINE - 1) / (threads * LINE) * LINE;
  return share < MOST ? share : MOST;
}

static tri_status position_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                    const int32_t *positions, int64_t table_rows, const void *gradient,
                                    void *gradient_table, bool accumulate) {
  const int64_t live = tri_rows_live(rows);
  const int64_t strip = strip_of(width, THREADS);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t first = 0; first < width; first += strip) {
    int64_t end = first + strip < width ? first + strip : width;
    float *table = gradient_table;
    for (int64_t p = 0; p < table_rows && !accumulate; p++) {
      memset(table + p * width + first, 0, (size_t)(end - first) * sizeof *table);
    }
    for (int64_t r = 0; r < live; r++)
      BY_TYPE(add_to_row, first, end, gradient, r * width, table + positions[r] * width);
  }
  return TRI_OK;
}

void TRI_KERNEL(table_embedding)(tri_device_kernels *table) {
  table->embedding_forward = embedding_forward;
  table->embedding_backward = embedding_backward;
  table->position_backward = position_backward;
}
