/* Launches the kernels of kernels/updates.c. */
#include "device/gpu/internal.h"

/* Returns the blocks for `count` elements: a thread processes 16 bytes of each wide array at a time. */
static tri_gpu_shape shape_of(tri_dtype type, int64_t count, int threads) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  return tri_gpu_shape_of((count + vector - 1) / vector, threads);
}

static tri_status gpu_lion(tri_queue *queue, tri_dtype type, int64_t count, const tri_lion *options,
                           const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                           void *narrow) {
  TRI_GPU_LAUNCH(lion, type, shape_of(type, count, lion_threads), .parameter = parameter, .gradient = gradient,
                 .moment = moment, .narrow = narrow, .values = values, .count = count, .beta1 = options->beta1,
                 .beta2 = options->beta2, .weight_decay = options->weight_decay, .lr_scale = options->lr_scale);
  return TRI_OK;
}

static tri_status gpu_sgd(tri_queue *queue, tri_dtype type, int64_t count, const tri_sgd *options,
                          const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                          void *narrow) {
  TRI_GPU_LAUNCH(sgd, type, shape_of(type, count, sgd_threads), .parameter = parameter, .gradient = gradient,
                 .moment = moment, .narrow = narrow, .values = values, .count = count, .momentum = options->momentum,
                 .weight_decay = options->weight_decay, .lr_scale = options->lr_scale, .nesterov = options->nesterov);
  return TRI_OK;
}

static tri_status gpu_schedule_free(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                    const tri_step_values *values, void *y, const void *gradient, void *z,
                                    void *moment2, void *narrow) {
  TRI_GPU_LAUNCH(schedule_free, type, shape_of(type, count, schedule_free_threads), .y = y, .gradient = gradient,
                 .z = z, .moment2 = moment2, .narrow = narrow, .values = values, .count = count,
                 .beta1 = options->beta1, .beta2 = options->beta2, .eps = options->eps,
                 .weight_decay = options->weight_decay, .lr_scale = options->lr_scale);
  return TRI_OK;
}

static tri_status gpu_lerp(tri_queue *queue, tri_dtype type, int64_t count, double weight, const void *a, const void *b,
                           void *out) {
  TRI_GPU_LAUNCH(lerp, type, shape_of(type, count, lerp_threads), .a = a, .b = b, .out = out, .count = count,
                 .weight = weight);
  return TRI_OK;
}

static tri_status gpu_momentum(tri_queue *queue, tri_dtype type, int64_t count, const tri_momentum *options,
                               const tri_step_values *values, const void *gradient, void *moment, void *out) {
  TRI_GPU_LAUNCH(momentum, type, shape_of(type, count, momentum_threads), .gradient = gradient, .moment = moment,
                 .out = out, .values = values, .count = count, .beta = options->beta, .nesterov = options->nesterov);
  return TRI_OK;
}

void tri_gpu_fill_updates(tri_device_kernels *out) {
  out->lion = gpu_lion;
  out->sgd = gpu_sgd;
  out->schedule_free = gpu_schedule_free;
  out->lerp = gpu_lerp;
  out->momentum = gpu_momentum;
}
