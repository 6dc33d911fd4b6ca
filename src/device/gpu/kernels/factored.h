/* Adafactor, and sums of squares along the sides of a matrix: kernels/factored.c. Arrays of type `void *` are wide,
 * except `narrow`, which has elements and may be NULL. */
#ifndef TRI_DEVICE_GPU_KERNELS_FACTORED_H
#define TRI_DEVICE_GPU_KERNELS_FACTORED_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_factored(K)                                                                                    \
  K(row_squares, 256) K(column_squares, 256) K(adafactor_direction, 256) K(adafactor_step, 256)
enum { TRI_GPU_KERNELS_factored(TRI_GPU_THREADS) };

/* Columns per strip of column_squares. */
enum { SQUARES_ACROSS = 32 };

/* out[rows] (row_squares) or out[columns] (column_squares) = factor * the sum of g^2 along each row or column. g is
 * in[rows, columns], multiplied by the step's gradient_scale unless `values` is NULL. */
typedef struct row_squares_arguments {
  const void *in;
  void *out;
  const tri_step_values *values;
  int64_t rows, columns;
  double factor;
} row_squares_arguments;

typedef row_squares_arguments column_squares_arguments;

/* row[rows] (NULL for a vector) and column[columns] are means of squares; direction[rows, columns] is the gradient on
 * input. `sums` are those of tri_adafactor_sums; the first is read here, and the others by the step. */
typedef struct adafactor_direction_arguments {
  const void *row, *column;
  void *direction;
  const tri_step_values *values;
  const double *sums;
  int64_t rows, columns;
  double all_rows, eps;
} adafactor_direction_arguments;

typedef struct adafactor_step_arguments {
  const void *direction;
  void *parameter, *narrow;
  const tri_step_values *values;
  const double *sums;
  int64_t count;
  double all_elements, eps, d, weight_decay, lr_scale;
} adafactor_step_arguments;

#endif
