/* Optimizers, matrix kernels of Muon, Adafactor, GaLore and Fira, and sums. */
#include "base/count.h"
#include "device/exact_sum.h"
#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_adamw(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                               const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                               void *moment2, void *narrow) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double lr = values->lr * options->lr_scale;
  double correction1 = 1.0 - pow(options->beta1, (double)values->update);
  double correction2 = 1.0 - pow(options->beta2, (double)values->update);
  for (int64_t i = 0; i < count; i++) {
    double g = load(wide, gradient, i) * values->gradient_scale;
    double p = load(wide, parameter, i) * (1.0 - lr * options->weight_decay);
    double m = options->beta1 * load(wide, moment1, i) + (1.0 - options->beta1) * g;
    double v = options->beta2 * load(wide, moment2, i) + (1.0 - options->beta2) * g * g;
    p -= lr * (m / correction1) / (sqrt(v / correction2) + options->eps);
    store(wide, parameter, i, p);
    store(wide, moment1, i, m);
    store(wide, moment2, i, v);
    if (narrow != NULL) store(type, narrow, i, load(wide, parameter, i));
  }
  return TRI_OK;
}

static void store_parameter(tri_dtype type, int64_t i, double value, void *parameter, void *narrow) {
  tri_dtype wide = tri_dtype_wide(type);
  store(wide, parameter, i, value);
  if (narrow != NULL) store(type, narrow, i, load(wide, parameter, i));
}

static double sign_of(double x) { return (double)((x > 0) - (x < 0)); }

tri_status tri_reference_lion(tri_queue *queue, tri_dtype type, int64_t count, const tri_lion *options,
                              const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                              void *narrow) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double lr = values->lr * options->lr_scale;
  for (int64_t i = 0; i < count; i++) {
    double g = load(wide, gradient, i) * values->gradient_scale, m = load(wide, moment, i);
    double p = load(wide, parameter, i) * (1.0 - lr * options->weight_decay);
    p -= lr * sign_of(options->beta1 * m + (1.0 - options->beta1) * g);
    store(wide, moment, i, options->beta2 * m + (1.0 - options->beta2) * g);
    store_parameter(type, i, p, parameter, narrow);
  }
  return TRI_OK;
}

tri_status tri_reference_sgd(tri_queue *queue, tri_dtype type, int64_t count, const tri_sgd *options,
                             const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                             void *narrow) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double lr = values->lr * options->lr_scale;
  for (int64_t i = 0; i < count; i++) {
    double p = load(wide, parameter, i);
    double g = load(wide, gradient, i) * values->gradient_scale + options->weight_decay * p;
    double m = options->momentum * load(wide, moment, i) + g;
    store(wide, moment, i, m);
    store_parameter(type, i, p - lr * (options->nesterov ? g + options->momentum * m : m), parameter, narrow);
  }
  return TRI_OK;
}

tri_status tri_reference_schedule_free(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                       const tri_step_values *values, void *y, const void *gradient, void *z,
                                       void *moment2, void *narrow) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double lr = values->lr * options->lr_scale, average = values->average;
  double correction2 = 1.0 - pow(options->beta2, (double)values->update);
  for (int64_t i = 0; i < count; i++) {
    double g = load(wide, gradient, i) * values->gradient_scale;
    double at_y = load(wide, y, i), at_z = load(wide, z, i);
    double v = options->beta2 * load(wide, moment2, i) + (1.0 - options->beta2) * g * g;
    double n = g / (sqrt(v / correction2) + options->eps) + options->weight_decay * at_y;
    double new_y = at_y + average * (at_z - at_y) + lr * (options->beta1 * (1.0 - average) - 1.0) * n;
    store(wide, moment2, i, v);
    store(wide, z, i, at_z - lr * n);
    store_parameter(type, i, new_y, y, narrow);
  }
  return TRI_OK;
}

tri_status tri_reference_lerp(tri_queue *queue, tri_dtype type, int64_t count, double weight, const void *a,
                              const void *b, void *out) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t i = 0; i < count; i++) {
    double from = load(wide, a, i);
    store(wide, out, i, from + weight * (load(wide, b, i) - from));
  }
  return TRI_OK;
}

