#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                               const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                               void *moment2, void *narrow) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double correction1 = 1.0 - pow(options->beta1, (double)values->update);
  double correction2 = 1.0 - pow(options->beta2, (double)values->update);
  for (int64_t i = 0; i < count; i++) {
    double g = load(wide, gradient, i) * values->gradient_scale;
    double p = load(wide, parameter, i) * (1.0 - values->lr * options->weight_decay);
    double m = options->beta1 * load(wide, moment1, i) + (1.0 - options->beta1) * g;
    double v = options->beta2 * load(wide, moment2, i) + (1.0 - options->beta2) * g * g;
    p -= values->lr * (m / correction1) / (sqrt(v / correction2) + options->eps);
    store(wide, parameter, i, p);
    store(wide, moment1, i, m);
    store(wide, moment2, i, v);
    if (narrow != NULL) store(type, narrow, i, load(wide, parameter, i));
  }
  return TRI_OK;
}

tri_status tri_reference_block_squares(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                                       tri_exact_sum *sum) {
  (void)queue;
  for (int64_t first = 0; first < count; first += block) {
    double squares = 0;
    for (int64_t i = first; i < count && i < first + block; i++) squares += pow(load(tri_dtype_wide(type), in, i), 2.0);
    tri_exact_sum_add(sum, squares);
  }
  return TRI_OK;
}

tri_status tri_reference_sum(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out,
                             bool accumulate) {
  (void)queue;
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += load(tri_dtype_wide(type), in, i);
  *out = accumulate ? *out + sum : sum;
  return TRI_OK;
}

tri_status tri_reference_exact_add(tri_queue *queue, const double *value, tri_exact_sum *sum) {
  (void)queue;
  tri_exact_sum_add(sum, *value);
  return TRI_OK;
}
