/* DoRA's magnitudes (kernels.def: magnitude_forward, magnitude_backward). */
#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

static double inverse_root(tri_dtype wide, const void *squares, int64_t c) {
  const double square = load(wide, squares, c);
  return square > 0 ? 1 / sqrt(square) : square; /* 0 or NaN */
}

static double offset_of(tri_dtype wide, const void *offsets, int64_t c) {
  return offsets == NULL ? 0 : load(wide, offsets, c);
}

tri_status tri_reference_magnitude_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                           const void *magnitudes, const void *squares, const void *offsets,
                                           const void *x, void *y) {
  const int64_t live = tri_rows_live(rows);
  const tri_dtype wide = tri_dtype_wide(type);
  (void)queue;
  for (int64_t c = 0; c < width; c++) {
    const double factor = load(wide, magnitudes, c) * inverse_root(wide, squares, c);
    const double offset = offset_of(wide, offsets, c);
    for (int64_t r = 0; r < live; r++) {
      store(type, y, r * ld + c, factor * (load(type, x, r * ld + c) - offset) + offset);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_magnitude_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                            const void *gradient_y, const void *x, const void *squares,
                                            const void *offsets, void *gradient, bool accumulate) {
  const int64_t live = tri_rows_live(rows);
  const tri_dtype wide = tri_dtype_wide(type);
  (void)queue;
  for (int64_t c = 0; c < width; c++) {
    const double offset = offset_of(wide, offsets, c);
    double sum = 0;
    for (int64_t r = 0; r < live; r++) {
      sum += load(type, gradient_y, r * ld + c) * (load(type, x, r * ld + c) - offset);
    }
    sum *= inverse_root(wide, squares, c);
    store(wide, gradient, c, accumulate ? load(wide, gradient, c) + sum : sum);
  }
  return TRI_OK;
}
