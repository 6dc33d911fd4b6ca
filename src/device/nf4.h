/* How weights lie in memory in 4 bits (kernels.h, quantise_nf4): QLoRA's NF4 with double quantisation, in the parts
 * that bitsandbytes has and with its bytes.
 *
 *   codes    two elements a byte, the first in the upper half, of blocks of 64 elements; the last block is filled up
 * with zeros (code 7). These are bitsandbytes' `weight`. largest  a byte for each block: its largest magnitude less
 * `offset`, as a code of the signed dynamic map (base/dynamic_map.h). bitsandbytes' `absmax`. scales   an fp32 number
 * for each 256 blocks. Its `nested_absmax`. offset   an fp32 number: the mean of the largest magnitudes. Its
 * `nested_offset`.
 *
 * An element is number(code) * (dynamic number * scale + offset), each product and the sum rounded to fp32. Codes,
 * `largest` and scales begin on lines of 64 bytes of where all begins; the offset follows the scales. */
#ifndef TRI_DEVICE_NF4_H
#define TRI_DEVICE_NF4_H

#include "base/count.h"

/* Elements of a block, bytes of its codes, and blocks that share a scale. */
enum { TRI_NF4_BLOCK = 64, TRI_NF4_BLOCK_BYTES = 32, TRI_NF4_GROUP = 256, TRI_NF4_SUMS = 256 };

/* In bytes: where each part but the codes begins, and what all of them take. */
typedef struct tri_nf4_layout {
  int64_t blocks;
  size_t largest, scales, offset, bytes;
} tri_nf4_layout;

/* Of `count` elements. */
static inline tri_nf4_layout tri_nf4_layout_of(int64_t count) {
  tri_nf4_layout l = {.blocks = count / TRI_NF4_BLOCK + (count % TRI_NF4_BLOCK > 0)};
  const size_t blocks = (size_t)l.blocks, groups = (blocks + TRI_NF4_GROUP - 1) / TRI_NF4_GROUP;
  l.largest = tri_bytes_in_lines(tri_bytes_times(blocks, TRI_NF4_BLOCK_BYTES));
  l.scales = tri_bytes_plus(l.largest, tri_bytes_in_lines(blocks));
  l.offset = tri_bytes_plus(l.scales, tri_bytes_times(groups, sizeof(float)));
  l.bytes = tri_bytes_plus(l.offset, sizeof(float));
  return l;
}

static inline size_t tri_nf4_bytes(int64_t count) { return tri_nf4_layout_of(count).bytes; }

/* The mean of the largest magnitudes in double, of 256 sums that are then added up by halves: in this order on every
 * device. Not finite where one of them is not. */
static inline float tri_nf4_mean(int64_t blocks, const float *largest) {
  double sums[TRI_NF4_SUMS] = {0};
  for (int64_t b = 0; b < blocks; b++) sums[b % TRI_NF4_SUMS] += (double)largest[b];
  for (int half = TRI_NF4_SUMS / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return (float)(sums[0] / (double)blocks);
}

#endif
