/* What the CPU kernels are written with: the compiler's vector types, one register wide.
 *
 * The files of this folder are compiled once for each vector unit (cmake/cpu_kernels.cmake), with TRI_VECTOR_BYTES the
 * width of its registers and TRI_ISA its name. Nothing here names an instruction: the same lines become SSE2, AVX2,
 * AVX-512 or NEON. */
#ifndef TRI_DEVICE_CPU_KERNELS_VECTOR_H
#define TRI_DEVICE_CPU_KERNELS_VECTOR_H

#include "device/dtype.h"

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { LANES = TRI_VECTOR_BYTES / 4 };

typedef float vf __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef uint32_t vu __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef uint16_t vh __attribute__((vector_size(TRI_VECTOR_BYTES / 2)));
/* The same in memory, of any alignment. */
typedef float vf_memory __attribute__((vector_size(TRI_VECTOR_BYTES), aligned(4), may_alias));
typedef uint16_t vh_memory __attribute__((vector_size(TRI_VECTOR_BYTES / 2), aligned(2), may_alias));

/* ---- load and store, fp32 or bf16: `type` is a constant wherever these are called ------------------------------- */

INLINE vf vf_splat(float x) { return x - (vf){0}; }

INLINE vf vf_from_bf16(vh x) { return (vf)(__builtin_convertvector(x, vu) << 16); }

/* To nearest even; a NaN stays one. */
INLINE vh vf_to_bf16(vf x) {
  vu bits = (vu)x;
  vu rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  vu nan = (bits >> 16) | 0x40u;
  vu is_nan = (vu)(x != x);
  return __builtin_convertvector((nan & is_nan) | (rounded & ~is_nan), vh);
}

INLINE vf vf_load(tri_dtype type, const void *array, int64_t i) {
  if (type == TRI_BF16) return vf_from_bf16(*(const vh_memory *)((const uint16_t *)array + i));
  return *(const vf_memory *)((const float *)array + i);
}

INLINE void vf_store(tri_dtype type, void *array, int64_t i, vf x) {
  if (type == TRI_BF16) {
    *(vh_memory *)((uint16_t *)array + i) = vf_to_bf16(x);
  } else {
    *(vf_memory *)((float *)array + i) = x;
  }
}

/* The first `count` < LANES elements; the lanes beyond them are `fill`. */
INLINE vf vf_load_some(tri_dtype type, const void *array, int64_t i, int64_t count, float fill) {
  float lanes[LANES];
  for (int64_t l = 0; l < LANES; l++) lanes[l] = fill;
  if (type == TRI_BF16) {
    for (int64_t l = 0; l < count; l++) {
      uint32_t bits = (uint32_t)((const uint16_t *)array)[i + l] << 16;
      memcpy(&lanes[l], &bits, sizeof bits);
    }
  } else {
    memcpy(lanes, (const float *)array + i, (size_t)count * sizeof(float));
  }
  vf x;
  memcpy(&x, lanes, sizeof x);
  return x;
}

INLINE void vf_store_some(tri_dtype type, void *array, int64_t i, int64_t count, vf x) {
  if (type == TRI_BF16) {
    vh narrow = vf_to_bf16(x);
    memcpy((uint16_t *)array + i, &narrow, (size_t)count * sizeof(uint16_t));
  } else {
    memcpy((float *)array + i, &x, (size_t)count * sizeof(float));
  }
}

/* One loop over elements first .. end - 1: BODY(i, count) with count == LANES, and once with the rest. The helpers
 * below take the count and choose; where it is the constant LANES the choice vanishes. */
INLINE vf vf_get(tri_dtype type, const void *array, int64_t i, int64_t count) {
  return count == LANES ? vf_load(type, array, i) : vf_load_some(type, array, i, count, 0.0f);
}

INLINE void vf_put(tri_dtype type, void *array, int64_t i, int64_t count, vf x) {
  if (count == LANES) {
    vf_store(type, array, i, x);
  } else {
    vf_store_some(type, array, i, count, x);
  }
}

#define FOR_VECTORS(i, count, first, end, ...)                                                                         \
  do {                                                                                                                 \
    int64_t i = (first);                                                                                               \
    for (; i + LANES <= (end); i += LANES) {                                                                           \
      enum { count = LANES };                                                                                          \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
    if (i < (end)) {                                                                                                   \
      const int64_t count = (end)-i;                                                                                   \
      __VA_ARGS__                                                                                                      \
    }                                                                                                                  \
  } while (0)

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

INLINE vf vf_select(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }

INLINE float vf_sum(vf x) {
  float lanes[LANES];
  memcpy(lanes, &x, sizeof lanes);
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

INLINE double vf_sum_double(vf x) {
  float lanes[LANES];
  memcpy(lanes, &x, sizeof lanes);
  double sum = 0;
  for (int l = 0; l < LANES; l++) sum += (double)lanes[l];
  return sum;
}

INLINE float vf_highest(vf x) {
  float lanes[LANES];
  memcpy(lanes, &x, sizeof lanes);
  for (int l = 1; l < LANES; l++) lanes[0] = lanes[l] > lanes[0] ? lanes[l] : lanes[0];
  return lanes[0];
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* exp(x) within 2e-7 relative (the polynomial of Cephes' expf on |r| <= ln 2 / 2). Below -87.3 it is 0, above 88.3 it
 * stays at exp(88.3); NaN stays NaN. */
INLINE vf vf_exp(vf x) {
  const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
  vf bounded = vf_select(x > 88.3f, vf_splat(88.3f), x);
  vi tiny = bounded < -87.3f;
  bounded = vf_select(tiny, vf_splat(-87.3f), bounded);
  vf shifted = bounded * 1.44269504088896341f + magic;
  vf n = shifted - magic;
  vf r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
  vf p = 1.9875691500e-4f + (vf){0};
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  vf result = (vf)((vi)p + (((vi)shifted) << 23));
  return (vf)(~tiny & (vi)result);
}

/* 1 / (1 + exp(-x)) */
INLINE vf vf_sigmoid(vf x) { return 1.0f / (1.0f + vf_exp(-x)); }

/* The normal distribution function, erfc(-x / sqrt 2) / 2, within a few 1e-7 of its own size on both sides (the
 * rational Chebyshev fit of erfc in Numerical Recipes, section 6.2). */
INLINE vf vf_normal_cdf(vf x) {
  vf z = (vf)((vi)x & 0x7fffffff) * 0.70710678118654752f;
  vf t = 1.0f / (1.0f + 0.5f * z);
  vf p = 0.17087277f + (vf){0};
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  vf upper = 0.5f * t * vf_exp(p - z * z); /* erfc(z) / 2 */
  return vf_select(x < 0.0f, upper, 1.0f - upper);
}

#endif