tri_status tri_reference_momentum(tri_queue *queue, tri_dtype type, int64_t count, const tri_momentum *options,
                                  const tri_step_values *values, const void *gradient, void *moment, void *out) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  double beta = options->beta;
  for (int64_t i = 0; i < count; i++) {
    double g = load(wide, gradient, i) * values->gradient_scale;
    double m = beta * load(wide, moment, i) + (1.0 - beta) * g;
    store(wide, moment, i, m);
    store(wide, out, i, options->nesterov ? (1.0 - beta) * g + beta * m : m);
  }
  return TRI_OK;
}

/* ---- matrices ---------------------------------------------------------------------------------------------------- */

tri_status tri_reference_matrix_normalise(tri_queue *queue, tri_dtype type, const tri_matrix_copy *copy, const void *in,
                                          const tri_exact_sum *squares, double eps, void *out) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  tri_exact_sum sum = *squares;
  double norm = sqrt(tri_exact_sum_value(&sum)) + eps;
  for (int64_t r = 0; r < copy->rows; r++) {
    for (int64_t c = 0; c < copy->columns; c++) {
      store(type, out, r * copy->out_row + c * copy->out_column, load(wide, in, r * copy->in_row + c) / norm);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_matrix_polynomial(tri_queue *queue, tri_dtype type, const tri_matrix_polynomial *polynomial,
                                           const void *a, const void *b, void *out) {
  (void)queue;
  const double *factors = polynomial->factors;
  for (int64_t r = 0; r < polynomial->size; r++) {
    for (int64_t c = 0; c < polynomial->size; c++) {
      int64_t i = r * polynomial->size + c;
      double identity = r == c ? factors[0] : 0.0;
      store(type, out, i, identity + factors[1] * load(type, a, i) + factors[2] * load(type, b, i));
    }
  }
  return TRI_OK;
}

tri_status tri_reference_matrix_step(tri_queue *queue, tri_dtype type, const tri_matrix_step *step,
                                     const tri_step_values *values, const void *x, void *parameter, void *narrow) {
  (void)queue;
  double lr = values->lr * step->lr_scale, decay = 1.0 - lr * step->weight_decay, rate = lr * step->scale;
  for (int64_t r = 0; r < step->rows; r++) {
    for (int64_t c = 0; c < step->columns; c++) {
      int64_t i = r * step->parameter_row + c;
      double p = load(tri_dtype_wide(type), parameter, i) * decay;
      store_parameter(type, i, p - rate * load(type, x, r * step->x_row + c * step->x_column), parameter, narrow);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_matrix_squares(tri_queue *queue, tri_dtype type, const tri_matrix_squares *sides,
                                        const tri_step_values *values, const void *in, void *row_sums,
                                        void *column_sums) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double scale = values == NULL ? 1.0 : values->gradient_scale;
  for (int64_t r = 0; r < sides->rows && row_sums != NULL; r++) {
    double sum = 0;
    for (int64_t c = 0; c < sides->columns; c++) sum += pow(scale * load(wide, in, r * sides->columns + c), 2.0);
    store(wide, row_sums, r, sides->row_factor * sum);
  }
  for (int64_t c = 0; c < sides->columns && column_sums != NULL; c++) {
    double sum = 0;
    for (int64_t r = 0; r < sides->rows; r++) sum += pow(scale * load(wide, in, r * sides->columns + c), 2.0);
    store(wide, column_sums, c, sides->column_factor * sum);
  }
  return TRI_OK;
}

/* ---- Adafactor --------------------------------------------------------------------------------------------------- */

tri_status tri_reference_adafactor_direction(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                             const tri_step_values *values, const void *row, const void *column,
                                             const tri_adafactor_sums *sums, void *direction) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double least = options->eps[0] * options->eps[0];
  for (int64_t r = 0; r < options->rows; r++) {
    double ratio = 1;
    if (row != NULL) ratio = load(wide, row, r) / tri_larger_double(sums->rows / options->all_rows, options->eps[0]);
    for (int64_t c = 0; c < options->columns; c++) {
      const int64_t i = r * options->columns + c;
      const double g = load(wide, direction, i) * values->gradient_scale;
      store(wide, direction, i, g / sqrt(tri_larger_double(ratio * load(wide, column, c), least)));
    }
  }
  return TRI_OK;
}

tri_status tri_reference_adafactor_step(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                        const tri_step_values *values, const tri_adafactor_sums *sums,
                                        const void *direction, void *parameter, void *narrow) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double lr = values->lr * options->lr_scale, root = 1.0 / sqrt((double)values->update);
  const double size = tri_larger_double(options->eps[1], sqrt(sums->parameter / options->all_elements));
  const double rms = sqrt(sums->direction / options->all_elements);
  const double rate = size * (lr < root ? lr : root) / tri_larger_double(1.0, rms / options->d);
  for (int64_t i = 0; i < options->rows * options->columns; i++) {
    const double p = load(wide, parameter, i) * (1.0 - lr * options->weight_decay);
    store_parameter(type, i, p - rate * load(wide, direction, i), parameter, narrow);
  }
  return TRI_OK;
}

/* ---- GaLore and Fira --------------------------------------------------------------------------------------------- */

tri_status tri_reference_low_rank_adam(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                       const tri_step_values *values, const void *gradient, void *moment1,
                                       void *moment2, void *out) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  for (int64_t i = 0; i < count; i++) {
    const double g = load(wide, gradient, i) * values->gradient_scale;
    const double m = options->beta1 * load(wide, moment1, i) + (1.0 - options->beta1) * g;
    const double v = options->beta2 * load(wide, moment2, i) + (1.0 - options->beta2) * g * g;
    store(wide, moment1, i, m);
    store(wide, moment2, i, v);
    store(wide, out, i, m / (sqrt(v) + options->eps));
  }
  return TRI_OK;
}

tri_status tri_reference_low_rank_rest(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                                       const tri_step_values *values, const void *gradient, const void *adam,
                                       const void *projected, void *rest) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double scale = values->gradient_scale;
  for (int64_t r = 0; r < sides->rows; r++) {
    for (int64_t c = 0; c < sides->columns; c++) {
      const int64_t i = r * sides->columns + c, along = sides->by_rows ? r : c;
      const double left = scale * load(wide, gradient, i) - sides->scale * scale * load(wide, rest, i);
      store(wide, rest, i, left * sqrt(load(wide, adam, along)) / (sqrt(load(wide, projected, along)) + 1e-8));
    }
  }
  return TRI_OK;
}

