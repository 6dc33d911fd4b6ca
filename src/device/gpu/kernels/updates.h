/* Arguments of the optimizers other than plain AdamW: kernels/updates.c. The elements of all arrays are of type `wide`
 * (primitives.h), except those of `narrow`: a copy of the parameter in type `element`; NULL if it is not needed, or if
 * `element` is `wide`. */
#ifndef TRI_DEVICE_GPU_KERNELS_UPDATES_H
#define TRI_DEVICE_GPU_KERNELS_UPDATES_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_updates(K) K(lion, 256) K(sgd, 256) K(schedule_free, 256) K(lerp, 256) K(momentum, 256)
enum { TRI_GPU_KERNELS_updates(TRI_GPU_THREADS) };

typedef struct lion_arguments {
  void *parameter;
  const void *gradient;
  void *moment, *narrow;
  const tri_step_values *values;
  int64_t count;
  double beta1, beta2, weight_decay, lr_scale;
} lion_arguments;

typedef struct sgd_arguments {
  void *parameter;
  const void *gradient;
  void *moment, *narrow;
  const tri_step_values *values;
  int64_t count;
  double momentum, weight_decay, lr_scale;
  int32_t nesterov;
  int32_t no_padding;
} sgd_arguments;

typedef struct schedule_free_arguments {
  void *y;
  const void *gradient;
  void *z, *moment2, *narrow;
  const tri_step_values *values;
  int64_t count;
  double beta1, beta2, eps, weight_decay, lr_scale;
} schedule_free_arguments;

/* out = a + weight (b - a). */
typedef struct lerp_arguments {
  const void *a, *b;
  void *out;
  int64_t count;
  double weight;
} lerp_arguments;

/* moment = beta moment + (1 - beta) g, with g = gradient_scale * gradient; out is the new moment, or with nesterov beta
 * (new moment) + (1 - beta) g. */
typedef struct momentum_arguments {
  const void *gradient;
  void *moment, *out;
  const tri_step_values *values;
  int64_t count;
  double beta;
  int32_t nesterov;
  int32_t no_padding;
} momentum_arguments;

#endif
