/* Arrays of any type with values that a test reads and writes as doubles. */
#ifndef TRI_TESTS_TYPED_ARRAY_H
#define TRI_TESTS_TYPED_ARRAY_H

#include "check.h"
#include "device/kernels.h"

#include <math.h>
#include <stdlib.h>

enum { TYPED_UNTOUCHED = 0x5a };

typedef struct typed_array {
  tri_dtype type;
  int64_t count;
  void *data;
} typed_array;

static inline typed_array typed_make(tri_dtype type, int64_t count) {
  typed_array x = {type, count, malloc((size_t)count * tri_dtype_bytes(type) + 1)};
  assert_non_null(x.data);
  memset(x.data, TYPED_UNTOUCHED, (size_t)count * tri_dtype_bytes(type) + 1);
  return x;
}

/* Truncates fp32 values to bf16, so values with few bits do not change. */
static inline void typed_put(const typed_array *x, int64_t i, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  switch (x->type) {
    case TRI_FP64: ((double *)x->data)[i] = value; break;
    case TRI_FP32: ((float *)x->data)[i] = narrow; break;
    case TRI_BF16: ((uint16_t *)x->data)[i] = (uint16_t)(bits >> 16); break;
    case TRI_INT32: ((int32_t *)x->data)[i] = (int32_t)value; break;
  }
}

static inline double typed_get(const typed_array *x, int64_t i) {
  float wide;
  switch (x->type) {
    case TRI_FP64: return ((const double *)x->data)[i];
    case TRI_FP32: return (double)((const float *)x->data)[i];
    case TRI_BF16: {
      const uint32_t bits = (uint32_t)((const uint16_t *)x->data)[i] << 16;
      memcpy(&wide, &bits, sizeof wide);
      return (double)wide;
    }
    case TRI_INT32: return (double)((const int32_t *)x->data)[i];
  }
  return NAN;
}

static inline void *typed_at(const typed_array *x, int64_t i) {
  return (char *)x->data + i * (int64_t)tri_dtype_bytes(x->type);
}

/* Returns whether elements [first, end) are as typed_make left them. */
static inline bool typed_untouched(const typed_array *x, int64_t first, int64_t end) {
  const unsigned char *at = typed_at(x, first), *stop = typed_at(x, end);
  for (; at < stop; at++) {
    if (*at != TYPED_UNTOUCHED) return false;
  }
  return true;
}

/* Returns the relative error of one rounding to the type. */
static inline double typed_rounding(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 0x1p-53;
    case TRI_FP32: return 0x1p-24;
    case TRI_BF16: return 0x1p-8;
    case TRI_INT32: break;
  }
  return 0;
}

#endif
