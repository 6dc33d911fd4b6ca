/* The layout of weights in 4 bits (kernels.h, quantise_nf4): QLoRA's NF4 with double quantisation. Its parts have the
 * same bytes as those of bitsandbytes:
 *
 * - codes (`weight` of bitsandbytes): two elements in a byte, the first in the upper half, in blocks of 64 elements;
 *   the last block is padded with zeros (code 7);
 *
 * - largest (`absmax`): a byte for each block, its largest magnitude minus `offset`, as a code of the signed dynamic
 *   map (base/dynamic_map.h);
 *
 * - scales (`nested_absmax`): an fp32 number for each 256 blocks;
 *
 * - offset (`nested_offset`): an fp32 number, the mean of the largest magnitudes.
 *
 * An element is number(code) * (dynamic number * scale + offset), each product and the sum rounded to fp32. Codes,
 * `largest` and scales begin at multiples of 64 bytes; the offset follows the scales.
 *
 * A rank of `tensor` holds a cut of a matrix (tri_nf4_cut): codes and `largest` of the blocks that its elements are in,
 * as they are in the whole, and all scales of the whole. A cut through a block keeps the block on both sides, so that
 * elements have the same bits whatever the cut. */
#ifndef TRI_DEVICE_NF4_H
#define TRI_DEVICE_NF4_H

#include "base/count.h"
#include "base/nf4.h"

/* Elements of a block, bytes of its codes, and blocks that share a scale. */
enum { TRI_NF4_BLOCK = TRI_NF4_BLOCK_ELEMENTS, TRI_NF4_BLOCK_BYTES = 32, TRI_NF4_GROUP = 256, TRI_NF4_SUMS = 256 };

typedef struct tri_nf4_layout {
  int64_t blocks;
  size_t largest, scales, offset; /* offset of each part, in bytes; the codes begin at 0 */
  size_t bytes;                   /* bytes of all parts */
} tri_nf4_layout;

static inline int64_t tri_nf4_blocks_of(int64_t count) { return count / TRI_NF4_BLOCK + (count % TRI_NF4_BLOCK > 0); }

/* Returns the maximum number of blocks that a row of `width` elements touches, at any position. */
static inline int64_t tri_nf4_blocks_touched(int64_t width) {
  return width < 2 ? width : 2 + (width - 2) / TRI_NF4_BLOCK;
}

/* Returns the cut that is a whole matrix of `count` elements. */
static inline tri_nf4_cut tri_nf4_whole(int64_t count) {
  return (tri_nf4_cut){.total = count, .rows = 1, .width = count, .row_blocks = tri_nf4_blocks_of(count)};
}

static inline bool tri_nf4_is_whole(const tri_nf4_cut *cut) { return cut->rows == 1 && cut->width == cut->total; }

static inline int64_t tri_nf4_groups(const tri_nf4_cut *cut) {
  return (tri_nf4_blocks_of(cut->total) + TRI_NF4_GROUP - 1) / TRI_NF4_GROUP;
}

static inline tri_nf4_layout tri_nf4_layout_of_cut(const tri_nf4_cut *cut) {
  tri_nf4_layout l = {.blocks = cut->rows * cut->row_blocks};
  const size_t blocks = (size_t)l.blocks, groups = (size_t)tri_nf4_groups(cut);
  l.largest = tri_bytes_in_lines(tri_bytes_times(blocks, TRI_NF4_BLOCK_BYTES));
  l.scales = tri_bytes_plus(l.largest, tri_bytes_in_lines(blocks));
  l.offset = tri_bytes_plus(l.scales, tri_bytes_times(groups, sizeof(float)));
  l.bytes = tri_bytes_plus(l.offset, sizeof(float));
  return l;
}

/* Returns the layout of a whole matrix of `count` elements. */
static inline tri_nf4_layout tri_nf4_layout_of(int64_t count) {
  const tri_nf4_cut whole = tri_nf4_whole(count);
  return tri_nf4_layout_of_cut(&whole);
}

static inline size_t tri_nf4_bytes(int64_t count) { return tri_nf4_layout_of(count).bytes; }

/* Returns the bytes of scratch memory for `count` elements before they are quantised; codes may follow. */
static inline size_t tri_nf4_wide_bytes(int64_t count, size_t element_bytes) {
  return tri_bytes_in_lines(tri_bytes_times((size_t)count, element_bytes));
}

/* Scratch memory for quantising a matrix and keeping a cut of it: its values from byte 0 on, then codes of the whole,
 * then those of the cut. Codes are written to their destination directly (size 0 here) if the cut is the whole, or if
 * all of the cut's bytes are kept. */
typedef struct tri_nf4_scratch {
  size_t whole, whole_bytes, cut, cut_bytes; /* offsets and sizes */
  size_t bytes;
} tri_nf4_scratch;

static inline tri_nf4_scratch tri_nf4_scratch_of(const tri_nf4_cut *cut, size_t element_bytes, bool keeps_all) {
  const bool is_whole = tri_nf4_is_whole(cut);
  tri_nf4_scratch s = {.whole = tri_nf4_wide_bytes(cut->total, element_bytes)};
  if (!is_whole || !keeps_all) s.whole_bytes = tri_bytes_in_lines(tri_nf4_bytes(cut->total));
  s.cut = tri_bytes_plus(s.whole, s.whole_bytes);
  if (!is_whole && !keeps_all) s.cut_bytes = tri_nf4_layout_of_cut(cut).bytes;
  s.bytes = tri_bytes_plus(s.cut, s.cut_bytes);
  return s;
}

/* Returns the mean of the largest magnitudes in double, from 256 sums that are then added in a tree: in this order on
 * every device. Not finite if a magnitude is not. */
static inline float tri_nf4_mean(int64_t blocks, const float *largest) {
  double sums[TRI_NF4_SUMS] = {0};
  for (int64_t b = 0; b < blocks; b++) sums[b % TRI_NF4_SUMS] += (double)largest[b];
  for (int half = TRI_NF4_SUMS / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return (float)(sums[0] / (double)blocks);
}

#endif
