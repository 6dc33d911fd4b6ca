/* The activation functions of the reference device: three functions for each row of device/activation.h
 *
 *   NAME_value(x)          the function
 *   NAME_times(factor, x)  factor times the function
 *   NAME_slope(factor, x)  factor times its derivative
 *
 * They compute in double, by the definitions. The order of the multiplications affects the bits. */
#ifndef TRI_DEVICE_REFERENCE_ACTIVATIONS_H
#define TRI_DEVICE_REFERENCE_ACTIVATIONS_H

#include "device/activation.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

#define TIMES_VALUE(name)                                                                                              \
  static double name##_times(double factor, double x) { return factor * name##_value(x); }

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static double gelu_tanh_value(double x) { return 0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x))); }
TIMES_VALUE(gelu_tanh)
static double gelu_tanh_slope(double factor, double x) {
  double root = sqrt(2.0 / pi);
  double t = tanh(root * (x + 0.044715 * x * x * x));
  return factor * (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * root * (1.0 + 3.0 * 0.044715 * x * x));
}

static double gelu_erf_value(double x) { return 0.5 * x * (1.0 + erf(x / sqrt(2.0))); }
TIMES_VALUE(gelu_erf)
static double gelu_erf_slope(double factor, double x) {
  return factor * (0.5 * (1.0 + erf(x / sqrt(2.0))) + x * exp(-0.5 * x * x) / sqrt(2.0 * pi));
}

static double silu_value(double x) { return x / (1.0 + exp(-x)); }
static double silu_times(double factor, double x) { return factor * x * sigmoid(x); }
static double silu_slope(double factor, double x) { return factor * sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))); }

/* Returns x if x is above 0 or NaN, else 0. */
static double relu_value(double x) { return x <= 0 ? 0.0 : x; }
TIMES_VALUE(relu)
static double relu_slope(double factor, double x) { return x <= 0 ? 0.0 : factor; }

static double quick_gelu_value(double x) { return x * sigmoid(1.702 * x); }
TIMES_VALUE(quick_gelu)
static double quick_gelu_slope(double factor, double x) {
  double s = sigmoid(1.702 * x);
  return factor * (s + 1.702 * x * s * (1.0 - s));
}

static double relu2_value(double x) { return x <= 0 ? 0.0 : x * x; }
TIMES_VALUE(relu2)
static double relu2_slope(double factor, double x) { return x <= 0 ? 0.0 : factor * 2.0 * x; }

static double mish_value(double x) { return x * tanh(log1p(exp(x))); }
TIMES_VALUE(mish)
static double mish_slope(double factor, double x) {
  double t = tanh(log1p(exp(x)));
  return factor * (t + x * (1.0 - t * t) * sigmoid(x));
}

static double tanh_value(double x) { return tanh(x); }
TIMES_VALUE(tanh)
static double tanh_slope(double factor, double x) { return factor * (1.0 - tanh(x) * tanh(x)); }

/* ---- by kind ----------------------------------------------------------------------------------------------------- */

static double activation(tri_activation kind, double x) {
#define VALUE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_value(x);
  switch (kind) { TRI_ACTIVATIONS(VALUE_OF) }
  return NAN;
}

static double times_activation(tri_activation kind, double factor, double x) {
#define TIMES_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_times(factor, x);
  switch (kind) { TRI_ACTIVATIONS(TIMES_OF) }
  return NAN;
}

static double times_slope(tri_activation kind, double factor, double x) {
#define SLOPE_OF(VALUE, name, ...)                                                                                     \
  case TRI_ACTIVATION_##VALUE: return name##_slope(factor, x);
  switch (kind) { TRI_ACTIVATIONS(SLOPE_OF) }
  return NAN;
}

#endif
