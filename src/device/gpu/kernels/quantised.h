/* States of optimizers in 8 bits: kernels/quantised.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_QUANTISED_H
#define TRI_DEVICE_GPU_KERNELS_QUANTISED_H

#include "base/dynamic_map.h"
#include "device/gpu/kernels/threads.h"

#define TRI_GPU_KERNELS_quantised(K) K(quantise_blocks, 256) K(dequantise_blocks, 256)
enum { TRI_GPU_KERNELS_quantised(TRI_GPU_THREADS) };

/* Elements of a block: TRI_QUANTISED_BLOCK. */
enum { QUANTISED_BLOCK = 256 };

/* Computes codes[count] of in[count], and a scale for each block. with_sign: whether the map of codes has negative
 * numbers. */
typedef struct quantise_blocks_arguments {
  const void *in; /* wide */
  uint8_t *codes;
  float *scales;
  int64_t count;
  int32_t with_sign;
  int32_t no_padding;
} quantise_blocks_arguments;

/* out[i] = the number that codes[i] stands for (base/dynamic_map.h) * the scale of the block of element i. */
typedef struct dequantise_blocks_arguments {
  const uint8_t *codes;
  const float *scales;
  void *out; /* wide */
  int64_t count;
  int32_t with_sign;
  int32_t no_padding;
} dequantise_blocks_arguments;

#endif
