/* The activation functions on CPUs, on vectors: three functions for each row of device/activation.h
 *
 *   NAME_value(x)          the function
 *   NAME_times(factor, x)  factor times the function
 *   NAME_slope(factor, x)  factor times its derivative
 *
 * The order of the multiplications affects the bits. */
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

/* Returns y if x is above 0 or NaN, else 0. */
INLINE vf where_positive(vf x, vf y) { return (vf)(~(x <= 0.0f) & (vi)y); }

INLINE vf relu_value(vf x) { return where_positive(x, x); }
TIMES_VALUE(relu)
INLINE vf relu_slope(vf factor, vf x) { return where_positive(x, factor); }

INLINE vf quick_gelu_value(vf x) { return x * vf_sigmoid(1.702f * x); }
TIMES_VALUE(quick_gelu)
INLINE vf quick_gelu_slope(vf factor, vf x) {
  vf sigmoid = vf_sigmoid(1.702f * x);
  return factor * sigmoid * (1.0f + 1.702f * x * (1.0f - sigmoid));
}

INLINE vf relu2_value(vf x) { return where_positive(x, x * x); }
TIMES_VALUE(relu2)
INLINE vf relu2_slope(vf factor, vf x) { return where_positive(x, factor * 2.0f * x); }

/* For mish: with e = exp(x) and n = e (e + 2), tanh(log(1 + e)) is n / (n + 2), without cancellation. For x from 20 on
 * it is 1, so x is limited to 20. */
INLINE vf below_20(vf x) { return vf_select(x > 20.0f, vf_splat(20.0f), x); }

INLINE vf mish_value(vf x) {
  vf e = vf_exp(below_20(x)), n = e * (e + 2.0f);
  return x * (n / (n + 2.0f));
}
TIMES_VALUE(mish)
INLINE vf mish_slope(vf factor, vf x) {
  vf inner = below_20(x), e = vf_exp(inner), n = e * (e + 2.0f), of = 1.0f / (n + 2.0f);
  return factor * (n * of + inner * 4.0f * e * (e + 1.0f) * of * of);
}

INLINE vf tanh_value(vf x) { return vf_tanh(x); }
TIMES_VALUE(tanh)
/* Returns factor (1 - tanh^2), computed as factor 4 e / (1 + e)^2 with e = exp(-2 |x|), without cancellation. */
INLINE vf tanh_slope(vf factor, vf x) {
  vf e = vf_exp(-2.0f * (vf)((vi)x & INT32_MAX)), of = 1.0f / (1.0f + e);
  return factor * (4.0f * e * of * of);
}

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
