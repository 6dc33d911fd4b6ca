/* Copies rows of a matrix between leading dimensions and types. Bound by memory bandwidth. */
#include "device/cpu/rows.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

/* Number of elements of a piece of a row. Rows are cut in pieces, so that threads also share a matrix of few long rows.
 */
enum { PIECE = 8192 };

/* A piece of a row: `count` elements, at these offsets of the two arrays. */
typedef struct piece {
  int64_t from, to, count;
} piece;

INLINE piece piece_of(const tri_cpu_rows *job, int64_t row, int64_t first) {
  const int64_t from = job->from_rows == NULL ? row : job->from_rows[row];
  const int64_t to = job->to_rows == NULL ? row : job->to_rows[row];
  const int64_t left = job->columns - first;
  return (piece){from * job->from_ld + first, to * job->to_ld + first, left < PIECE ? left : PIECE};
}

INLINE void copy_piece(tri_dtype from, tri_dtype to, const tri_cpu_rows *job, piece p) {
  FOR_VECTORS(i, count, 0, p.count,
              { vf_put(to, job->to, p.to + i, count, vf_get(from, job->from, p.from + i, count)); });
}

static void move_piece(const tri_cpu_rows *job, piece p) {
  const int64_t bytes = (int64_t)tri_dtype_bytes(job->to_type);
  memcpy((char *)job->to + p.to * bytes, (const char *)job->from + p.from * bytes, (size_t)(p.count * bytes));
}

void TRI_KERNEL(rows_copy)(int threads, const tri_cpu_rows *job) {
  const int64_t pieces = (job->columns + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) num_threads(threads) if (job->rows * job->columns > TRI_ALONE)
  for (int64_t item = 0; item < job->rows * pieces; item++) {
    const piece p = piece_of(job, item / pieces, item % pieces * PIECE);
    if (job->from_type == job->to_type) {
      move_piece(job, p);
    } else if (job->from_type == TRI_BF16) {
      copy_piece(TRI_BF16, TRI_FP32, job, p);
    } else {
      copy_piece(TRI_FP32, TRI_BF16, job, p);
    }
  }
}

static bool is_converted(tri_dtype from, tri_dtype to) {
  return from == to || (from == TRI_FP32 && to == TRI_BF16) || (from == TRI_BF16 && to == TRI_FP32);
}

static tri_status copy_rows(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows, const void *from,
                            const int32_t *to_rows, void *to) {
  if (!is_converted(copy->from_type, copy->to_type)) {
    return tri_fail(TRI_UNSUPPORTED, "the cpu does not convert %s to %s", tri_dtype_name(copy->from_type),
                    tri_dtype_name(copy->to_type));
  }
  const tri_cpu_rows job = {.rows = tri_rows_live(copy->rows),
                            .columns = copy->width,
                            .from_rows = from_rows,
                            .to_rows = to_rows,
                            .from = from,
                            .from_type = copy->from_type,
                            .to_type = copy->to_type,
                            .from_ld = copy->from_stride,
                            .to_ld = copy->to_stride,
                            .to = to};
  TRI_KERNEL(rows_copy)(THREADS, &job);
  return TRI_OK;
}

void TRI_KERNEL(table_rows)(tri_device_kernels *table) { table->copy_rows = copy_rows; }
