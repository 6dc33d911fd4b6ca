#ifndef TRI_DEVICE_GPU_KERNELS_NORM_H
#define TRI_DEVICE_GPU_KERNELS_NORM_H

#include <stdint.h>

#define TRI_GPU_KERNELS_norm(K)

#endif
