/* Activation functions: functions of one number between GEMMs. Each is a row of this list, which defines the enum, the
 * names in run files and in config.json, and the operations:
 *
 *   X(VALUE, name, hf_names, operation, gated, forward, backward)
 *
 *   VALUE, name        TRI_ACTIVATION_VALUE, and its name in run files
 *   hf_names           transformers' names of the same function (ACT2FN), separated by spaces; exports write the first
 *   operation, gated   names in `train --dry-run`: of y = act(x), and of y = act(gate) * up
 *   forward, backward  FLOPs for an element, roughly; an exponential and a division count as several
 *
 * Each device implements the function and its derivative: reference/activations.h, cpu/kernels/activations.h,
 * gpu/kernels/activations.h. A row without them does not build.
 *
 * TRI_ACTIVATIONS_WITH(X, ...) passes further arguments to each X, after those of the row. */
#ifndef TRI_DEVICE_ACTIVATION_H
#define TRI_DEVICE_ACTIVATION_H

#define TRI_ACTIVATIONS_WITH(X, ...)                                                                                   \
  /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016) */                                    \
  X(GELU_TANH, gelu_tanh, "gelu_new gelu_pytorch_tanh gelu_fast gelu_python_tanh gelu_accurate", "gelu", "geglu", 16,  \
    24, __VA_ARGS__)                                                                                                   \
  /* 0.5 x (1 + erf(x / sqrt 2)) */                                                                                    \
  X(GELU_ERF, gelu_erf, "gelu gelu_python", "gelu", "geglu", 16, 24, __VA_ARGS__)                                      \
  /* x / (1 + exp(-x)) */                                                                                              \
  X(SILU, silu, "silu swish", "silu", "swiglu", 11, 16, __VA_ARGS__)                                                   \
  /* x if it is above 0, else 0; its derivative is 1 or 0 */                                                           \
  X(RELU, relu, "relu", "relu", "reglu", 1, 1, __VA_ARGS__)                                                            \
  /* x / (1 + exp(-1.702 x)), an approximation of GELU (Hendrycks and Gimpel 2016) */                                  \
  X(QUICK_GELU, quick_gelu, "quick_gelu", "quick_gelu", "quick_geglu", 12, 17, __VA_ARGS__)                            \
  /* x^2 if x is above 0, else 0 (So et al. 2021) */                                                                   \
  X(RELU2, relu2, "relu2", "relu2", "reglu2", 2, 3, __VA_ARGS__)                                                       \
  /* x tanh(log(1 + exp(x))) (Misra 2019) */                                                                           \
  X(MISH, mish, "mish", "mish", "mish_glu", 16, 24, __VA_ARGS__)                                                       \
  X(TANH, tanh, "tanh", "tanh", "tanh_glu", 10, 12, __VA_ARGS__)                                                       \
  /* the next row goes here */

#define TRI_ACTIVATIONS(X) TRI_ACTIVATIONS_WITH(X, )

#define TRI_ACTIVATION_VALUE(VALUE, ...) TRI_ACTIVATION_##VALUE,
typedef enum tri_activation { TRI_ACTIVATIONS(TRI_ACTIVATION_VALUE) } tri_activation;

#endif
