/* The number formats of tensors. */
#ifndef TRI_DEVICE_DTYPE_H
#define TRI_DEVICE_DTYPE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum tri_dtype { TRI_FP32, TRI_BF16, TRI_FP64, TRI_INT32 } tri_dtype;

static inline size_t tri_dtype_bytes(tri_dtype type) {
  switch (type) {
    case TRI_BF16: return 2;
    case TRI_FP32:
    case TRI_INT32: return 4;
    case TRI_FP64: return 8;
  }
  return 0;
}

/* Returns the *wide type* of an activation type: parameters, their gradients, the optimizer's state and row statistics
 * are fp32 if activations are fp32 or bf16, and fp64 if they are fp64. */
static inline tri_dtype tri_dtype_wide(tri_dtype activations) {
  switch (activations) {
    case TRI_FP64: return TRI_FP64;
    case TRI_FP32:
    case TRI_BF16:
    case TRI_INT32: return TRI_FP32;
  }
  return TRI_FP32;
}

/* Returns element i of an array of a wide type; 0 for other types. */
static inline double tri_wide_get(tri_dtype wide, const void *values, int64_t i) {
  switch (wide) {
    case TRI_FP64: return ((const double *)values)[i];
    case TRI_FP32: return (double)((const float *)values)[i];
    case TRI_BF16:
    case TRI_INT32: break; /* not wide */
  }
  return 0;
}

/* Sets element i of an array of a wide type; does nothing for other types. */
static inline void tri_wide_set(tri_dtype wide, void *values, int64_t i, double value) {
  switch (wide) {
    case TRI_FP64: ((double *)values)[i] = value; return;
    case TRI_FP32: ((float *)values)[i] = (float)value; return;
    case TRI_BF16:
    case TRI_INT32: return;
  }
}

/* Returns the value in fp32, rounded to odd: if fp32 cannot represent the value, the last bit is set, so that a second
 * rounding to a narrower type gives the same result as rounding the value once. */
static inline float tri_float_to_odd(double value) {
  float nearest = (float)value;
  uint32_t bits;
  if ((double)nearest == value || value != value) return nearest;
  memcpy(&bits, &nearest, sizeof bits);
  if (value < 0 ? (double)nearest < value : (double)nearest > value) bits--; /* towards 0 */
  bits |= 1;
  memcpy(&nearest, &bits, sizeof bits);
  return nearest;
}

/* Returns the nearest bf16 number; ties are rounded to even, and NaN stays NaN. */
static inline uint16_t tri_bf16_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Checks that a number of a configuration keeps its meaning in the wide type of these activations: if it is not 0 it
 * does not become 0, if it is below 1 it does not become 1, and it does not become infinite. Otherwise fails with
 * TRI_BAD_CONFIG, and a message that begins with the key in backquotes. */
tri_status tri_dtype_check_number(tri_dtype activations, const char *key, double value);

const char *tri_dtype_name(tri_dtype type);

#endif