tri_status tri_reference_low_rank_growth(tri_queue *queue, tri_dtype type, const tri_step_values *values,
                                         const double *squares, void *norm, double *factor) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double x = sqrt(*squares), growth = x / (load(wide, norm, 0) + 1e-8);
  *factor = values->update == 1 ? 1.0 : 1.01 / tri_larger_double(growth, 1.01);
  store(wide, norm, 0, x * *factor);
  return TRI_OK;
}

tri_status tri_reference_low_rank_step(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                                       const tri_step_values *values, const void *x, const void *rest,
                                       const double *factor, void *parameter, void *narrow) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(type);
  const double update = (double)values->update, lr = values->lr * step->lr_scale;
  const double corrected = sqrt(1.0 - pow(step->beta2, update)) / (1.0 - pow(step->beta1, update));
  for (int64_t r = 0; r < step->rows; r++) {
    for (int64_t c = 0; c < step->columns; c++) {
      const int64_t i = r * step->parameter_row + c, at = r * step->x_row + c;
      const double left = rest == NULL ? 0 : *factor * load(wide, rest, at);
      const double p = load(wide, parameter, i) - lr * corrected * (step->scale * load(wide, x, at) + left);
      store_parameter(type, i, p * (1.0 - lr * step->weight_decay), parameter, narrow);
    }
  }
  return TRI_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

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
