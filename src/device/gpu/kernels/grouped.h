/* GEMMs of rows in groups: kernels/grouped.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_GROUPED_H
#define TRI_DEVICE_GPU_KERNELS_GROUPED_H

#include "device/gpu/kernels/matmul.h"
#include "device/gpu/kernels/threads.h"

#define TRI_GPU_KERNELS_grouped(K)                                                                                     \
  K(grouped_large, 256)                                                                                                \
  K(grouped_small, 128)                                                                                                \
  K(grouped_gradient_large, 256)                                                                                       \
  K(grouped_gradient_small, 128)
enum { TRI_GPU_KERNELS_grouped(TRI_GPU_THREADS) };

/* tri_grouped_matmul (device/description.h) explains the members. Tiles as in matmul.h. */
typedef struct grouped_arguments {
  matmul_arguments product; /* GEMM of all rows */
  const int32_t *begins;
  int64_t groups, stride; /* stride of matrices, in elements */
} grouped_arguments;

typedef grouped_arguments grouped_large_arguments;
typedef grouped_arguments grouped_small_arguments;
typedef grouped_arguments grouped_gradient_large_arguments;
typedef grouped_arguments grouped_gradient_small_arguments;

#endif
