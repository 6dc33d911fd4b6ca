#ifndef TRI_DEVICE_GPU_KERNELS_OPTIMIZER_H
#define TRI_DEVICE_GPU_KERNELS_OPTIMIZER_H

#include <stdint.h>

#define TRI_GPU_KERNELS_optimizer(K)

#endif
