/* Rows of a matrix copied between leading dimensions and types. Bound by memory. */
#include "device/cpu/rows.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

/* A row is cut in pieces, so that a matrix of few long rows is shared out as well. */
enum { PIECE = 8192 };

INLINE void copy_of(tri_dtype from, tri_dtype to, int threads, const tri_rows *job) {
  int64_t pieces = (job->columns + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) num_threads(threads) if (job->rows * job->columns > TRI_ALONE)
  for (int64_t item = 0; item < job->rows * pieces; item++) {
    int64_t row = item / pieces;
    int64_t first = item % pieces * PIECE;
    int64_t end = first + PIECE < job->columns ? first + PIECE : job->columns;
    FOR_VECTORS(i, count, first, end, {
      vf_put(to, job->to, row * job->to_ld + i, count, vf_get(from, job->from, row * job->from_ld + i, count));
    });
  }
}

void TRI_KERNEL(rows_copy)(int threads, const tri_rows *job) {
  if (job->from_type == TRI_BF16) {
    if (job->to_type == TRI_BF16) {
      copy_of(TRI_BF16, TRI_BF16, threads, job);
    } else {
      copy_of(TRI_BF16, TRI_FP32, threads, job);
    }
  } else if (job->to_type == TRI_BF16) {
    copy_of(TRI_FP32, TRI_BF16, threads, job);
  } else {
    copy_of(TRI_FP32, TRI_FP32, threads, job);
  }
}
