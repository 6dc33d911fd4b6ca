/* Weights in 4 bits: kernels/nf4.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_NF4_H
#define TRI_DEVICE_GPU_KERNELS_NF4_H

#include <stdint.h>

#define TRI_GPU_KERNELS_nf4(K) K(nf4_largest, 256) K(nf4_offset, 256) K(nf4_codes, 256) K(dequantise_nf4, 256)

enum { nf4_largest_threads = 256, nf4_offset_threads = 256, nf4_codes_threads = 256, dequantise_nf4_threads = 256 };

/* TRI_NF4_BLOCK and so on of device/nf4.h. */
enum { NF4_BLOCK = 64, NF4_BLOCK_BYTES = 32, NF4_GROUP = 256 };

/* The largest magnitude of each block. */
typedef struct nf4_largest_arguments {
  const void *values; /* elements */
  float *largest;
  int64_t count;
} nf4_largest_arguments;

/* Their mean, which they become less by: a single block of threads. */
typedef struct nf4_offset_arguments {
  float *largest, *offset;
  int64_t blocks;
} nf4_offset_arguments;

typedef struct nf4_codes_arguments {
  const void *values; /* elements */
  uint8_t *codes;
  int64_t count;
} nf4_codes_arguments;

/* Of `count` elements, of which the first is that of block `first_block`. */
typedef struct dequantise_nf4_arguments {
  const uint8_t *codes, *largest;
  const float *scales, *offset;
  void *values; /* elements */
  int64_t first_block, count;
} dequantise_nf4_arguments;

#endif
