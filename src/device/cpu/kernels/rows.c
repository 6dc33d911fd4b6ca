/* Rows of a matrix copied between leading dimensions and types. Bound by memory. */
#include "device/cpu/rows.h"
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

/* A row is cut in pieces, so that a matrix of few long rows is shared out as well. */
enum { PIECE = 8192 };

INLINE void copy_piece(tri_dtype from, tri_dtype to, const tri_cpu_rows *job, int64_t row, int64_t first, int64_t end) {
  FOR_VECTORS(i, count, first, end, {
    vf_put(to, job->to, row * job->to_ld + i, count, vf_get(from, job->from, row * job->from_ld + i, count));
  });
}

INLINE void copy_from_bf16(tri_dtype to, const tri_cpu_rows *job, int64_t row, int64_t first, int64_t end) {
  copy_piece(TRI_BF16, to, job, row, first, end);
}
INLINE void copy_from_fp32(tri_dtype to, const tri_cpu_rows *job, int64_t row, int64_t first, int64_t end) {
  copy_piece(TRI_FP32, to, job, row, first, end);
}

void TRI_KERNEL(rows_copy)(int threads, const tri_cpu_rows *job) {
  const tri_dtype type = job->to_type;
  int64_t pieces = (job->columns + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) num_threads(threads) if (job->rows * job->columns > TRI_ALONE)
  for (int64_t item = 0; item < job->rows * pieces; item++) {
    int64_t row = item / pieces;
    int64_t first = item % pieces * PIECE;
    int64_t end = first + PIECE < job->columns ? first + PIECE : job->columns;
    switch (job->from_type) {
      case TRI_BF16: BY_TYPE(copy_from_bf16, job, row, first, end); break;
      case TRI_FP32: BY_TYPE(copy_from_fp32, job, row, first, end); break;
      case TRI_FP64:
      case TRI_INT32: break; /* by_type.h */
    }
  }
}
