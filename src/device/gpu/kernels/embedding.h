#ifndef TRI_DEVICE_GPU_KERNELS_EMBEDDING_H
#define TRI_DEVICE_GPU_KERNELS_EMBEDDING_H

#include <stdint.h>

#define TRI_GPU_KERNELS_embedding(K)

#endif
