/* The vector language of the CPU kernels: the compiler's vector types, one register wide.
 *
 * The files of this folder are compiled once for each vector unit (cmake/cpu_kernels.cmake), with TRI_VECTOR_BYTES the
 * width of its registers and TRI_ISA its name. The same lines become SSE2, AVX2, AVX-512 or NEON. An intrinsic is used
 * only if GCC does not find the single instruction for a whole helper; the plain form of the same meaning is next to
 * it. */
#ifndef TRI_DEVICE_CPU_KERNELS_VECTOR_H
#define TRI_DEVICE_CPU_KERNELS_VECTOR_H

#include "device/dtype.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Unrolls the next loop completely, so that an array of vectors which it indexes stays in registers. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = TRI_VECTOR_BYTES / 4 };

typedef float vf __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef int32_t vi __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef uint32_t vu __attribute__((vector_size(TRI_VECTOR_BYTES)));
typedef uint16_t vh __attribute__((vector_size(TRI_VECTOR_BYTES / 2)));
/* The vector types in memory of any alignment. */
typedef float vf_memory __attribute__((vector_size(TRI_VECTOR_BYTES), aligned(4), may_alias));
typedef uint16_t vh_memory __attribute__((vector_size(TRI_VECTOR_BYTES / 2), aligned(2), may_alias));

/* ---- load and store, fp32 or bf16: `type` is a constant wherever these are called -------------------------------- */

INLINE vf vf_splat(float x) { return x - (vf){0}; }

/* Returns a b + c, rounded once if the vector unit can do that. The function is explicit, since a compiler's choice to
 * contract a product and a sum depends on the surrounding code, and the bits of a result must not depend on it. */
INLINE vf vf_fma(vf a, vf b, vf c) {
#if defined(__AVX512F__)
  return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

INLINE vf vf_from_bf16(vh x) {
#if defined(__AVX512F__)
  vu bits = (vu)_mm512_cvtepu16_epi32((__m256i)x);
#elif defined(__AVX2__)
  vu bits = (vu)_mm256_cvtepu16_epi32((__m128i)x);
#else
  vu bits = __builtin_convertvector(x, vu);
#endif
  return (vf)(bits << 16);
}

/* Returns the nearest bf16 numbers; ties are rounded to even, and NaN stays NaN. */
INLINE vh vf_to_bf16_exactly(vf x) {
  vu bits = (vu)x;
  vu rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
#if defined(__AVX512F__)
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
  rounded = (vu)_mm512_mask_or_epi32((__m512i)rounded, nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
  return (vh)_mm512_cvtepi32_epi16((__m512i)(rounded >> 16));
#else
  vu nan = (vu)(x != x);
  return __builtin_convertvector((((bits | 0x400000u) & nan) | (rounded & ~nan)) >> 16, vh);
#endif
}

/* Returns x rounded to bf16. AVX512-BF16 flushes numbers below 2^-126 to 0, as its products do with their factors. */
INLINE vh vf_to_bf16(vf x) {
#if defined(__AVX512BF16__)
  return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
  return vf_to_bf16_exactly(x);
#endif
}

INLINE vf vf_load(tri_dtype type, const void *array, int64_t i) {
  switch (type) {
    case TRI_BF16: return vf_from_bf16(*(const vh_memory *)((const uint16_t *)array + i));
    case TRI_FP32: return *(const vf_memory *)((const float *)array + i);
    case TRI_FP64:
    case TRI_INT32: break; /* tri_device_supports excludes these types */
  }
  return (vf){0};
}

INLINE void vf_store(tri_dtype type, void *array, int64_t i, vf x) {
  switch (type) {
    case TRI_BF16: *(vh_memory *)((uint16_t *)array + i) = vf_to_bf16(x); break;
    case TRI_FP32: *(vf_memory *)((float *)array + i) = x; break;
    case TRI_FP64:
    case TRI_INT32: break;
  }
}

/* Loads the first `count` < LANES elements; the other lanes are `fill`. */
INLINE vf vf_load_some(tri_dtype type, const void *array, int64_t i, int64_t count, float fill) {
  if (count >= LANES) __builtin_unreachable(); /* else GCC warns about copies that are never executed */
  float lanes[LANES];
  for (int64_t l = 0; l < LANES; l++) lanes[l] = fill;
  switch (type) {
    case TRI_BF16:
      for (int64_t l = 0; l < count; l++) {
        uint32_t bits = (uint32_t)((const uint16_t *)array)[i + l] << 16;
        memcpy(&lanes[l], &bits, sizeof bits);
      }
      break;
    case TRI_FP32: memcpy(lanes, (const float *)array + i, (size_t)count * sizeof(float)); break;
    case TRI_FP64:
    case TRI_INT32: break;
  }
  vf x;
  memcpy(&x, lanes, sizeof x);
  return x;
}

INLINE void vf_store_some(tri_dtype type, void *array, int64_t i, int64_t count, vf x) {
  if (count >= LANES) __builtin_unreachable();
  switch (type) {
    case TRI_BF16: {
      vh narrow = vf_to_bf16(x);
      memcpy((uint16_t *)array + i, &narrow, (size_t)count * sizeof(uint16_t));
      break;
    }
    case TRI_FP32: memcpy((float *)array + i, &x, (size_t)count * sizeof(float)); break;
    case TRI_FP64:
    case TRI_INT32: break;
  }
}

/* Load and store `count` elements, at most LANES; if the count is the constant LANES, the branch is removed. Lanes
 * beyond the count are loaded as 0, and not stored. */
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

/* Loops over the elements first .. end - 1: the body is executed with count == LANES, a constant, and once with the
 * rest. */
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

/* Returns the maximum of each lane; b's lane if either is NaN. */
INLINE vf vf_max(vf a, vf b) {
#if defined(__AVX512F__)
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__SSE__)
  return (vf)_mm_max_ps((__m128)a, (__m128)b);
#else
  return vf_select(a > b, a, b);
#endif
}

INLINE vf vf_min(vf a, vf b) {
#if defined(__AVX512F__)
  return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (vf)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE__)
  return (vf)_mm_min_ps((__m128)a, (__m128)b);
#else
  return vf_select(a < b, a, b);
#endif
}

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

