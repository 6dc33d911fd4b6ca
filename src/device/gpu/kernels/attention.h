#ifndef TRI_DEVICE_GPU_KERNELS_ATTENTION_H
#define TRI_DEVICE_GPU_KERNELS_ATTENTION_H

#include <stdint.h>

#define TRI_GPU_KERNELS_attention(K)

#endif
