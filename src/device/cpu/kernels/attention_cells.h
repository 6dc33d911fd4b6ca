/* Helpers of the attention kernels in addition to vector.h: the cell, functions of vectors, and rows of tensors.
 *
 * A *cell* is the unit of depth of a GEMM. Without TRI_PAIRS it is one float. With TRI_PAIRS it is two adjacent bf16
 * numbers in 32 bits, and one instruction multiplies cells pairwise and adds both products to a float. Packed tiles,
 * strides and depths are counted in cells, so that the same loops serve both.
 *
 * Only the attention_*.c that define TRI_PAIRS include this file. */
#ifndef TRI_DEVICE_CPU_KERNELS_ATTENTION_CELLS_H
#define TRI_DEVICE_CPU_KERNELS_ATTENTION_CELLS_H

#include "device/cpu/attention.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define TILE TRI_ATTENTION_TILE
#define LOG2_E 1.44269504088896340736

#if TRI_PAIRS
enum { CELL_ELEMENTS = 2 };
typedef uint32_t cell;
#else
enum { CELL_ELEMENTS = 1 };
typedef float cell;
#endif

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
INLINE int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
/* Returns the width of a packed row of `width` numbers: whole vectors. */
INLINE int64_t padded(int64_t width) { return divide_up(width, LANES) * LANES; }
INLINE int64_t cells(int64_t elements) { return divide_up(elements, CELL_ELEMENTS); }

/* Returns the mask of lanes [begin, end). */
INLINE vi lanes_between(int64_t begin, int64_t end) {
  vi lane;
  for (int i = 0; i < LANES; i++) lane[i] = i;
  return (lane >= (int32_t)begin) & (lane < (int32_t)end);
}

/* Returns the highest lane, compared by halves. Unlike with vf_highest, the result may be a number even if lanes are
 * NaN. */
INLINE float vf_highest_by_halves(vf x) {
  float lane[LANES];
  memcpy(lane, &x, sizeof lane);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) lane[i] = lane[i] > lane[i + half] ? lane[i] : lane[i + half];
  return lane[0];
}

/* Returns 2^x for x below 126: 0 below -126.5, otherwise within 2 units of the last place; NaN stays NaN. Adding a
 * large constant rounds x to an integer and leaves it, biased as an exponent, in the low bits; 2^fraction is the
 * polynomial of degree 5 with the smallest maximum relative error (9.2e-8) among those exact at 0. */
INLINE vf vf_exp2(vf x) {
  x = vf_select(x < -127.0f, vf_splat(-127.0f), x);
  vf shifted = x + 12583039.0f; /* 1.5 * 2^23 + 127 */
  vf fraction = x - (shifted - 12583039.0f);
  vf power = (vf)((vi)shifted << 23);
  vf y = vf_splat(0.00132647287f);
  y = y * fraction + 0.00967151318f;
  y = y * fraction + 0.0555073374f;
  y = y * fraction + 0.240222421f;
  y = y * fraction + 0.693146978f;
  y = y * fraction + 1.0f;
  return y * power;
}

/* Returns tanh, accurate for small x too, by other steps than vf_tanh: e / (e + 2) with e = exp(2 |x|) - 1. As in
 * vf_exp2, 2^z = 2^n 2^f, so that e = 2^n (2^f - 1) + (2^n - 1); 2^f - 1 is f times the polynomial of degree 5 with
 * the smallest maximum relative error (1.1e-8). NaN stays NaN. */
INLINE vf vf_tanh_by_exp2(vf x) {
  const vi sign = (vi)x & INT32_MIN;
  vf z = (vf)((vi)x & INT32_MAX) * (float)(2 * LOG2_E);
  z = vf_select(z > 60.0f, vf_splat(60.0f), z);
  vf shifted = z + 12583039.0f;
  vf fraction = z - (shifted - 12583039.0f);
  vf power = (vf)((vi)shifted << 23);
  vf y = vf_splat(0.00015403508f);
  y = y * fraction + 0.0013390735f;
  y = y * fraction + 0.009618238f;
  y = y * fraction + 0.055503573f;
  y = y * fraction + 0.24022649f;
  y = y * fraction + 0.6931472f;
  vf e = power * (y * fraction) + (power - 1.0f);
  return (vf)((vi)(e / (e + 2.0f)) | sign);
}

/* ---- elements of tensors ----------------------------------------------------------------------------------------- */

INLINE float from_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float y;
  memcpy(&y, &bits, sizeof y);
  return y;
}

/* Returns the nearest bf16 number; ties are rounded to even, and NaN stays NaN. */
INLINE uint16_t to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x == x ? rounded : (bits >> 16 | 0x40));
}

INLINE const void *element(const void *base, tri_dtype type, int64_t index) {
  return (const char *)base + index * (int64_t)tri_dtype_bytes(type);
}

INLINE void *element_to_write(void *base, tri_dtype type, int64_t index) {
  return (char *)base + index * (int64_t)tri_dtype_bytes(type);
}

/* Rows of a head are far apart, so the processor cannot predict the next one: rows are prefetched this far ahead. A
 * prefetch does not read, so an address beyond the array is harmless. */
enum { AHEAD = 8, LINE_BYTES = 64 };

INLINE void fetch(const void *base, tri_dtype type, int64_t index, int64_t count) {
  const uintptr_t first = (uintptr_t)base + (uintptr_t)(index * (int64_t)tri_dtype_bytes(type));
  for (uintptr_t at = 0; at < (uintptr_t)count * tri_dtype_bytes(type); at += LINE_BYTES)
    __builtin_prefetch((const void *)(first + at), 0);
}

INLINE void fetch_to_write(const void *base, tri_dtype type, int64_t index, int64_t count) {
  const uintptr_t first = (uintptr_t)base + (uintptr_t)(index * (int64_t)tri_dtype_bytes(type));
  for (uintptr_t at = 0; at < (uintptr_t)count * tri_dtype_bytes(type); at += LINE_BYTES)
    __builtin_prefetch((const void *)(first + at), 1);
}

INLINE void row_read(float *to, tri_dtype type, const void *from, int64_t count) {
  const uint16_t *narrow = from;
  switch (type) {
    case TRI_FP32: memcpy(to, from, (size_t)count * sizeof *to); break;
    case TRI_BF16:
      for (int64_t i = 0; i < count; i++) to[i] = from_bf16(narrow[i]);
      break;
    case TRI_FP64:
    case TRI_INT32: break; /* tri_device_supports excludes these types */
  }
}

/* Computes to[count] += from[count]; `from` is of `type`. */
INLINE void row_add(float *to, tri_dtype type, const void *from, int64_t count) {
  const float *wide = from;
  const uint16_t *narrow = from;
  switch (type) {
    case TRI_FP32:
      for (int64_t i = 0; i < count; i++) to[i] += wide[i];
      break;
    case TRI_BF16:
      for (int64_t i = 0; i < count; i++) to[i] += from_bf16(narrow[i]);
      break;
    case TRI_FP64:
    case TRI_INT32: break;
  }
}

/* Computes to[count] = from[count] * factor; `to` is of `type`. */
INLINE void row_write(void *to, tri_dtype type, const float *from, float factor, int64_t count) {
  float *wide = to;
  uint16_t *narrow = to;
  switch (type) {
    case TRI_FP32:
      for (int64_t i = 0; i < count; i++) wide[i] = from[i] * factor;
      break;
    case TRI_BF16:
      for (int64_t i = 0; i < count; i++) narrow[i] = to_bf16(from[i] * factor);
      break;
    case TRI_FP64:
    case TRI_INT32: break;
  }
}

#endif
