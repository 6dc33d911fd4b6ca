#include "comm/sums.h"

#include <string.h>

/* Terms are added block by block: a block's partial sum stays in the first-level cache, and each term is read once.
 * `omp simd` allows vectorisation although `out` may be one of the terms: element i depends on elements i only. */
enum { BLOCK = 1024 };

static inline int64_t block_length(int64_t count, int64_t at) { return count - at < BLOCK ? count - at : BLOCK; }

/* Defines a function that combines arrays of from_type. LOAD converts an element to `wide`; STORE converts the result
 * to to_type. */
#define COMBINE(name, from_type, wide, to_type, LOAD, STORE, OP)                                                       \
  static void name(int terms, const void *const *x, int64_t count, void *out) {                                        \
    to_type *to = out;                                                                                                 \
    if (terms == 2) { /* the usual case inside a node */                                                               \
      const from_type *a = x[0], *b = x[1];                                                                            \
      _Pragma("omp simd") for (int64_t i = 0; i < count; i++) to[i] = STORE(OP((wide)LOAD(a[i]), (wide)LOAD(b[i])));   \
      return;                                                                                                          \
    }                                                                                                                  \
    for (int64_t at = 0; at < count; at += BLOCK) {                                                                    \
      int64_t length = block_length(count, at);                                                                        \
      _Alignas(64) wide sum[BLOCK];                                                                                    \
      const from_type *first = (const from_type *)x[0] + at;                                                           \
      _Pragma("omp simd") for (int64_t i = 0; i < length; i++) sum[i] = LOAD(first[i]);                                \
      for (int k = 1; k < terms; k++) {                                                                                \
        const from_type *next = (const from_type *)x[k] + at;                                                          \
        _Pragma("omp simd") for (int64_t i = 0; i < length; i++) sum[i] = OP(sum[i], (wide)LOAD(next[i]));             \
      }                                                                                                                \
      _Pragma("omp simd") for (int64_t i = 0; i < length; i++) to[at + i] = STORE(sum[i]);                             \
    }                                                                                                                  \
  }

static inline float from_bf16(uint16_t x) {
  uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Rounds to nearest even. A NaN keeps its upper bits and becomes quiet; rounding it could give an infinity. */
static inline uint16_t to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  uint32_t quiet = bits >> 16 | 0x40;
  return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

#define SAME(x) (x)
#define ADD(a, b) ((a) + (b))
#define LARGER(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

COMBINE(add_fp32, float, float, float, SAME, SAME, ADD)
COMBINE(add_fp64, double, double, double, SAME, SAME, ADD)
COMBINE(add_int64, uint64_t, uint64_t, uint64_t, SAME, SAME, ADD) /* unsigned, so that an overflow wraps */
COMBINE(add_bf16, uint16_t, float, uint16_t, from_bf16, to_bf16, ADD)
COMBINE(add_bf16_to_fp32, uint16_t, float, float, from_bf16, SAME, ADD)
COMBINE(add_fp32_to_bf16, float, float, uint16_t, SAME, to_bf16, ADD)
COMBINE(larger_fp32, float, float, float, SAME, SAME, LARGER)
COMBINE(larger_fp64, double, double, double, SAME, SAME, LARGER)
COMBINE(larger_bf16, uint16_t, float, uint16_t, from_bf16, to_bf16, LARGER)

static const tri_sum *choose(tri_dtype type, const tri_sum *fp32, const tri_sum *fp64, const tri_sum *bf16) {
  switch (type) {
    case TRI_FP32: return fp32;
    case TRI_FP64: return fp64;
    case TRI_BF16: return bf16;
    case TRI_INT32: break; /* this is the type of token ids, which are never added */
  }
  return NULL;
}

const tri_sum *tri_sum_of(tri_dtype type) {
  static const tri_sum fp32 = {4, 4, add_fp32, add_fp32, add_fp32};
  static const tri_sum fp64 = {8, 8, add_fp64, add_fp64, add_fp64};
  static const tri_sum bf16 = {2, 4, add_bf16, add_bf16_to_fp32, add_fp32_to_bf16};
  return choose(type, &fp32, &fp64, &bf16);
}

const tri_sum *tri_maximum_of(tri_dtype type) {
  static const tri_sum fp32 = {4, 4, larger_fp32, larger_fp32, larger_fp32};
  static const tri_sum fp64 = {8, 8, larger_fp64, larger_fp64, larger_fp64};
  static const tri_sum bf16 = {2, 2, larger_bf16, larger_bf16, larger_bf16};
  return choose(type, &fp32, &fp64, &bf16);
}

const tri_sum *tri_sum_int64(void) {
  static const tri_sum int64 = {8, 8, add_int64, add_int64, add_int64};
  return &int64;
}

const tri_sum *tri_sum_none(size_t bytes) {
  static const tri_sum none[] = {
      {1, 1, NULL, NULL, NULL}, {2, 2, NULL, NULL, NULL}, {4, 4, NULL, NULL, NULL}, {8, 8, NULL, NULL, NULL}};
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    if (none[i].bytes == bytes) return &none[i];
  }
  return NULL;
}
