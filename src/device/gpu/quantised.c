/* Launches the kernels of kernels/quantised.c. */
#include "device/gpu/internal.h"

_Static_assert((int)QUANTISED_BLOCK == (int)TRI_QUANTISED_BLOCK, "kernels know blocks by a name of their own");

/* Returns a launch shape with 32 threads for each block of QUANTISED_BLOCK elements. A warp processes one block at a
 * time; a warp of 64 threads processes twice as many blocks as one of 32. */
static tri_gpu_shape shape_of(int64_t count, int threads) {
  return tri_gpu_shape_of((count + QUANTISED_BLOCK - 1) / QUANTISED_BLOCK * 32, threads);
}

static tri_status gpu_quantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const void *in,
                                      uint8_t *codes, float *scales) {
  TRI_GPU_LAUNCH(quantise_blocks, type, shape_of(count, quantise_blocks_threads), .in = in, .codes = codes,
                 .scales = scales, .count = count, .with_sign = with_sign);
  return TRI_OK;
}

static tri_status gpu_dequantise_blocks(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign,
                                        const uint8_t *codes, const float *scales, void *out) {
  TRI_GPU_LAUNCH(dequantise_blocks, type, shape_of(count, dequantise_blocks_threads), .codes = codes, .scales = scales,
                 .out = out, .count = count, .with_sign = with_sign);
  return TRI_OK;
}

void tri_gpu_fill_quantised(tri_device_kernels *out) {
  out->quantise_blocks = gpu_quantise_blocks;
  out->dequantise_blocks = gpu_dequantise_blocks;
}
