/* Matrices of weights in blocks of 32 numbers with one scale, in 8 or 4 bits: GGUF's types Q8_0 and Q4_0, with the
 * codes and scales of ggml's reference functions (quantize_row_*_ref). Generation and evaluation read them; they are
 * not trained.
 *
 * A number is code * scale, where the scale is fp16, so that the product is exact in fp32. A block has 32 consecutive
 * inputs of one output. Codes are from -127 to 127 in Q8_0 (scale: the largest magnitude / 127), and from -8 to 7 in
 * Q4_0, where the number with the largest magnitude has the code -8.
 *
 * In memory, outputs are in panels of 16. A panel has, for each block of inputs, 16 scales, and then the codes, for one
 * input after the other: a byte for each output in Q8_0. In Q4_0 a byte has the codes plus 8 of two inputs that are 16
 * apart, the first in the lower half. The last panel is padded with zeros. A matrix has as many bytes as in a GGUF file
 * if its number of outputs is a multiple of 16. */
#ifndef TRI_DEVICE_BLOCK_WEIGHTS_H
#define TRI_DEVICE_BLOCK_WEIGHTS_H

#include "base/count.h"
#include "base/half.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum tri_block_type {
  TRI_BLOCKS_Q8_0,
  TRI_BLOCKS_Q4_0,
} tri_block_type;

enum { TRI_BLOCK_INPUTS = 32, TRI_BLOCK_OUTPUTS = 16, TRI_BLOCK_SCALE_BYTES = 2 * TRI_BLOCK_OUTPUTS };

typedef struct tri_block_matrix {
  tri_block_type type;
  int64_t in, out; /* number of inputs, a multiple of 32, and of outputs */
} tri_block_matrix;

/* A part of a matrix: outputs [first_out, first_out + outputs), inputs [first_in, first_in + inputs). In an array of
 * its values, adjacent outputs are out_stride elements apart and adjacent inputs in_stride elements. */
typedef struct tri_block_part {
  int64_t first_out, outputs, first_in, inputs;
  int64_t out_stride, in_stride;
} tri_block_part;

/* A GEMM: c[rows, matrix.out] = a[rows, matrix.in] W^T + bias, with a matrix W in blocks. Rows of a are `lda` elements
 * apart, rows of c `ldc`. With groups, each has a matrix of its own, `stride` bytes after that of the group before it:
 * rows [begins[g], begins[g + 1]) belong to group g, as in tri_grouped_matmul, and there is no bias. */
typedef struct tri_block_product {
  tri_block_matrix matrix;
  int64_t rows, lda, ldc;
  int64_t groups, stride; /* groups 0: all rows have one matrix */
} tri_block_product;

/* Returns the bytes of the codes of one block of each output of a panel. */
static inline int64_t tri_block_code_bytes(tri_block_type type) {
  switch (type) {
    case TRI_BLOCKS_Q8_0: return (int64_t)TRI_BLOCK_INPUTS * TRI_BLOCK_OUTPUTS;
    case TRI_BLOCKS_Q4_0: break;
  }
  return (int64_t)TRI_BLOCK_INPUTS * TRI_BLOCK_OUTPUTS / 2;
}

/* Returns the bytes of one block of each output of a panel, with the scales. */
static inline int64_t tri_block_bytes(tri_block_type type) {
  return TRI_BLOCK_SCALE_BYTES + tri_block_code_bytes(type);
}

/* Returns the bytes of a panel of 16 outputs. */
static inline int64_t tri_block_panel_bytes(const tri_block_matrix *matrix) {
  return matrix->in / TRI_BLOCK_INPUTS * tri_block_bytes(matrix->type);
}

static inline int64_t tri_block_panels(const tri_block_matrix *matrix) {
  return tri_divide_up(matrix->out, TRI_BLOCK_OUTPUTS);
}

/* Returns the bytes of a matrix. */
static inline size_t tri_block_matrix_bytes(const tri_block_matrix *matrix) {
  return tri_bytes_times((size_t)tri_block_panels(matrix), (size_t)tri_block_panel_bytes(matrix));
}

/* Returns the number of elements of a strip of a matrix, for quantising it piece by piece: whole panels, or, if the
 * values are [in, out], whole blocks of inputs; as many as have about a million elements. */
static inline int64_t tri_block_strip(const tri_block_matrix *matrix, bool in_out) {
  enum { ABOUT = 1 << 20 };
  const int64_t width = in_out ? matrix->out : matrix->in, rows = in_out ? matrix->in : matrix->out;
  const int64_t unit = in_out ? TRI_BLOCK_INPUTS : TRI_BLOCK_OUTPUTS;
  if (width == 0) return 0;
  const int64_t most = tri_larger(ABOUT / width / unit * unit, unit);
  return tri_smaller(most, tri_round_up(rows, unit)) * width;
}

/* ---- one block ----------------------------------------------------------------------------------------------------
 */

/* Returns a number if its magnitude is below 128, which the inverse of the smallest scales, infinity, can exceed; else
 * 0. */
static inline float tri_block_bounded(float number) { return fabsf(number) < 128.0f ? number : 0.0f; }

