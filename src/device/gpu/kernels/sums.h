#ifndef TRI_DEVICE_GPU_KERNELS_SUMS_H
#define TRI_DEVICE_GPU_KERNELS_SUMS_H

#include <stdint.h>

#define TRI_GPU_KERNELS_sums(K)

#endif
