/* Softmax and its loss: kernels/loss.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_LOSS_H
#define TRI_DEVICE_GPU_KERNELS_LOSS_H

#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_loss(K)                                                                                        \
  K(softmax_logits, 256)                                                                                               \
  K(softmax_statistics, 256)                                                                                           \
  K(softmax_rescale, 256)                                                                                              \
  K(softmax_loss, 256)                                                                                                 \
  K(softmax_gradient, 256)

enum {
  softmax_logits_threads = 256,
  softmax_statistics_threads = 256,
  softmax_rescale_threads = 256,
  softmax_loss_threads = 256,
  softmax_gradient_threads = 256
};

/* A block for each row, which is wide. soft_cap 0: without. */
typedef struct softmax_logits_arguments {
  void *logits;
  int64_t vocabulary, ld;
  double scale, soft_cap;
} softmax_logits_arguments;

/* A block for each row. All but labels is wide. */
typedef struct softmax_statistics_arguments {
  const void *logits;
  const int32_t *labels;
  void *maximum, *sum, *label_logit;
  int64_t vocabulary, ld, first_id;
} softmax_statistics_arguments;

typedef struct softmax_rescale_arguments {
  const void *from, *to;
  void *sum;
  int64_t rows;
} softmax_rescale_arguments;

typedef struct softmax_loss_arguments {
  const int32_t *labels;
  const float *weights;
  const void *maximum, *sum, *label_logit;
  void *losses;
  int64_t rows;
} softmax_loss_arguments;

/* A block for each row. The gradient has elements, the rest but labels and weights is wide. */
typedef struct softmax_gradient_arguments {
  const void *logits;
  const int32_t *labels;
  const float *weights;
  const tri_step_values *values;
  const void *maximum, *sum;
  void *gradient;
  int64_t vocabulary, ld, gradient_ld, first_id;
  double scale, soft_cap; /* of the form of the logits */
} softmax_gradient_arguments;

#endif
