/* The 4-bit numbers of QLoRA (Dettmers et al. 2023), NF4, with bitsandbytes' values: for host and GPU kernels, with the
 * same bits.
 *
 * The codes 0 .. 15 are numbers in ascending order, -1 and 0 (code 7) and 1 among them: quantiles of the normal
 * distribution, to the digits that bitsandbytes publishes. */
#ifndef TRI_BASE_NF4_H
#define TRI_BASE_NF4_H

#include "base/host_and_gpu.h"

#include <stdint.h>

/* Bits of the offset and of all scales if a value is not finite. */
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
 * `from` of the block on, beginning with element `local` of the cut. count 0: it repeats a block of its row. */
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

/* Returns the middle between a code (at most 14) and the next. Numbers above it round to the next code; a number that
 * equals it does not. */
TRI_HOST_AND_GPU float tri_nf4_middle(int32_t code) { return (tri_nf4_number(code) + tri_nf4_number(code + 1)) * 0.5f; }

/* Returns the factor of a block's elements, from its largest magnitude; a block of zeros stays zero. */
TRI_HOST_AND_GPU float tri_nf4_inverse(float largest) {
  return largest >= 1e-38f ? (float)(1.0 / (double)largest) : 1e38f;
}

#endif