/* Returns a number of a magnitude below 127.5 rounded to an integer, halves away from zero, as roundf does. */
static inline int8_t tri_block_round(float number) {
  const float bounded = tri_block_bounded(number);
  const int32_t whole = (int32_t)bounded;
  const float rest = bounded - (float)whole;
  return (int8_t)(whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0));
}

/* Returns the code of a value in Q4_0, from -8 to 7. */
static inline int8_t tri_block_code_of_4_bits(float value, float inverse) {
  const int32_t code = (int32_t)tri_block_bounded(value * inverse + 8.5f);
  return (int8_t)((code < 15 ? code : 15) - 8);
}

/* Returns the number of the largest magnitude; of several, the first. The loop over the bits of magnitudes, in which
 * larger numbers are larger integers, uses vectors. */
static inline float tri_block_largest(const float in[TRI_BLOCK_INPUTS]) {
  int32_t largest = 0, first = 0;
  for (int i = 0; i < TRI_BLOCK_INPUTS; i++) {
    int32_t bits;
    memcpy(&bits, &in[i], sizeof bits);
    bits &= INT32_MAX;
    largest = bits > largest ? bits : largest;
  }
  float magnitude;
  memcpy(&magnitude, &largest, sizeof magnitude);
  while (first < TRI_BLOCK_INPUTS - 1 && fabsf(in[first]) != magnitude) first++;
  return largest == 0 ? 0.0f : in[first]; /* not -0 */
}

/* Computes the codes of 32 numbers, which must be finite, and returns their scale in fp16. Compile without contraction
 * (-ffp-contract=off): a fused multiply-add would change codes of Q4_0. */
static inline uint16_t tri_block_encode(tri_block_type type, const float in[TRI_BLOCK_INPUTS],
                                        int8_t codes[TRI_BLOCK_INPUTS]) {
  const float largest = tri_block_largest(in);
  switch (type) {
    case TRI_BLOCKS_Q8_0: {
      const float scale = fabsf(largest) / 127.0f, inverse = scale != 0 ? 1.0f / scale : 0.0f;
      for (int i = 0; i < TRI_BLOCK_INPUTS; i++) codes[i] = tri_block_round(in[i] * inverse);
      return tri_f16_of(scale);
    }
    case TRI_BLOCKS_Q4_0: break;
  }
  const float scale = largest / -8.0f, inverse = scale != 0 ? 1.0f / scale : 0.0f;
  for (int i = 0; i < TRI_BLOCK_INPUTS; i++) codes[i] = tri_block_code_of_4_bits(in[i], inverse);
  return tri_f16_of(scale);
}

/* Stores a block: block number `block` of output number `output`. */
static inline void tri_block_put(const tri_block_matrix *matrix, int64_t output, int64_t block, uint16_t scale,
                                 const int8_t codes[TRI_BLOCK_INPUTS], uint8_t *kept) {
  const int64_t lane = output % TRI_BLOCK_OUTPUTS;
  uint8_t *at =
      kept + output / TRI_BLOCK_OUTPUTS * tri_block_panel_bytes(matrix) + block * tri_block_bytes(matrix->type);
  memcpy(at + 2 * lane, &scale, sizeof scale);
  at += TRI_BLOCK_SCALE_BYTES + lane;
  switch (matrix->type) {
    case TRI_BLOCKS_Q8_0:
      for (int i = 0; i < TRI_BLOCK_INPUTS; i++) at[i * TRI_BLOCK_OUTPUTS] = (uint8_t)codes[i];
      break;
    case TRI_BLOCKS_Q4_0:
      for (int i = 0; i < TRI_BLOCK_INPUTS / 2; i++)
        at[i * TRI_BLOCK_OUTPUTS] = (uint8_t)((codes[i] + 8) | (codes[i + TRI_BLOCK_INPUTS / 2] + 8) << 4);
      break;
  }
}

/* Decodes a block to out[32]. */
static inline void tri_block_get(const tri_block_matrix *matrix, int64_t output, int64_t block, const uint8_t *kept,
                                 float out[TRI_BLOCK_INPUTS]) {
  const int64_t lane = output % TRI_BLOCK_OUTPUTS;
  const uint8_t *at =
      kept + output / TRI_BLOCK_OUTPUTS * tri_block_panel_bytes(matrix) + block * tri_block_bytes(matrix->type);
  uint16_t bits;
  memcpy(&bits, at + 2 * lane, sizeof bits);
  const float scale = tri_float_of_f16(bits);
  at += TRI_BLOCK_SCALE_BYTES + lane;
  switch (matrix->type) {
    case TRI_BLOCKS_Q8_0:
      for (int i = 0; i < TRI_BLOCK_INPUTS; i++) out[i] = (float)(int8_t)at[i * TRI_BLOCK_OUTPUTS] * scale;
      break;
    case TRI_BLOCKS_Q4_0:
      for (int i = 0; i < TRI_BLOCK_INPUTS / 2; i++) {
        out[i] = (float)((at[i * TRI_BLOCK_OUTPUTS] & 15) - 8) * scale;
        out[i + TRI_BLOCK_INPUTS / 2] = (float)((at[i * TRI_BLOCK_OUTPUTS] >> 4) - 8) * scale;
      }
      break;
  }
}

#endif
