/* Launches the kernels of kernels/matrices.c. */
#include "device/gpu/internal.h"

/* Returns the shape with a block for each tile; blocks advance in strides of the grid. */
static tri_gpu_shape shape_of(int64_t rows, int64_t columns, int threads) {
  const int64_t tiles = (rows + MATRIX_TILE - 1) / MATRIX_TILE * ((columns + MATRIX_TILE - 1) / MATRIX_TILE);
  return tri_gpu_shape_of(tiles * threads, threads);
}

static tri_status gpu_matrix_normalise(tri_queue *queue, tri_dtype type, const tri_matrix_copy *copy, const void *in,
                                       const tri_exact_sum *squares, double eps, void *out) {
  TRI_GPU_LAUNCH(matrix_normalise, type, shape_of(copy->rows, copy->columns, matrix_normalise_threads), .in = in,
                 .squares = squares, .out = out, .rows = copy->rows, .columns = copy->columns, .in_row = copy->in_row,
                 .out_row = copy->out_row, .out_column = copy->out_column, .eps = eps);
  return TRI_OK;
}

static tri_status gpu_matrix_polynomial(tri_queue *queue, tri_dtype type, const tri_matrix_polynomial *polynomial,
                                        const void *a, const void *b, void *out) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(type), count = polynomial->size * polynomial->size;
  const double *factors = polynomial->factors;
  TRI_GPU_LAUNCH(matrix_polynomial, type, tri_gpu_shape_of((count + vector - 1) / vector, matrix_polynomial_threads),
                 .a = a, .b = b, .out = out, .size = polynomial->size, .factors = {factors[0], factors[1], factors[2]});
  return TRI_OK;
}

static tri_status gpu_matrix_step(tri_queue *queue, tri_dtype type, const tri_matrix_step *step,
                                  const tri_step_values *values, const void *x, void *parameter, void *narrow) {
  TRI_GPU_LAUNCH(matrix_step, type, shape_of(step->rows, step->columns, matrix_step_threads), .x = x,
                 .parameter = parameter, .narrow = type == tri_dtype_wide(type) ? NULL : narrow, .values = values,
                 .rows = step->rows, .columns = step->columns, .parameter_row = step->parameter_row,
                 .x_row = step->x_row, .x_column = step->x_column, .weight_decay = step->weight_decay,
                 .lr_scale = step->lr_scale, .scale = step->scale);
  return TRI_OK;
}

void tri_gpu_fill_matrices(tri_device_kernels *out) {
  out->matrix_normalise = gpu_matrix_normalise;
  out->matrix_polynomial = gpu_matrix_polynomial;
  out->matrix_step = gpu_matrix_step;
}
