/* AdamW: kernels/optimizer.c. The other optimizers are in updates.h, factored.h, low_rank.h and matrices.h. */
#ifndef TRI_DEVICE_GPU_KERNELS_OPTIMIZER_H
#define TRI_DEVICE_GPU_KERNELS_OPTIMIZER_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_optimizer(K) K(adamw, 256)
enum { TRI_GPU_KERNELS_optimizer(TRI_GPU_THREADS) };

/* All arrays are wide except `narrow`, which has elements. */
typedef struct adamw_arguments {
  void *parameter;
  const void *gradient;
  void *moment1, *moment2;
  void *narrow; /* NULL: not needed, or elements are wide */
  const tri_step_values *values;
  int64_t count;
  double beta1, beta2, eps, weight_decay, lr_scale;
} adamw_arguments;

#endif
