#ifndef TRI_DEVICE_GPU_KERNELS_LOSS_H
#define TRI_DEVICE_GPU_KERNELS_LOSS_H

#include <stdint.h>

#define TRI_GPU_KERNELS_loss(K)

#endif
