/* Launches the kernels of kernels/loss.c. */
#include "device/gpu/internal.h"

/* Returns the shape with a thread for each row. */
static tri_gpu_shape threads_of_rows(int64_t rows, int threads) {
  return (tri_gpu_shape){.x = (rows + threads - 1) / threads};
}

static tri_status gpu_softmax_logits(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                     tri_logit_form form, void *logits) {
  const tri_gpu_shape a_block_each = {.x = rows};
  TRI_GPU_LAUNCH(softmax_logits, type, a_block_each, .logits = logits, .vocabulary = vocabulary, .ld = ld,
                 .scale = form.scale, .soft_cap = form.soft_cap);
  return TRI_OK;
}

static tri_status gpu_softmax_statistics(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                         const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                         void *sum, void *label_logit) {
  const tri_gpu_shape a_block_each = {.x = rows};
  TRI_GPU_LAUNCH(softmax_statistics, type, a_block_each, .logits = logits, .labels = labels, .maximum = maximum,
                 .sum = sum, .label_logit = label_logit, .vocabulary = vocabulary, .ld = ld, .first_id = first_id);
  return TRI_OK;
}

static tri_status gpu_softmax_rescale(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                      void *sum) {
  TRI_GPU_LAUNCH(softmax_rescale, type, threads_of_rows(rows, softmax_rescale_threads), .from = from, .to = to,
                 .sum = sum, .rows = rows);
  return TRI_OK;
}

static tri_status gpu_softmax_loss(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                   const float *weights, const void *maximum, const void *sum, const void *label_logit,
                                   void *losses) {
  TRI_GPU_LAUNCH(softmax_loss, type, threads_of_rows(rows, softmax_loss_threads), .labels = labels, .weights = weights,
                 .maximum = maximum, .sum = sum, .label_logit = label_logit, .losses = losses, .rows = rows);
  return TRI_OK;
}

static tri_status gpu_softmax_gradient(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                       tri_logit_form form, const void *logits, const int32_t *labels,
                                       const float *weights, const double *factors, int64_t first_id,
                                       const tri_step_values *values, const void *maximum, const void *sum,
                                       int64_t gradient_ld, void *gradient) {
  const tri_gpu_shape a_block_each = {.x = rows};
  TRI_GPU_LAUNCH(softmax_gradient, type, a_block_each, .logits = logits, .labels = labels, .weights = weights,
                 .factors = factors, .values = values, .maximum = maximum, .sum = sum, .gradient = gradient,
                 .vocabulary = vocabulary, .ld = ld, .gradient_ld = gradient_ld, .first_id = first_id,
                 .scale = form.scale, .soft_cap = form.soft_cap);
  return TRI_OK;
}

static tri_status gpu_softmax_spread(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                     const void *logits, const void *maximum, void *spread) {
  const tri_gpu_shape a_block_each = {.x = rows};
  TRI_GPU_LAUNCH(softmax_spread, type, a_block_each, .logits = logits, .maximum = maximum, .spread = spread,
                 .vocabulary = vocabulary, .ld = ld);
  return TRI_OK;
}

static tri_status gpu_entropy_terms(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                    const float *weights, double coefficient, const tri_step_values *values,
                                    const void *sum, const void *spread, double *slopes, double *means,
                                    double *losses) {
  TRI_GPU_LAUNCH(entropy_terms, type, threads_of_rows(rows, entropy_terms_threads), .labels = labels,
                 .weights = weights, .values = values, .sum = sum, .spread = spread, .slopes = slopes, .means = means,
                 .losses = losses, .coefficient = coefficient, .rows = rows);
  return TRI_OK;
}

static tri_status gpu_softmax_gradient_entropy(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary,
                                               int64_t ld, tri_logit_form form, const void *logits,
                                               const int32_t *labels, const double *factors, const double *slopes,
                                               const double *means, int64_t first_id, const void *maximum,
                                               const void *sum, int64_t gradient_ld, void *gradient) {
  const tri_gpu_shape a_block_each = {.x = rows};
  TRI_GPU_LAUNCH(softmax_gradient_entropy, type, a_block_each, .logits = logits, .labels = labels, .factors = factors,
                 .slopes = slopes, .means = means, .maximum = maximum, .sum = sum, .gradient = gradient,
                 .vocabulary = vocabulary, .ld = ld, .gradient_ld = gradient_ld, .first_id = first_id,
                 .scale = form.scale, .soft_cap = form.soft_cap);
  return TRI_OK;
}

