/* Kernels around a library's GEMM: kernels/products.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_PRODUCTS_H
#define TRI_DEVICE_GPU_KERNELS_PRODUCTS_H

#include "device/gpu/kernels/threads.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_products(K) K(add_bias, 256)
enum { TRI_GPU_KERNELS_products(TRI_GPU_THREADS) };

/* out[r, j] += bias[j], which is wide. Blocks along x share a row's columns, blocks along y the rows; row_step is the
 * number of blocks along y. */
typedef struct add_bias_arguments {
  void *out;
  const void *bias;
  int64_t rows, width, ld, row_step;
} add_bias_arguments;

#endif
