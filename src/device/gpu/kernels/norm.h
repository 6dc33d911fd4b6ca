/* Layer norm and RMS norm: kernels/norm.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_NORM_H
#define TRI_DEVICE_GPU_KERNELS_NORM_H

#include "device/gpu/kernels/sums.h"
#include "device/gpu/kernels/threads.h"

#include <stdint.h>

enum { NORM_THREADS = 256 };
#define TRI_GPU_KERNELS_norm(K)                                                                                        \
  K(norm_forward_warp, NORM_THREADS)                                                                                   \
  K(norm_forward_block, NORM_THREADS)                                                                                  \
  K(norm_forward_any, NORM_THREADS)                                                                                    \
  K(norm_backward_warp, NORM_THREADS)                                                                                  \
  K(norm_backward_block, NORM_THREADS)                                                                                 \
  K(norm_backward_any, NORM_THREADS)                                                                                   \
  K(norm_weight_slabs, NORM_THREADS)
enum { TRI_GPU_KERNELS_norm(TRI_GPU_THREADS) };

/* A *piece* is a group of columns of one row, which is normalised by itself. NORM_KEPT: elements of a piece that a
 * thread keeps in registers. NORM_WARP_WIDTH, NORM_BLOCK_WIDTH: the widest pieces that a warp of 32 threads and a block
 * keep in registers, so that they read memory once. */
enum { NORM_KEPT = 32, NORM_WARP_WIDTH = 32 * NORM_KEPT, NORM_BLOCK_WIDTH = NORM_THREADS * NORM_KEPT };

/* tri_norm of device/kernels.h: rows of `groups` pieces of `width` elements. x_row, y_row: distances of rows; x_group,
 * y_group: distances of a row's pieces, all in elements. */
typedef struct norm_shape {
  int64_t capacity; /* capacity in rows */
  const int32_t *count;
  int64_t groups, width;
  int64_t x_row, x_group, y_row, y_group;
} norm_shape;

/* mean [pieces], wide, is NULL for RMS norm; rstd [pieces], wide. weight and bias [width] are wide; bias may be NULL.
 * If branch is not NULL, sum = x + branch is stored and normalised; branch and sum have the strides of x. */
typedef struct norm_forward_arguments {
  norm_shape shape;
  const void *x, *branch, *weight, *bias;
  void *sum, *y, *mean, *rstd;
  double eps, offset;
  int32_t by_warp; /* 1: one warp processes a piece; 0: one block */
  int32_t no_padding;
} norm_forward_arguments;
typedef norm_forward_arguments norm_forward_warp_arguments, norm_forward_block_arguments, norm_forward_any_arguments;

typedef struct norm_backward_arguments {
  norm_shape shape;
  const void *gradient_y, *x, *weight, *mean, *rstd;
  void *gradient_x;
  double offset;
  int32_t by_warp, accumulate;
} norm_backward_arguments;
typedef norm_backward_arguments norm_backward_warp_arguments, norm_backward_block_arguments,
    norm_backward_any_arguments;

/* Stage 1 of the weight's gradient (columns.h); if `sums` is 2, each slab also has the gradient of the bias, after that
 * of the weight. */
typedef struct norm_weight_slabs_arguments {
  norm_shape shape;
  const void *gradient_y, *x, *mean, *rstd;
  void *slabs; /* [slabs of the launch, sums, width] */
  column_slabs cut;
  int32_t sums;
  int32_t no_padding;
} norm_weight_slabs_arguments;

#endif
