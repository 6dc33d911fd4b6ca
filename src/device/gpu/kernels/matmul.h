#ifndef TRI_DEVICE_GPU_KERNELS_MATMUL_H
#define TRI_DEVICE_GPU_KERNELS_MATMUL_H

#include <stdint.h>

#define TRI_GPU_KERNELS_matmul(K)

#endif
