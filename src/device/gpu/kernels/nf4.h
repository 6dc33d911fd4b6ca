/* Weights in 4 bits: kernels/nf4.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_NF4_H
#define TRI_DEVICE_GPU_KERNELS_NF4_H

#include "device/gpu/kernels/threads.h"
#include "device/nf4.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_nf4(K)                                                                                         \
  K(nf4_largest, 256) K(nf4_offset, 256) K(nf4_codes, 256) K(cut_nf4, 256) K(dequantise_nf4, 256)
enum { TRI_GPU_KERNELS_nf4(TRI_GPU_THREADS) };

/* The same as TRI_NF4_BLOCK, TRI_NF4_BLOCK_BYTES and TRI_NF4_GROUP of device/nf4.h. */
enum { NF4_BLOCK = 64, NF4_BLOCK_BYTES = 32, NF4_GROUP = 256 };

/* Finds the largest magnitude of each block. */
typedef struct nf4_largest_arguments {
  const void *values; /* elements */
  float *largest;
  int64_t count;
} nf4_largest_arguments;

/* Computes the mean of largest[blocks], stores it in *offset, and subtracts it from each; if the mean is not finite,
 * all become NaN. Launched as a single block. */
typedef struct nf4_offset_arguments {
  float *largest, *offset;
  int64_t blocks;
} nf4_offset_arguments;

/* Computes the codes of `count` values, two to a byte, the first one in the upper half. Recomputes the largest
 * magnitude of each block. */
typedef struct nf4_codes_arguments {
  const void *values; /* elements */
  uint8_t *codes;
  int64_t count;
} nf4_codes_arguments;

/* Copies the part of a whole matrix that a cut keeps. blocks: number of kept blocks. */
typedef struct cut_nf4_arguments {
  const void *codes;
  const uint8_t *largest;
  const uint32_t *scales; /* [words], the last one is the offset */
  void *to_codes;
  uint8_t *to_largest;
  uint32_t *to_scales;
  tri_nf4_cut cut;
  int64_t blocks, words;
} cut_nf4_arguments;

/* Dequantises elements [first, end) of a cut, whose codes are `pieces` 32-bit words from block `first_block` on. */
typedef struct dequantise_nf4_arguments {
  const uint8_t *codes, *largest;
  const float *scales, *offset;
  void *values; /* elements */
  tri_nf4_cut cut;
  int64_t first, end, first_block, pieces;
} dequantise_nf4_arguments;

#endif
