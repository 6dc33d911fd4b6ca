/* Launches the kernels of kernels/sums.c. */
#include "device/gpu/columns.h"

static tri_status gpu_column_sum(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                 const void *in, void *out, bool accumulate) {
  tri_gpu_columns all;
  TRI_TRY(tri_gpu_columns_create(type, rows, 1, width, 1, &all));
  do {
    TRI_GPU_LAUNCH(column_sum, type, ((tri_gpu_shape){.x = tri_gpu_columns_slabs(&all) * all.strips}), .in = in,
                   .slabs = tri_gpu_scratch(queue), .capacity = rows.capacity, .width = width, .ld = ld,
                   .count = rows.count, .cut = tri_gpu_columns_cut(&all));
    TRI_TRY(tri_gpu_columns_total(queue, &all, type, rows, 0, out, accumulate));
  } while (tri_gpu_columns_next(&all));
  return TRI_OK;
}

/* ---- over an array ----------------------------------------------------------------------------------------------- */

enum { PART = 4096 }; /* smallest number of elements of a part, which one block sums */

static tri_status gpu_sum(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out,
                          bool accumulate) {
  const int64_t room = TRI_GPU_SCRATCH_BYTES / (int64_t)sizeof(double);
  double *parts = tri_gpu_scratch(queue);
  int64_t part = PART;
  while ((count + part - 1) / part > room) part *= 2;
  const int64_t num_parts = (count + part - 1) / part;
  TRI_GPU_LAUNCH(sum_parts, type, ((tri_gpu_shape){.x = num_parts}), .in = in, .parts = parts, .count = count,
                 .part = part);
  TRI_GPU_LAUNCH(sum_total, type, ((tri_gpu_shape){.x = 1}), .parts = parts, .out = out, .count = num_parts,
                 .accumulate = accumulate);
  return TRI_OK;
}

/* ---- exact sums -------------------------------------------------------------------------------------------------- */

/* MOST_SUMS: maximum number of blocks of exact_squares, which each write one sum; sums are integers, so their limbs do
 * not depend on this number. MOST_TERMS: maximum number of terms that are added before carries are propagated. */
enum { MOST_SUMS = 1024, MOST_TERMS = 1 << 28 };

static tri_status some_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                               tri_exact_sum *sum) {
  const int64_t terms = (count + block - 1) / block, blocks = (terms + EXACT_TERMS - 1) / EXACT_TERMS;
  const int64_t num_sums = blocks < MOST_SUMS ? blocks : MOST_SUMS;
  tri_exact_sum *sums = tri_gpu_scratch(queue);
  TRI_GPU_LAUNCH(exact_squares, type, ((tri_gpu_shape){.x = num_sums}), .in = in, .sums = sums, .count = count,
                 .block = block, .terms = terms);
  TRI_GPU_LAUNCH(exact_merge, type, ((tri_gpu_shape){.x = 1}), .sums = sums, .sum = sum, .count = num_sums);
  return TRI_OK;
}

static tri_status gpu_block_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                                    tri_exact_sum *sum) {
  const int64_t bytes = (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  const int64_t most = block > INT64_MAX / MOST_TERMS ? INT64_MAX : block * MOST_TERMS;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t some = count - first < most ? count - first : most;
    TRI_TRY(some_squares(queue, type, some, block, (const char *)in + first * bytes, sum));
    if (some < most) break; /* prevents an overflow of `first` */
  }
  return TRI_OK;
}

static tri_status gpu_exact_add(tri_queue *queue, const double *value, tri_exact_sum *sum) {
  TRI_GPU_LAUNCH(exact_add, TRI_FP64, ((tri_gpu_shape){.x = 1}), .value = value, .sum = sum);
  return TRI_OK;
}

void tri_gpu_fill_sums(tri_device_kernels *out) {
  out->column_sum = gpu_column_sum;
  out->sum = gpu_sum;
  out->block_squares = gpu_block_squares;
  out->exact_add = gpu_exact_add;
}
