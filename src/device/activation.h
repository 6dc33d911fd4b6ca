/* Activation functions. Their names are also those in model files. */
#ifndef TRI_DEVICE_ACTIVATION_H
#define TRI_DEVICE_ACTIVATION_H

#define TRI_ACTIVATIONS(X)                                                                                             \
  X(GELU_TANH, gelu_tanh) /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016) */            \
  X(GELU_ERF, gelu_erf)   /* 0.5 x (1 + erf(x / sqrt 2)) */                                                            \
  X(SILU, silu)           /* x / (1 + exp(-x)) */                                                                      \
  X(RELU, relu)           /* x if it is above 0, else 0; its derivative there is 1 or 0 */
#define TRI_ACTIVATION_VALUE(VALUE, name) TRI_ACTIVATION_##VALUE,
typedef enum tri_activation { TRI_ACTIVATIONS(TRI_ACTIVATION_VALUE) } tri_activation;

#endif
