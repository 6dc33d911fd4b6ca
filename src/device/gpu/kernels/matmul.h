/* GEMMs: kernels/matmul.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_MATMUL_H
#define TRI_DEVICE_GPU_KERNELS_MATMUL_H

#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_matmul(K)                                                                                      \
  K(matmul_large, 256)                                                                                                 \
  K(matmul_small, 128)                                                                                                 \
  K(matmul_pack, 256)
enum { TRI_GPU_KERNELS_matmul(TRI_GPU_THREADS) };

/* A block computes a square tile of c. */
enum { MATMUL_LARGE = 128, MATMUL_SMALL = 64 };
/* MATMUL_LARGE_STAGES, MATMUL_SMALL_STAGES, MATMUL_STAGES_OF_64: numbers of pairs of tiles of a and b in a block's
 * shared memory, for large and for small tiles with warps of 32, and for both with warps of 64. A tile has memory for
 * as many rows as the tile of c has, of MATMUL_ROW_BYTES each: 64 bytes along k, and 16 of padding. A tile with a
 * stored row for each k needs less. */
enum { MATMUL_LARGE_STAGES = 4, MATMUL_SMALL_STAGES = 3, MATMUL_STAGES_OF_64 = 2, MATMUL_ROW_BYTES = 80 };

/* tri_matmul (device/description.h) explains the members. a and b have elements, bias has wide numbers, and c has
 * either. */
typedef struct matmul_arguments {
  const void *a, *b, *bias; /* bias may be NULL */
  void *c;
  int64_t m, n, k, lda, ldb, ldc;
  int32_t a_transposed, b_transposed, c_is_wide, accumulate;
} matmul_arguments;

typedef matmul_arguments matmul_large_arguments;
typedef matmul_arguments matmul_small_arguments;

/* Conversion of rows to dense rows of elements. The input rows are `ld` apart, of wide numbers (in_is_wide) or of
 * elements. */
typedef struct matmul_pack_arguments {
  const void *in;
  void *out;
  int64_t rows, width, ld;
  int32_t in_is_wide;
  int32_t no_padding;
} matmul_pack_arguments;

#endif
