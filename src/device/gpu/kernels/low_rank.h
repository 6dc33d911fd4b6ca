/* Element-wise parts of GaLore and Fira: kernels/low_rank.c. Arrays of type `void *` are wide, except `narrow`, which
 * has elements and may be NULL. */
#ifndef TRI_DEVICE_GPU_KERNELS_LOW_RANK_H
#define TRI_DEVICE_GPU_KERNELS_LOW_RANK_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_low_rank(K)                                                                                    \
  K(low_rank_adam, 256) K(low_rank_rest, 256) K(low_rank_growth, 64) K(low_rank_step, 256)
enum { TRI_GPU_KERNELS_low_rank(TRI_GPU_THREADS) };

/* Arrays of `count` numbers. */
typedef struct low_rank_adam_arguments {
  const void *gradient;
  void *moment1, *moment2, *out;
  const tri_step_values *values;
  int64_t count;
  double beta1, beta2, eps;
} low_rank_adam_arguments;

/* gradient and rest [rows, columns]. adam, projected: sums of squares of each row (by_rows) or column of Adam's result
 * and of the projected gradient. */
typedef struct low_rank_rest_arguments {
  const void *gradient, *adam, *projected;
  void *rest;
  const tri_step_values *values;
  int64_t rows, columns, by_rows;
  double scale;
} low_rank_rest_arguments;

/* *squares: sum of squares of the rest. *norm: limited norm of the rest, of the previous step on input and of this step
 * on output. *factor: output, the factor of the rest. */
typedef struct low_rank_growth_arguments {
  const tri_step_values *values;
  const double *squares;
  void *norm;
  double *factor;
} low_rank_growth_arguments;

/* x and rest [rows, columns], rows x_row apart; parameter and narrow: rows parameter_row apart. rest may be NULL. */
typedef struct low_rank_step_arguments {
  const void *x, *rest;
  const double *factor;
  void *parameter, *narrow;
  const tri_step_values *values;
  int64_t rows, columns, parameter_row, x_row;
  double beta1, beta2, weight_decay, lr_scale, scale;
} low_rank_step_arguments;

#endif
