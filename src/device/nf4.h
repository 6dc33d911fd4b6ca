/* The 4-bit numbers of QLoRA (Dettmers et al. 2023), NF4, with bitsandbytes' values: for host and GPU kernels, with the
 * same bits.
 *
 * The codes 0 .. 15 are numbers in ascending order, -1 and 0 (code 7) and 1 among them: quantiles of the normal
 * distribution, to the digits that bitsandbytes publishes.
 *
 * The layout of weights in 4 bits (kernels.def, quantise_nf4) is QLoRA's NF4 with double quantisation. Its parts have
 * the same bytes as those of bitsandbytes:
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

#include "base/host_and_gpu.h"

#if !defined(TRI_ON_GPU)
#include "base/count.h"
#endif

#include <stdint.h>

/* Bit pattern (NaN) of the offset and of all scales if a value is not finite. */
#define TRI_NF4_NOT_A_NUMBER 0x7fc00000u

enum { TRI_NF4_CODES = 16, TRI_NF4_ZERO = 7, TRI_NF4_BLOCK_ELEMENTS = 64 };

/* The part of a quantised matrix on a rank: rows of `width` elements, each contiguous in the whole matrix. Row r begins
 * at element first + r * pitch of the whole, plus `extra` for each group of `every` rows that ends before it, where the
 * first group lacks `phase` rows; every 0: no extra. For each row the blocks of the whole that it touches are kept, at
 * most `row_blocks`. */
typedef struct tri_nf4_cut {
  int64_t total; /* elements of the whole */
  int64_t rows, width, first, pitch;
  int64_t every, phase, extra;
  int64_t row_blocks;
} tri_nf4_cut;

/* A kept block of a cut: its number in the whole, and the elements that belong to the cut: `count` elements from index
 * `from` of the block on, beginning with element `local` of the cut. count 0: the row has fewer than row_blocks blocks,
 * and this span repeats one of them. */
typedef struct tri_nf4_span {
  int64_t whole, from, count, local;
} tri_nf4_span;

TRI_HOST_AND_GPU int64_t tri_nf4_quotient(int64_t a, int64_t b) {
  if (((uint64_t)a | (uint64_t)b) >> 32 == 0) return (int64_t)((uint32_t)a / (uint32_t)b);
  return a / b;
}

TRI_HOST_AND_GPU int64_t tri_nf4_row_begin(tri_nf4_cut cut, int64_t row) {
  const int64_t begin = cut.first + row * cut.pitch;
  return cut.every == 0 ? begin : begin + tri_nf4_quotient(cut.phase + row, cut.every) * cut.extra;
}

TRI_HOST_AND_GPU tri_nf4_span tri_nf4_span_of(tri_nf4_cut cut, int64_t block) {
  const int64_t row = cut.rows == 1 ? 0 : tri_nf4_quotient(block, cut.row_blocks);
  const int64_t begin = tri_nf4_row_begin(cut, row), end = begin + cut.width;
  const int64_t whole = begin / TRI_NF4_BLOCK_ELEMENTS + block - row * cut.row_blocks;
  const int64_t last = (end - 1) / TRI_NF4_BLOCK_ELEMENTS, at = whole * TRI_NF4_BLOCK_ELEMENTS;
  const int64_t low = at > begin ? at : begin;
  const int64_t high = at + TRI_NF4_BLOCK_ELEMENTS < end ? at + TRI_NF4_BLOCK_ELEMENTS : end;
  tri_nf4_span span;
  span.whole = whole < last ? whole : last;
  span.from = low - at;
  span.count = high > low ? high - low : 0;
  span.local = row * cut.width + low - begin;
  return span;
}

TRI_HOST_AND_GPU float tri_nf4_number(int32_t code) {
  const float numbers[TRI_NF4_CODES] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return numbers[code];
}

/* Returns the middle between the numbers of a code (at most 14) and of the next code. A number above the middle rounds
 * to the next code; a number that equals the middle does not. */
TRI_HOST_AND_GPU float tri_nf4_middle(int32_t code) { return (tri_nf4_number(code) + tri_nf4_number(code + 1)) * 0.5f; }

/* Returns the factor of a block's elements, from its largest magnitude; a block of zeros stays zero. */
TRI_HOST_AND_GPU float tri_nf4_inverse(float largest) {
  return largest >= 1e-38f ? (float)(1.0 / (double)largest) : 1e38f;
}

/* ---- layout (host only) ------------------------------------------------------------------------------------------ */

#if !defined(TRI_ON_GPU)

/* Elements of a block, bytes of its codes, blocks that share a scale, and partial sums of tri_nf4_mean. */
enum { TRI_NF4_BLOCK = TRI_NF4_BLOCK_ELEMENTS, TRI_NF4_BLOCK_BYTES = 32, TRI_NF4_GROUP = 256, TRI_NF4_SUMS = 256 };

typedef struct tri_nf4_layout {
  int64_t blocks;                 /* number of blocks */
  size_t largest, scales, offset; /* offsets of these parts, in bytes; the codes begin at 0 */
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

/* Scratch memory for quantising a matrix and keeping a cut of it: the matrix's values from byte 0 on, then codes of the
 * whole, then codes of the cut. The codes of the whole have size 0 here if they are written directly to their
 * destination: if the cut is the whole matrix and all of its bytes are kept. The codes of the cut have size 0 here if
 * the cut is the whole matrix (they are the codes of the whole), or if all of its bytes are kept (they are written
 * directly). */
typedef struct tri_nf4_scratch {
  size_t whole, whole_bytes, cut, cut_bytes; /* offsets and sizes in bytes of the codes of the whole and of the cut */
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

/* Returns the mean of the largest magnitudes, computed in double from 256 sums that are then added in a tree. Every
 * device adds in this order. The mean is not finite if a magnitude is not. */
static inline float tri_nf4_mean(int64_t blocks, const float *largest) {
  double sums[TRI_NF4_SUMS] = {0};
  for (int64_t b = 0; b < blocks; b++) sums[b % TRI_NF4_SUMS] += (double)largest[b];
  for (int half = TRI_NF4_SUMS / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; i++) sums[i] += sums[i + half];
  }
  return (float)(sums[0] / (double)blocks);
}

#endif

#endif
