/* Element-wise parts of GaLore and Fira: bound by memory bandwidth. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

enum { PIECE = 8192 };

/* ---- Adam -------------------------------------------------------------------------------------------------------- */

typedef struct adam_factors {
  float gradient, beta1, one_minus_beta1, beta2, one_minus_beta2, eps;
} adam_factors;

INLINE void adam_piece(const adam_factors *f, int64_t first, int64_t end, const float *gradient, float *moment1,
                       float *moment2, float *out) {
  FOR_VECTORS(i, count, first, end, {
    const vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient;
    const vf m = vf_get(TRI_FP32, moment1, i, count) * f->beta1 + g * f->one_minus_beta1;
    const vf v = vf_get(TRI_FP32, moment2, i, count) * f->beta2 + g * g * f->one_minus_beta2;
    vf_put(TRI_FP32, moment1, i, count, m);
    vf_put(TRI_FP32, moment2, i, count, v);
    vf_put(TRI_FP32, out, i, count, m / (vf_root(v) + f->eps));
  });
}

static tri_status low_rank_adam(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                const tri_step_values *values, const void *gradient, void *moment1, void *moment2,
                                void *out) {
  (void)type;
  const adam_factors f = {.gradient = (float)values->gradient_scale,
                          .beta1 = (float)options->beta1,
                          .one_minus_beta1 = (float)(1.0 - options->beta1),
                          .beta2 = (float)options->beta2,
                          .one_minus_beta2 = (float)(1.0 - options->beta2),
                          .eps = (float)options->eps};
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    adam_piece(&f, first, first + PIECE < count ? first + PIECE : count, gradient, moment1, moment2, out);
  }
  return TRI_OK;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Computes a row of the rest. by_rows: the row has one factor; false: each of its columns has one. */
INLINE void rest_row(int64_t columns, float scale, float taken, bool by_rows, const float *adam, const float *projected,
                     const float *gradient, float *rest) {
  const float of_row = by_rows ? __builtin_sqrtf(*adam) / (__builtin_sqrtf(*projected) + 1e-8f) : 0;
  FOR_VECTORS(i, count, 0, columns, {
    const vf left = vf_get(TRI_FP32, gradient, i, count) * scale - vf_get(TRI_FP32, rest, i, count) * taken;
    vf factor = vf_splat(of_row);
    if (!by_rows) {
      factor = vf_root(vf_get(TRI_FP32, adam, i, count)) / (vf_root(vf_get(TRI_FP32, projected, i, count)) + 1e-8f);
    }
    vf_put(TRI_FP32, rest, i, count, left * factor);
  });
}

static tri_status low_rank_rest(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                                const tri_step_values *values, const void *gradient, const void *adam,
                                const void *projected, void *rest) {
  (void)type;
  const float scale = (float)values->gradient_scale, taken = (float)(values->gradient_scale * sides->scale);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (sides->rows * sides->columns > TRI_ALONE)
  for (int64_t r = 0; r < sides->rows; r++) {
    const int64_t along = sides->by_rows ? r : 0;
    const float *of_adam = (const float *)adam + along, *of_projected = (const float *)projected + along;
    const float *from = (const float *)gradient + r * sides->columns;
    float *to = (float *)rest + r * sides->columns;
    if (sides->by_rows) {
      rest_row(sides->columns, scale, taken, true, of_adam, of_projected, from, to);
    } else {
      rest_row(sides->columns, scale, taken, false, of_adam, of_projected, from, to);
    }
  }
  return TRI_OK;
}

static tri_status low_rank_growth(tri_queue *queue, tri_dtype type, const tri_step_values *values,
                                  const double *squares, void *norm, double *factor) {
  (void)queue;
  (void)type;
  float *kept = norm;
  const double x = sqrt(*squares), growth = x / ((double)*kept + 1e-8);
  *factor = values->update == 1 || !(growth >= 1.01) ? 1.0 : 1.01 / growth;
  *kept = (float)(x * *factor);
  return TRI_OK;
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

INLINE void step_row(int64_t columns, float decay, float rate, float rest_rate, const float *x, const float *rest,
                     float *parameter) {
  FOR_VECTORS(i, count, 0, columns, {
    vf p = vf_get(TRI_FP32, parameter, i, count) - vf_get(TRI_FP32, x, i, count) * rate;
    if (rest != NULL) p = p - vf_get(TRI_FP32, rest, i, count) * rest_rate;
    vf_put(TRI_FP32, parameter, i, count, p * decay);
  });
}

INLINE void narrow_row(int64_t columns, const float *parameter, uint16_t *narrow) {
  FOR_VECTORS(i, count, 0, columns, { vf_put(TRI_BF16, narrow, i, count, vf_get(TRI_FP32, parameter, i, count)); });
}

static tri_status low_rank_step(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                                const tri_step_values *values, const void *x, const void *rest, const double *factor,
                                void *parameter, void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  const double update = (double)values->update, lr = values->lr * step->lr_scale;
  const double rate = lr * sqrt(1.0 - pow(step->beta2, update)) / (1.0 - pow(step->beta1, update));
  const float decay = (float)(1.0 - lr * step->weight_decay), of_rest = rest == NULL ? 0 : (float)(rate * *factor);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (step->rows * step->columns > TRI_ALONE)
  for (int64_t r = 0; r < step->rows; r++) {
    const float *x_row = (const float *)x + r * step->x_row;
    const float *rest_row = rest == NULL ? NULL : (const float *)rest + r * step->x_row;
    float *own = (float *)parameter + r * step->parameter_row;
    step_row(step->columns, decay, (float)(rate * step->scale), of_rest, x_row, rest_row, own);
    if (narrows) narrow_row(step->columns, own, (uint16_t *)narrow + r * step->parameter_row);
  }
  return TRI_OK;
}

void TRI_KERNEL(table_low_rank)(tri_device_kernels *table) {
  table->low_rank_adam = low_rank_adam;
  table->low_rank_rest = low_rank_rest;
  table->low_rank_growth = low_rank_growth;
  table->low_rank_step = low_rank_step;
}
