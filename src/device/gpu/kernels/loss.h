/* Softmax and its loss: kernels/loss.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_LOSS_H
#define TRI_DEVICE_GPU_KERNELS_LOSS_H

#include "device/completions.h"
#include "device/gpu/kernels/threads.h"
#include "device/policy.h"
#include "device/step_values.h"

#include <stdint.h>

#define TRI_GPU_KERNELS_loss(K)                                                                                        \
  K(softmax_logits, 256)                                                                                               \
  K(softmax_statistics, 256)                                                                                           \
  K(softmax_rescale, 256)                                                                                              \
  K(softmax_loss, 256)                                                                                                 \
  K(softmax_gradient, 256)                                                                                             \
  K(softmax_spread, 256)                                                                                               \
  K(entropy_terms, 256)                                                                                                \
  K(softmax_gradient_entropy, 256)                                                                                     \
  K(label_log_probs, 256)                                                                                              \
  K(completion_slopes, 64)                                                                                             \
  K(label_factors, 256)                                                                                                \
  K(policy_sums, 64)                                                                                                   \
  K(policy_factors, 256)                                                                                               \
  K(sum_doubles, 256)
enum { TRI_GPU_KERNELS_loss(TRI_GPU_THREADS) };

/* One block per row. The logits are wide, and are replaced by scaled ones, with a soft cap (0: none). */
typedef struct softmax_logits_arguments {
  void *logits;
  int64_t vocabulary, ld;
  double scale, soft_cap;
} softmax_logits_arguments;

/* One block per row. All arrays except labels are wide. maximum, sum and label_logit [rows] are those of the ids
 * first_id .. first_id + vocabulary - 1; label_logit is 0 if the label is not one of them. */
typedef struct softmax_statistics_arguments {
  const void *logits;
  const int32_t *labels;
  void *maximum, *sum, *label_logit;
  int64_t vocabulary, ld, first_id;
} softmax_statistics_arguments;

/* sum[rows] *= exp(from - to): sums for the maxima `from` become sums for the maxima `to`. */
typedef struct softmax_rescale_arguments {
  const void *from, *to;
  void *sum;
  int64_t rows;
} softmax_rescale_arguments;

/* losses[rows], wide: weighted cross entropy; 0 in rows without a label (a label below 0). */
typedef struct softmax_loss_arguments {
  const int32_t *labels;
  const float *weights;
  const void *maximum, *sum, *label_logit;
  void *losses;
  int64_t rows;
} softmax_loss_arguments;

/* One block per row. logits, maximum and sum are wide; the gradient has elements. */
typedef struct softmax_gradient_arguments {
  const void *logits;
  const int32_t *labels;
  const float *weights;
  const double *factors; /* factor of each row's gradient; NULL: the row's weight times the step's loss_scale */
  const tri_step_values *values;
  const void *maximum, *sum;
  void *gradient;
  int64_t vocabulary, ld, gradient_ld, first_id;
  double scale, soft_cap; /* scale and soft cap of the logits, as in softmax_logits_arguments */
} softmax_gradient_arguments;

/* One block per row. All arrays are wide. */
typedef struct softmax_spread_arguments {
  const void *logits, *maximum;
  void *spread; /* [rows]: sum of exp(logit - maximum) (logit - maximum) */
  int64_t vocabulary, ld;
} softmax_spread_arguments;

/* One thread per row. sum and spread are wide. */
typedef struct entropy_terms_arguments {
  const int32_t *labels;
  const float *weights;
  const tri_step_values *values;
  const void *sum, *spread;
  double *slopes, *means, *losses; /* [rows]; losses are decreased by the entropy bonus */
  double coefficient;
  int64_t rows;
} entropy_terms_arguments;

/* One block per row. Members are as in softmax_gradient_arguments; factors, slopes and means [rows] are not NULL. */
typedef struct softmax_gradient_entropy_arguments {
  const void *logits;
  const int32_t *labels;
  const double *factors, *slopes, *means;
  const void *maximum, *sum;
  void *gradient;
  int64_t vocabulary, ld, gradient_ld, first_id;
  double scale, soft_cap;
} softmax_gradient_entropy_arguments;

/* One thread per row. maximum, sum and label_logit are wide. log_probs[rows] is also written to whole[places], unless
 * `whole` is NULL. */
typedef struct label_log_probs_arguments {
  const int32_t *labels, *places;
  const void *maximum, *sum, *label_logit;
  double *log_probs, *whole;
  int64_t rows;
} label_log_probs_arguments;

/* One thread per pair. */
typedef struct completion_slopes_arguments {
  tri_completions completions;
  const int32_t *segments;
  const double *log_probs, *reference;
  const tri_step_values *values;
  double *slopes, *losses;
} completion_slopes_arguments;

/* One thread per row. */
typedef struct label_factors_arguments {
  tri_completions completions;
  const int32_t *labels;
  const float *weights;
  const int32_t *places, *segments;
  const double *slopes, *log_probs;
  const tri_step_values *values;
  double *factors, *losses;
  int64_t rows;
} label_factors_arguments;

/* One thread per possible completion: policy.sequences * policy.tokens of them. */
typedef struct policy_sums_arguments {
  tri_policy_batch policy;
  tri_policy_columns columns;
  const int32_t *segments;
  const double *log_probs;
  tri_policy_sums *sums;
} policy_sums_arguments;

/* One thread per row. */
typedef struct policy_factors_arguments {
  tri_policy_batch policy;
  tri_policy_columns columns;
  const int32_t *labels, *places, *segments;
  const tri_policy_sums *sums;
  const double *log_probs;
  double *factors, *losses;
  int64_t rows;
} policy_factors_arguments;

/* One block. */
typedef struct sum_doubles_arguments {
  const double *in;
  double *out;
  int64_t count;
  int32_t accumulate;
  int32_t no_padding;
} sum_doubles_arguments;

#endif
