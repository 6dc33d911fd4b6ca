/* Launches the kernels of kernels/low_rank.c. */
#include "device/gpu/internal.h"

static tri_status gpu_low_rank_adam(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                    const tri_step_values *values, const void *gradient, void *moment1, void *moment2,
                                    void *out) {
  TRI_GPU_LAUNCH(low_rank_adam, type, tri_gpu_shape_of(count, low_rank_adam_threads), .gradient = gradient,
                 .moment1 = moment1, .moment2 = moment2, .out = out, .values = values, .count = count,
                 .beta1 = options->beta1, .beta2 = options->beta2, .eps = options->eps);
  return TRI_OK;
}

static tri_status gpu_low_rank_rest(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                                    const tri_step_values *values, const void *gradient, const void *adam,
                                    const void *projected, void *rest) {
  TRI_GPU_LAUNCH(low_rank_rest, type, tri_gpu_shape_of(sides->rows * low_rank_rest_threads, low_rank_rest_threads),
                 .gradient = gradient, .adam = adam, .projected = projected, .rest = rest, .values = values,
                 .rows = sides->rows, .columns = sides->columns, .by_rows = sides->by_rows, .scale = sides->scale);
  return TRI_OK;
}

static tri_status gpu_low_rank_growth(tri_queue *queue, tri_dtype type, const tri_step_values *values,
                                      const double *squares, void *norm, double *factor) {
  TRI_GPU_LAUNCH(low_rank_growth, type, ((tri_gpu_shape){.x = 1}), .values = values, .squares = squares, .norm = norm,
                 .factor = factor);
  return TRI_OK;
}

static tri_status gpu_low_rank_step(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                                    const tri_step_values *values, const void *x, const void *rest,
                                    const double *factor, void *parameter, void *narrow) {
  TRI_GPU_LAUNCH(low_rank_step, type, tri_gpu_shape_of(step->rows * low_rank_step_threads, low_rank_step_threads),
                 .x = x, .rest = rest, .factor = factor, .parameter = parameter,
                 .narrow = type == tri_dtype_wide(type) ? NULL : narrow, .values = values, .rows = step->rows,
                 .columns = step->columns, .parameter_row = step->parameter_row, .x_row = step->x_row,
                 .beta1 = step->beta1, .beta2 = step->beta2, .weight_decay = step->weight_decay,
                 .lr_scale = step->lr_scale, .scale = step->scale);
  return TRI_OK;
}

void tri_gpu_fill_low_rank(tri_device_kernels *out) {
  out->low_rank_adam = gpu_low_rank_adam;
  out->low_rank_rest = gpu_low_rank_rest;
  out->low_rank_growth = gpu_low_rank_growth;
  out->low_rank_step = gpu_low_rank_step;
}
