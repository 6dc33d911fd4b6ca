/* Matrix kernels other than GEMMs: kernels/matrices.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_MATRICES_H
#define TRI_DEVICE_GPU_KERNELS_MATRICES_H

#include "device/gpu/kernels/threads.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_matrices(K) K(matrix_normalise, 256) K(matrix_polynomial, 256) K(matrix_step, 256)
enum { TRI_GPU_KERNELS_matrices(TRI_GPU_THREADS) };

/* Side of the tiles that blocks process one at a time. */
enum { MATRIX_TILE = 64 };

/* out [rows, columns] = in / (root of squares + eps); out has elements. Strides as in tri_matrix_copy. */
typedef struct matrix_normalise_arguments {
  const void *in; /* wide */
  const tri_exact_sum *squares;
  void *out;
  int64_t rows, columns, in_row, out_row, out_column;
  double eps;
} matrix_normalise_arguments;

/* a, b and out have elements, [size, size] and dense. */
typedef struct matrix_polynomial_arguments {
  const void *a, *b;
  void *out;
  int64_t size;
  double factors[3];
} matrix_polynomial_arguments;

/* Strides as in tri_matrix_step. x has elements, parameter is wide, and narrow has elements or is NULL. */
typedef struct matrix_step_arguments {
  const void *x;
  void *parameter, *narrow;
  const tri_step_values *values;
  int64_t rows, columns, parameter_row, x_row, x_column;
  double weight_decay, lr_scale, scale;
} matrix_step_arguments;

#endif
