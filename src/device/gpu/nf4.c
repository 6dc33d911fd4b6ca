/* Launches the kernels of kernels/nf4.c. */
#include "device/nf4.h"
#include "device/gpu/internal.h"

_Static_assert((int)NF4_BLOCK == (int)TRI_NF4_BLOCK && (int)NF4_BLOCK_BYTES == (int)TRI_NF4_BLOCK_BYTES &&
                   (int)NF4_GROUP == (int)TRI_NF4_GROUP && (int)nf4_offset_threads == (int)TRI_NF4_SUMS &&
                   (int)TRI_NF4_GROUP == (int)TRI_QUANTISED_BLOCK,
               "kernels know sizes by names of their own");

/* Returns the shape with a warp (at least 32 threads) for each block. */
static tri_gpu_shape shape_of(const tri_nf4_layout *at, int threads) {
  return tri_gpu_shape_of(at->blocks * 32, threads);
}

/* Quantises an array. The memory of the codes holds the blocks' largest magnitudes in fp32 until these have been
 * quantised. */
static tri_status gpu_quantise_nf4(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept) {
  const tri_nf4_layout at = tri_nf4_layout_of(count);
  char *const begin = kept;
  if (count == 0) return TRI_OK;
  TRI_GPU_LAUNCH(nf4_largest, type, shape_of(&at, nf4_largest_threads), .values = values, .largest = kept,
                 .count = count);
  TRI_GPU_LAUNCH(nf4_offset, type, (tri_gpu_shape){.x = 1}, .largest = kept,
                 .offset = (float *)(void *)(begin + at.offset), .blocks = at.blocks);
  TRI_KERNEL_CALL(queue, quantise_blocks, TRI_FP32, at.blocks, true, kept, (uint8_t *)begin + at.largest,
                  (float *)(void *)(begin + at.scales));
  TRI_GPU_LAUNCH(nf4_codes, type, shape_of(&at, nf4_codes_threads), .values = values, .codes = kept, .count = count);
  return TRI_OK;
}

/* Copies a part of an array. A thread copies four bytes of codes. */
static tri_status gpu_cut_nf4(tri_queue *queue, const tri_nf4_cut *cut, const void *whole, void *kept) {
  const tri_nf4_layout from = tri_nf4_layout_of(cut->total), to = tri_nf4_layout_of_cut(cut);
  const uint8_t *in = whole;
  uint8_t *out = kept;
  if (cut->total == 0) return TRI_OK;
  TRI_GPU_LAUNCH(cut_nf4, TRI_FP32, tri_gpu_shape_of(to.blocks * (TRI_NF4_BLOCK_BYTES / 4), cut_nf4_threads),
                 .codes = whole, .largest = in + from.largest,
                 .scales = (const uint32_t *)(const void *)(in + from.scales), .to_codes = kept,
                 .to_largest = out + to.largest, .to_scales = (uint32_t *)(void *)(out + to.scales), .cut = *cut,
                 .blocks = to.blocks, .words = (int64_t)((from.bytes - from.scales) / sizeof(uint32_t)));
  return TRI_OK;
}

/* Returns the index, among the kept blocks, of the block with element i of a cut. */
static int64_t block_at(const tri_nf4_cut *cut, int64_t i) {
  const int64_t row = i / cut->width, begin = tri_nf4_row_begin(*cut, row);
  return row * cut->row_blocks + (begin + i % cut->width) / TRI_NF4_BLOCK - begin / TRI_NF4_BLOCK;
}

static tri_status gpu_dequantise_nf4(tri_queue *queue, tri_dtype type, const tri_nf4_cut *cut, int64_t first,
                                     int64_t count, const void *kept, void *values) {
  const tri_nf4_layout at = tri_nf4_layout_of_cut(cut);
  const uint8_t *begin = kept;
  if (count == 0) return TRI_OK;
  const int64_t first_block = block_at(cut, first), last_block = block_at(cut, first + count - 1);
  const int64_t pieces = (last_block - first_block + 1) * (TRI_NF4_BLOCK / 8);
  TRI_GPU_LAUNCH(dequantise_nf4, type, tri_gpu_shape_of(pieces, dequantise_nf4_threads), .codes = begin,
                 .largest = begin + at.largest, .scales = (const float *)(const void *)(begin + at.scales),
                 .offset = (const float *)(const void *)(begin + at.offset), .values = values, .cut = *cut,
                 .first = first, .end = first + count, .first_block = first_block, .pieces = pieces);
  return TRI_OK;
}

void tri_gpu_fill_nf4(tri_device_kernels *out) {
  out->quantise_nf4 = gpu_quantise_nf4;
  out->cut_nf4 = gpu_cut_nf4;
  out->dequantise_nf4 = gpu_dequantise_nf4;
}
