/* Sums: down columns, over an array, and exact ones. */
#ifndef TRI_DEVICE_GPU_KERNELS_SUMS_H
#define TRI_DEVICE_GPU_KERNELS_SUMS_H

#include "device/exact_sum.h"
#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_sums(K)                                                                                        \
  K(column_sum, 256)                                                                                                   \
  K(column_totals, 256)                                                                                                \
  K(sum_parts, 256)                                                                                                    \
  K(sum_total, 256)                                                                                                    \
  K(exact_squares, 256)                                                                                                \
  K(exact_merge, 1024)                                                                                                 \
  K(exact_add, 64)
enum { TRI_GPU_KERNELS_sums(TRI_GPU_THREADS) };

/* The division of stage 1 of a sum down columns (columns.h): `across` is a power of two, at most 32. */
typedef struct column_slabs {
  int64_t slab_rows, first_slab;
  int64_t across;
} column_slabs;

/* Stage 1: sums of the rows of each slab. The rows of `in` are ld elements apart. */
typedef struct column_sum_arguments {
  const void *in;
  void *slabs; /* [slabs of the launch, width] */
  int64_t capacity, width, ld;
  const int32_t *count;
  column_slabs cut;
} column_sum_arguments;

/* Stage 2: out[width] (+)= the sum of the slabs that have existing rows; slabs are `stride` numbers apart. capacity and
 * *count are numbers of rows, as in tri_rows. Each of these rows has `groups` terms of the sum; slab_rows counts terms.
 */
typedef struct column_totals_arguments {
  const void *slabs;
  void *out;
  int64_t capacity, groups;
  const int32_t *count;
  int64_t slab_rows, first_slab, num_slabs;
  int64_t width, stride;
  int32_t accumulate;
  int32_t no_padding;
} column_totals_arguments;

/* Columns per block of stage 2. */
enum { COLUMN_TOTALS = 8 };

/* parts[i] = sum of numbers [i * part, (i + 1) * part) of in, which is wide. */
typedef struct sum_parts_arguments {
  const void *in;
  double *parts;
  int64_t count, part;
} sum_parts_arguments;

/* *out (+)= the sum of parts[count]. */
typedef struct sum_total_arguments {
  const double *parts;
  double *out;
  int64_t count;
  int32_t accumulate;
  int32_t no_padding;
} sum_total_arguments;

/* A term is the sum of squares of `block` adjacent numbers of in, which is wide. sums[b]: exact sum of the terms that
 * block b of the grid processes, EXACT_TERMS at a time. */
typedef struct exact_squares_arguments {
  const void *in;
  tri_exact_sum *sums;
  int64_t count, block, terms;
} exact_squares_arguments;

enum { EXACT_TERMS = 64 };

/* *sum += all of `sums`. */
typedef struct exact_merge_arguments {
  const tri_exact_sum *sums;
  tri_exact_sum *sum;
  int64_t count;
} exact_merge_arguments;

typedef struct exact_add_arguments {
  const double *value;
  tri_exact_sum *sum;
} exact_add_arguments;

#endif
