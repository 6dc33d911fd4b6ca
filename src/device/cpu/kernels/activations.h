/* The activations of the CPU, on vectors: of each row of device/activation.h
 *
 *   NAME_value(x)          the function
 *   NAME_times(factor, x)  factor times the function
 *   NAME_slope(factor, x)  factor times its derivative
 *
 * Factors go from left to right: that order is part of the bits. */
#ifndef TRI_DEVICE_CPU_KERNELS_ACTIVATIONS_H
#define TRI_DEVICE_CPU_KERNELS_ACTIVATIONS_H

#include "device/activation.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

#define TIMES_VALUE(name)                                                                                              \
  INLINE vf name##_times(vf factor, vf x) { return factor * name##_value(x); }

/* 0.5 (1 + tanh u) is the sigmoid of 2u, and 2u = x (LINEAR + CUBIC x^2) with LINEAR = 2 sqrt(2/pi). */
#define LINEAR 1.5957691216057308f
#define CUBIC (0.044715f * LINEAR)

INLINE vf gelu_sigmoid(vf x) { return vf_sigmoid_of_minus(x * (-LINEAR - CUBIC * (x * x))); }

INLINE vf gelu_tanh_value(vf x) { return x * gelu_sigmoid(x); }
TIMES_VALUE(gelu_tanh)
INLINE vf gelu_tanh_slope(vf factor, vf x) {
  vf sigmoid = gelu_sigmoid(x);
  return factor * (sigmoid + sigmoid * (1.0f - sigmoid) * (x * (LINEAR + 3.0f * CUBIC * (x * x))));
}

INLINE vf gelu_erf_value(vf x) { return x * vf_normal_cdf(x); }
TIMES_VALUE(gelu_erf)
INLINE vf gelu_erf_slope(vf factor, vf x) {
  return factor * (vf_normal_cdf(x) + x * 0.3989422804014327f * vf_exp(-0.5f * x * x));
}

INLINE vf silu_value(vf x) { return x * vf_sigmoid(x); }
INLINE vf silu_times(vf factor, vf x) { return factor * x * vf_sigmoid(x); }
INLINE vf silu_slope(vf factor, vf x) {
  vf sigmoid = vf_sigmoid(x);
  return factor * sigmoid * (1.0f + x * (1.0f - sigmoid));
}

/* `y` where x is above 0, else 0; where x is a NaN, y. */
INLINE vf where_positive(vf x, vf y) { return (vf)(~(x <= 0.0f) & (vi)y); }

INLINE vf relu_value(vf x) { return where_positive(x, x); }
TIMES_VALUE(relu)
INLINE vf relu_slope(vf factor, vf x) { return where_positive(x, factor); }

/* ---- by kind ----------------------------------------------------------------------------------------------------- */

INLINE vf activation(tri_activation kind, vf x) {
#define VALUE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_value(x);
  switch (kind) { TRI_ACTIVATIONS(VALUE_OF) }
  return x * NAN;
}

INLINE vf times_activation(tri_activation kind, vf factor, vf x) {
#define TIMES_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_times(factor, x);
  switch (kind) { TRI_ACTIVATIONS(TIMES_OF) }
  return x * NAN;
}

INLINE vf times_slope(tri_activation kind, vf factor, vf x) {
#define SLOPE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_slope(factor, x);
  switch (kind) { TRI_ACTIVATIONS(SLOPE_OF) }
  return x * NAN;
}

#endif
