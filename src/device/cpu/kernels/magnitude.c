/* Multiplication of columns by factors, and the factors' gradients (DoRA): bound by memory bandwidth, so each array is
 * read or written once. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

/* Rows and columns that a thread processes at a time. The backward processes all rows, in blocks of TOGETHER rows
 * that are summed separately, so that long sums stay exact enough. */
enum { ROWS = 16, COLUMNS = 256, TOGETHER = 64 };

static float inverse_root(float square) { return square > 0 ? 1 / sqrtf(square) : square; }

/* ---- forward ----------------------------------------------------------------------------------------------------- */

typedef struct forward_job {
  const float *magnitudes, *squares, *offsets;
  const void *x;
  void *y;
  int64_t ld;
} forward_job;

INLINE void forward_piece(tri_dtype type, const forward_job *job, int64_t first_row, int64_t end_row, int64_t first,
                          int64_t count) {
  float factors[COLUMNS], offsets[COLUMNS];
  for (int64_t c = 0; c < count; c++) factors[c] = job->magnitudes[first + c] * inverse_root(job->squares[first + c]);
  for (int64_t c = 0; c < count; c++) offsets[c] = job->offsets == NULL ? 0 : job->offsets[first + c];
  for (int64_t r = first_row; r < end_row; r++) {
    FOR_VECTORS(c, some, 0, count, {
      const int64_t at = r * job->ld + first + c;
      const vf offset = vf_get(TRI_FP32, offsets, c, some);
      const vf x = vf_get(type, job->x, at, some) - offset;
      vf_put(type, job->y, at, some, vf_fma(vf_get(TRI_FP32, factors, c, some), x, offset));
    });
  }
}

static tri_status magnitude_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                    const void *magnitudes, const void *squares, const void *offsets, const void *x,
                                    void *y) {
  const forward_job job = {magnitudes, squares, offsets, x, y, ld};
  const int64_t live = tri_rows_live(rows), down = (live + ROWS - 1) / ROWS, across = (width + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t i = 0; i < down * across; i++) {
    const int64_t row = i / across * ROWS, column = i % across * COLUMNS;
    const int64_t end = row + ROWS < live ? row + ROWS : live;
    BY_TYPE(forward_piece, &job, row, end, column, width - column < COLUMNS ? width - column : COLUMNS);
  }
  return TRI_OK;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

typedef struct backward_job {
  const void *gradient_y, *x;
  const float *squares, *offsets;
  float *gradient;
  int64_t rows, ld;
  bool accumulate;
} backward_job;

INLINE void backward_piece(tri_dtype type, const backward_job *job, int64_t first, int64_t count) {
  float offsets[COLUMNS], sums[COLUMNS] = {0};
  for (int64_t c = 0; c < count; c++) offsets[c] = job->offsets == NULL ? 0 : job->offsets[first + c];
  for (int64_t begin = 0; begin < job->rows; begin += TOGETHER) {
    const int64_t end = begin + TOGETHER < job->rows ? begin + TOGETHER : job->rows;
    FOR_VECTORS(c, some, 0, count, {
      const vf offset = vf_get(TRI_FP32, offsets, c, some);
      vf sum = {0};
      for (int64_t r = begin; r < end; r++) {
        const int64_t at = r * job->ld + first + c;
        sum = vf_fma(vf_get(type, job->gradient_y, at, some), vf_get(type, job->x, at, some) - offset, sum);
      }
      vf_put(TRI_FP32, sums, c, some, vf_get(TRI_FP32, sums, c, some) + sum);
    });
  }
  for (int64_t c = 0; c < count; c++) {
    const float sum = sums[c] * inverse_root(job->squares[first + c]);
    job->gradient[first + c] = job->accumulate ? job->gradient[first + c] + sum : sum;
  }
}

static tri_status magnitude_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                     const void *gradient_y, const void *x, const void *squares, const void *offsets,
                                     void *gradient, bool accumulate) {
  const int64_t live = tri_rows_live(rows), across = (width + COLUMNS - 1) / COLUMNS;
  const backward_job job = {gradient_y, x, squares, offsets, gradient, live, ld, accumulate};
#pragma omp parallel for schedule(static) num_threads(THREADS) if (live * width > TRI_ALONE)
  for (int64_t i = 0; i < across; i++) {
    const int64_t column = i * COLUMNS;
    BY_TYPE(backward_piece, &job, column, width - column < COLUMNS ? width - column : COLUMNS);
  }
  return TRI_OK;
}

void TRI_KERNEL(table_magnitude)(tri_device_kernels *table) {
  table->magnitude_forward = magnitude_forward;
  table->magnitude_backward = magnitude_backward;
}