/* ---- objectives of completions ----------------------------------------------------------------------------------- */

static tri_status gpu_label_log_probs(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                                      const int32_t *places, const void *maximum, const void *sum,
                                      const void *label_logit, double *log_probs, double *whole) {
  TRI_GPU_LAUNCH(label_log_probs, type, threads_of_rows(rows, label_log_probs_threads), .labels = labels,
                 .places = places, .maximum = maximum, .sum = sum, .label_logit = label_logit, .log_probs = log_probs,
                 .whole = whole, .rows = rows);
  return TRI_OK;
}

static tri_status gpu_completion_slopes(tri_queue *queue, const tri_completions *completions, const int32_t *segments,
                                        const double *log_probs, const double *reference, const tri_step_values *values,
                                        double *slopes, double *losses) {
  const int64_t pairs = completions->sequences * completions->pairs;
  TRI_GPU_LAUNCH(completion_slopes, TRI_FP64, threads_of_rows(pairs, completion_slopes_threads),
                 .completions = *completions, .segments = segments, .log_probs = log_probs, .reference = reference,
                 .values = values, .slopes = slopes, .losses = losses);
  return TRI_OK;
}

static tri_status gpu_label_factors(tri_queue *queue, const tri_completions *completions, int64_t rows,
                                    const int32_t *labels, const float *weights, const int32_t *places,
                                    const int32_t *segments, const double *slopes, const double *log_probs,
                                    const tri_step_values *values, double *factors, double *losses) {
  TRI_GPU_LAUNCH(label_factors, TRI_FP64, threads_of_rows(rows, label_factors_threads), .completions = *completions,
                 .labels = labels, .weights = weights, .places = places, .segments = segments, .slopes = slopes,
                 .log_probs = log_probs, .values = values, .factors = factors, .losses = losses, .rows = rows);
  return TRI_OK;
}

static tri_status gpu_policy_sums(tri_queue *queue, const tri_policy_batch *policy, const int32_t *segments,
                                  const double *advantage, const double *normaliser, const double *old,
                                  const double *behaviour, const double *reference, const double *log_probs,
                                  void *sums) {
  TRI_GPU_LAUNCH(policy_sums, TRI_FP64, threads_of_rows(policy->sequences * policy->tokens, policy_sums_threads),
                 .policy = *policy, .columns = {advantage, normaliser, old, behaviour, reference}, .segments = segments,
                 .log_probs = log_probs, .sums = sums);
  return TRI_OK;
}

static tri_status gpu_policy_factors(tri_queue *queue, const tri_policy_batch *policy, int64_t rows,
                                     const int32_t *labels, const int32_t *places, const int32_t *segments,
                                     const double *advantage, const double *normaliser, const double *old,
                                     const double *behaviour, const double *reference, const void *sums,
                                     const double *log_probs, double *factors, double *losses) {
  TRI_GPU_LAUNCH(policy_factors, TRI_FP64, threads_of_rows(rows, policy_factors_threads), .policy = *policy,
                 .columns = {advantage, normaliser, old, behaviour, reference}, .labels = labels, .places = places,
                 .segments = segments, .sums = sums, .log_probs = log_probs, .factors = factors, .losses = losses,
                 .rows = rows);
  return TRI_OK;
}

static tri_status gpu_sum_doubles(tri_queue *queue, int64_t count, const double *in, double *out, bool accumulate) {
  TRI_GPU_LAUNCH(sum_doubles, TRI_FP64, ((tri_gpu_shape){.x = 1}), .in = in, .out = out, .count = count,
                 .accumulate = accumulate);
  return TRI_OK;
}

void tri_gpu_fill_loss(tri_device_kernels *out) {
  out->softmax_logits = gpu_softmax_logits;
  out->softmax_statistics = gpu_softmax_statistics;
  out->softmax_rescale = gpu_softmax_rescale;
  out->softmax_loss = gpu_softmax_loss;
  out->softmax_gradient = gpu_softmax_gradient;
  out->label_log_probs = gpu_label_log_probs;
  out->completion_slopes = gpu_completion_slopes;
  out->label_factors = gpu_label_factors;
  out->softmax_spread = gpu_softmax_spread;
  out->entropy_terms = gpu_entropy_terms;
  out->softmax_gradient_entropy = gpu_softmax_gradient_entropy;
  out->policy_sums = gpu_policy_sums;
  out->policy_factors = gpu_policy_factors;
  out->sum_doubles = gpu_sum_doubles;
}
