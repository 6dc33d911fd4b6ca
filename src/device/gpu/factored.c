/* Launches the kernels of kernels/factored.c. */
#include "device/gpu/internal.h"

/* Launches a warp (at least 32 threads) for each row, and a block for each strip of columns. */
static tri_status gpu_matrix_squares(tri_queue *queue, tri_dtype type, const tri_matrix_squares *sides,
                                     const tri_step_values *values, const void *in, void *row_sums, void *column_sums) {
  const int64_t strips = (sides->columns + SQUARES_ACROSS - 1) / SQUARES_ACROSS;
  if (row_sums != NULL) {
    TRI_GPU_LAUNCH(row_squares, type, tri_gpu_shape_of(sides->rows * 32, row_squares_threads), .in = in,
                   .out = row_sums, .values = values, .rows = sides->rows, .columns = sides->columns,
                   .factor = sides->row_factor);
  }
  if (column_sums != NULL) {
    TRI_GPU_LAUNCH(column_squares, type, tri_gpu_shape_of(strips * column_squares_threads, column_squares_threads),
                   .in = in, .out = column_sums, .values = values, .rows = sides->rows, .columns = sides->columns,
                   .factor = sides->column_factor);
  }
  return TRI_OK;
}

static tri_status gpu_adafactor_direction(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                          const tri_step_values *values, const void *row, const void *column,
                                          const tri_adafactor_sums *sums, void *direction) {
  TRI_GPU_LAUNCH(adafactor_direction, type,
                 tri_gpu_shape_of(options->rows * adafactor_direction_threads, adafactor_direction_threads), .row = row,
                 .column = column, .direction = direction, .values = values, .sums = &sums->rows, .rows = options->rows,
                 .columns = options->columns, .all_rows = options->all_rows, .eps = options->eps[0]);
  return TRI_OK;
}

static tri_status gpu_adafactor_step(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                     const tri_step_values *values, const tri_adafactor_sums *sums,
                                     const void *direction, void *parameter, void *narrow) {
  const int64_t count = options->rows * options->columns;
  TRI_GPU_LAUNCH(adafactor_step, type, tri_gpu_shape_of(count, adafactor_step_threads), .direction = direction,
                 .parameter = parameter, .narrow = type == tri_dtype_wide(type) ? NULL : narrow, .values = values,
                 .sums = &sums->rows, .count = count, .all_elements = options->all_elements, .eps = options->eps[1],
                 .d = options->d, .weight_decay = options->weight_decay, .lr_scale = options->lr_scale);
  return TRI_OK;
}

void tri_gpu_fill_factored(tri_device_kernels *out) {
  out->matrix_squares = gpu_matrix_squares;
  out->adafactor_direction = gpu_adafactor_direction;
  out->adafactor_step = gpu_adafactor_step;
}
