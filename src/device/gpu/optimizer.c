/* Launches the kernels of kernels/optimizer.c. */
#include "device/gpu/internal.h"

static tri_status gpu_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                            const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                            void *moment2, void *narrow) {
  const int64_t vector = 16 / (int64_t)tri_dtype_bytes(tri_dtype_wide(type));
  TRI_GPU_LAUNCH(adamw, type, tri_gpu_shape_of((count + vector - 1) / vector, adamw_threads), .parameter = parameter,
                 .gradient = gradient, .moment1 = moment1, .moment2 = moment2, .narrow = narrow, .values = values,
                 .count = count, .beta1 = options->beta1, .beta2 = options->beta2, .eps = options->eps,
                 .weight_decay = options->weight_decay, .lr_scale = options->lr_scale);
  return TRI_OK;
}

void tri_gpu_fill_optimizer(tri_device_kernels *out) { out->adamw = gpu_adamw; }
