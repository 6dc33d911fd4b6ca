/* The layout of weights in 4 bits (kernels.h, quantise_nf4): QLoRA's NF4 with double quantisation. Its parts have the
 * same bytes as those of bitsandbytes:
 *
 * - codes (`weight` of bitsandbytes): two elements in a byte, the first in the upper half, in blocks of 64 elements;
 * the last block is padded with zeros (code 7);
 *
 * - largest (`absmax`): a byte for each block, its largest magnitude minus `offset`, as a code of the signed dynamic
 * map (base/dynamic_map.h);
 *
 * - scales (`nested_absmax`): an fp32 number for each 256 blocks;
 *
 * - offset (`nested_offset`): an fp32 number, the mean of the largest magnitudes.
 *
 * An element is number(code) * (dynamic number * scale + offset), each product and the sum rounded to fp32. Codes,
 * `largest` and scales begin at multiples of 64 bytes; the offset follows the scales. */
#ifndef TRI_DEVICE_NF4_H
#define TRI_DEVICE_NF4_H

#include "base/count.h"

/* Elements of a block, bytes of its codes, and blocks that share a scale. */
enum { TRI_NF4_BLOCK = 64, TRI_NF4_BLOCK_BYTES = 32, TRI_NF4_GROUP = 256, TRI_NF4_SUMS = 256 };

typedef struct tri_nf4_layout {
  int64_t blocks;
  size_t largest, scales, offset; /* begin of each part, in bytes; the codes begin at 0 */
  size_t bytes;                   /* of all parts */
} tri_nf4_layout;

/* The layout of `count` elements. */
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

/* The mean of the largest magnitudes in double, from 256 sums that are then added in a tree: in this order on every
 * device. Not finite if a magnitude is not. */
static inline float tri_nf4_mean(int64_t blocks, const float *largest) {
  double sums[TRI_NF4_SUMS] = {0};
  for (int64_t b = 0; b < blocks; b++) sums[b % TRI_NF4_SUMS] += (double)largest[b];
  for (int half = TRI_NF4_SUMS / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return (float)(sums[0] / (double)blocks);
}

#endif
