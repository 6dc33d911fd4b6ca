/* The activation functions on GPUs: three functions for each row of TRI_ACTIVATIONS (device/activation.h):
 *
 *   NAME_value(x)          the function
 *   NAME_times(factor, x)  factor times the function
 *   NAME_slope(factor, x)  factor times its derivative
 *
 * Factors are multiplied from left to right: the bits depend on that order. */
#ifndef TRI_DEVICE_GPU_KERNELS_ACTIVATIONS_H
#define TRI_DEVICE_GPU_KERNELS_ACTIVATIONS_H

#include "device/activation.h"
#include "device/gpu/kernels/primitives.h"

#define TIMES_VALUE(name)                                                                                              \
  DEVICE wide name##_times(wide factor, wide x) { return factor * name##_value(x); }

/* gelu_tanh(x) = x 0.5 (1 + tanh u). The factor of x is the sigmoid of 2u, which has no cancellation for negative u; 2u
 * = x (LINEAR + CUBIC x^2) with LINEAR = 2 sqrt(2/pi). x is clamped to [-20, 20], so that x^2 stays finite. The sigmoid
 * of 2u is 1 at x = 20, and below 1e-261 (0 in fp32) at x = -20. */
#define LINEAR ((wide)1.5957691216057307118)
#define CUBIC ((wide)(0.044715 * 1.5957691216057307118))
#define ROOT_HALF ((wide)0.70710678118654752440)

DEVICE wide within_20(wide x) {
  if (x > 20) x = 20;
  if (x < -20) x = -20;
  return x; /* NaN stays NaN */
}

/* Returns the sigmoid of 2u for an x in [-20, 20]. */
DEVICE wide gelu_sigmoid(wide x) { return 1 / (1 + wide_exp(-x * (LINEAR + CUBIC * (x * x)))); }

DEVICE wide gelu_tanh_value(wide x) { return x * gelu_sigmoid(within_20(x)); }
TIMES_VALUE(gelu_tanh)
DEVICE wide gelu_tanh_slope(wide factor, wide x) {
  const wide inner = within_20(x), sigmoid = gelu_sigmoid(inner);
  return factor * (sigmoid + sigmoid * (1 - sigmoid) * (inner * (LINEAR + 3 * CUBIC * (inner * inner))));
}

/* Returns the distribution function of the normal distribution. */
DEVICE wide normal_cdf(wide x) { return (wide)0.5 * wide_erfc(-x * ROOT_HALF); }

DEVICE wide gelu_erf_value(wide x) { return x * normal_cdf(x); }
TIMES_VALUE(gelu_erf)
DEVICE wide gelu_erf_slope(wide factor, wide x) {
  return factor * (normal_cdf(x) + x * (wide)0.39894228040143267794 * wide_exp((wide)-0.5 * x * x));
}

DEVICE wide silu_value(wide x) { return x / (1 + wide_exp(-x)); }
DEVICE wide silu_times(wide factor, wide x) { return factor * x * (1 / (1 + wide_exp(-x))); }
DEVICE wide silu_slope(wide factor, wide x) {
  const wide sigmoid = 1 / (1 + wide_exp(-x));
  return factor * sigmoid * (1 + x * (1 - sigmoid));
}

/* Returns relu(x); NaN stays NaN. */
DEVICE wide relu_value(wide x) { return x <= 0 ? 0 : x; }
TIMES_VALUE(relu)
DEVICE wide relu_slope(wide factor, wide x) { return x <= 0 ? 0 : factor; }

DEVICE wide quick_gelu_value(wide x) { return x / (1 + wide_exp((wide)-1.702 * x)); }
TIMES_VALUE(quick_gelu)
DEVICE wide quick_gelu_slope(wide factor, wide x) {
  const wide sigmoid = 1 / (1 + wide_exp((wide)-1.702 * x));
  return factor * sigmoid * (1 + (wide)1.702 * x * (1 - sigmoid));
}

DEVICE wide relu2_value(wide x) { return x <= 0 ? 0 : x * x; }
TIMES_VALUE(relu2)
DEVICE wide relu2_slope(wide factor, wide x) { return x <= 0 ? 0 : factor * 2 * x; }

/* Returns x tanh(log(1 + e)) with e = exp(x). The tanh is n / (n + 2) with n = e (e + 2), without cancellation, and 1
 * for x from 20 on. */
DEVICE wide mish_value(wide x) {
  const wide e = wide_exp(x > 20 ? 20 : x), n = e * (e + 2);
  return x * (n / (n + 2));
}
TIMES_VALUE(mish)
DEVICE wide mish_slope(wide factor, wide x) {
  const wide inner = x > 20 ? 20 : x, e = wide_exp(inner), n = e * (e + 2), of = 1 / (n + 2);
  return factor * (n * of + inner * 4 * e * (e + 1) * of * of);
}

DEVICE wide tanh_value(wide x) { return wide_tanh(x); }
TIMES_VALUE(tanh)
/* Returns factor (1 - tanh^2), computed as factor 4 e / (1 + e)^2 with e = exp(-2 |x|), without cancellation. */
DEVICE wide tanh_slope(wide factor, wide x) {
  const wide e = wide_exp(x > 0 ? -2 * x : 2 * x), of = 1 / (1 + e);
  return factor * (4 * e * of * of);
}

/* ---- by kind ----------------------------------------------------------------------------------------------------- */

DEVICE wide activation(tri_activation kind, wide x) {
#define VALUE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_value(x);
  switch (kind) { TRI_ACTIVATIONS(VALUE_OF) }
  return 0;
}

DEVICE wide times_activation(tri_activation kind, wide factor, wide x) {
#define TIMES_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_times(factor, x);
  switch (kind) { TRI_ACTIVATIONS(TIMES_OF) }
  return 0;
}

DEVICE wide times_slope(tri_activation kind, wide factor, wide x) {
#define SLOPE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_slope(factor, x);
  switch (kind) { TRI_ACTIVATIONS(SLOPE_OF) }
  return 0;
}

#endif