INLINE vf vf_root(vf x) {
  vf y;
  for (int l = 0; l < LANES; l++) y[l] = __builtin_sqrtf(x[l]);
  return y;
}

INLINE vi vi_max(vi a, vi b) {
#if defined(__AVX512F__)
  return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
  const vi more = a > b;
  return (a & more) | (b & ~more);
#endif
}

INLINE vi vi_min(vi a, vi b) {
#if defined(__AVX512F__)
  return (vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
  return (vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
  const vi less = a < b;
  return (a & less) | (b & ~less);
#endif
}

/* Returns x with its lanes exchanged: lane l of the result is lane l ^ by of x. `by` is a constant power of two below
 * LANES. */
INLINE vi vi_swap(vi x, int by) {
#if TRI_VECTOR_BYTES == 64
  if (by == 8) return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  if (by == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  if (by == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#elif TRI_VECTOR_BYTES == 32
  if (by == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  if (by == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#else
  if (by == 2) return __builtin_shufflevector(x, x, 2, 3, 0, 1);
  return __builtin_shufflevector(x, x, 1, 0, 3, 2);
#endif
}

INLINE int32_t vi_highest(vi x) {
  for (int by = LANES / 2; by > 0; by /= 2) x = vi_max(x, vi_swap(x, by));
  return x[0];
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

/* Returns exp(x) within 2e-7 relative (the polynomial of Cephes' expf on |r| <= ln 2 / 2). Below -87.3 it is 0, above
 * 88.3 it stays at exp(88.3); NaN stays NaN. */
INLINE vf vf_exp(vf x) {
  /* Adding 1.5 * 2^23 rounds to an integer; with another 127, the lowest bits are the exponent field of 2^n. */
  const float magic = 12582912.0f + 127.0f;
  vf bounded = vf_min(vf_splat(88.3f), vf_max(vf_splat(-87.3f), x));
  vf shifted = bounded * 1.44269504088896341f + magic;
  vf power = (vf)((vi)shifted << 23);
  vf n = shifted - magic;
  vf r = bounded - n * 0.693359375f + n * 2.12194440e-4f;
  vf p = 1.9875691500e-4f + (vf){0};
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  return (vf)(~(x < -87.3f) & (vi)(p * power));
}

/* Return 1 / (1 + exp(-x)), given -x or x. */
INLINE vf vf_sigmoid_of_minus(vf minus_x) { return 1.0f / (1.0f + vf_exp(minus_x)); }
INLINE vf vf_sigmoid(vf x) { return vf_sigmoid_of_minus(-x); }

/* Returns tanh(x) within a relative error of 3e-7: near 0 Cephes' polynomial of tanhf, elsewhere 1 - 2 / (exp(2 |x|) +
 * 1). NaN stays NaN. */
INLINE vf vf_tanh(vf x) {
  const vf size = (vf)((vi)x & INT32_MAX), square = x * x;
  vf p = -5.70498872745e-3f * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const vf far = 1.0f - 2.0f / (vf_exp(2.0f * size) + 1.0f);
  return vf_select(size < 0.625f, p * square * x + x, (vf)((vi)far | ((vi)x & INT32_MIN)));
}

/* Returns the normal distribution function, erfc(-x / sqrt 2) / 2, within a relative error of a few 1e-7 on both sides
 * (the rational Chebyshev fit of erfc in Numerical Recipes, section 6.2). */
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
