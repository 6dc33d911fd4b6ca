/* Optimizers other than AdamW, element by element: bound by memory bandwidth. The division into pieces does not depend
 * on the number of threads. */
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>

enum { PIECE = 8192 };

typedef struct piece {
  int64_t first, end;
} piece;

INLINE piece piece_of(int64_t first, int64_t count) {
  return (piece){first, first + PIECE < count ? first + PIECE : count};
}

/* Writes the bf16 copy of a piece that has just been updated and is still in a cache. */
INLINE void narrow_piece(piece p, const float *parameter, uint16_t *narrow) {
  FOR_VECTORS(i, count, p.first, p.end, { vf_put(TRI_BF16, narrow, i, count, vf_get(TRI_FP32, parameter, i, count)); });
}

/* ---- Lion -------------------------------------------------------------------------------------------------------- */

typedef struct lion_factors {
  float gradient, decay, step, beta1, one_minus_beta1, beta2, one_minus_beta2;
} lion_factors;

/* Returns step times the sign of x; 0 for 0 and for NaN. */
INLINE vf signed_step(vf x, float step) {
  const vi up = x > 0.0f, down = x < 0.0f;
  return (vf)((up & (vi)vf_splat(step)) | (down & (vi)vf_splat(-step)));
}

INLINE void lion_piece(const lion_factors *f, piece own, float *parameter, const float *gradient, float *moment) {
  FOR_VECTORS(i, count, own.first, own.end, {
    vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient;
    vf m = vf_get(TRI_FP32, moment, i, count);
    vf p = vf_get(TRI_FP32, parameter, i, count) * f->decay;
    vf_put(TRI_FP32, parameter, i, count, p - signed_step(m * f->beta1 + g * f->one_minus_beta1, f->step));
    vf_put(TRI_FP32, moment, i, count, m * f->beta2 + g * f->one_minus_beta2);
  });
}

static tri_status lion(tri_queue *queue, tri_dtype type, int64_t count, const tri_lion *options,
                       const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                       void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  const double lr = values->lr * options->lr_scale;
  const lion_factors f = {
      .gradient = (float)values->gradient_scale,
      .decay = (float)(1.0 - lr * options->weight_decay),
      .step = (float)lr,
      .beta1 = (float)options->beta1,
      .one_minus_beta1 = (float)(1.0 - options->beta1),
      .beta2 = (float)options->beta2,
      .one_minus_beta2 = (float)(1.0 - options->beta2),
  };
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    const piece own = piece_of(first, count);
    lion_piece(&f, own, parameter, gradient, moment);
    if (narrows) narrow_piece(own, parameter, narrow);
  }
  return TRI_OK;
}

/* ---- SGD --------------------------------------------------------------------------------------------------------- */

typedef struct sgd_factors {
  float gradient, decay, momentum, step;
} sgd_factors;

INLINE void sgd_piece(bool nesterov, const sgd_factors *f, piece own, float *parameter, const float *gradient,
                      float *moment) {
  FOR_VECTORS(i, count, own.first, own.end, {
    vf p = vf_get(TRI_FP32, parameter, i, count);
    vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient + p * f->decay;
    vf m = vf_get(TRI_FP32, moment, i, count) * f->momentum + g;
    vf_put(TRI_FP32, moment, i, count, m);
    vf_put(TRI_FP32, parameter, i, count, p - (nesterov ? g + m * f->momentum : m) * f->step);
  });
}

static tri_status sgd(tri_queue *queue, tri_dtype type, int64_t count, const tri_sgd *options,
                      const tri_step_values *values, void *parameter, const void *gradient, void *moment,
                      void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  const bool nesterov = options->nesterov;
  const sgd_factors f = {
      .gradient = (float)values->gradient_scale,
      .decay = (float)options->weight_decay,
      .momentum = (float)options->momentum,
      .step = (float)(values->lr * options->lr_scale),
  };
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    const piece own = piece_of(first, count);
    if (nesterov) {
      sgd_piece(true, &f, own, parameter, gradient, moment);
    } else {
      sgd_piece(false, &f, own, parameter, gradient, moment);
    }
    if (narrows) narrow_piece(own, parameter, narrow);
  }
  return TRI_OK;
}

/* ---- schedule-free AdamW ----------------------------------------------------------------------------------------- */

typedef struct schedule_free_factors {
  float gradient, beta2, one_minus_beta2, root, eps, decay, average, y_step, z_step;
} schedule_free_factors;

INLINE void schedule_free_piece(const schedule_free_factors *f, piece own, float *y, const float *gradient, float *z,
                                float *moment2) {
  FOR_VECTORS(i, count, own.first, own.end, {
    vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient;
    vf at_y = vf_get(TRI_FP32, y, i, count);
    vf at_z = vf_get(TRI_FP32, z, i, count);
    vf v = vf_get(TRI_FP32, moment2, i, count) * f->beta2 + g * g * f->one_minus_beta2;
    vf n = g / (vf_root(v) * f->root + f->eps) + at_y * f->decay;
    vf_put(TRI_FP32, moment2, i, count, v);
    vf_put(TRI_FP32, z, i, count, at_z - n * f->z_step);
    vf_put(TRI_FP32, y, i, count, at_y + (at_z - at_y) * f->average + n * f->y_step);
  });
}

static tri_status schedule_free(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                                const tri_step_values *values, void *y, const void *gradient, void *z, void *moment2,
                                void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  const double lr = values->lr * options->lr_scale;
  const schedule_free_factors f = {
      .gradient = (float)values->gradient_scale,
      .beta2 = (float)options->beta2,
      .one_minus_beta2 = (float)(1.0 - options->beta2),
      .root = (float)(1.0 / sqrt(1.0 - pow(options->beta2, (double)values->update))),
      .eps = (float)options->eps,
      .decay = (float)options->weight_decay,
      .average = (float)values->average,
      .y_step = (float)(lr * (options->beta1 * (1.0 - values->average) - 1.0)),
      .z_step = (float)lr,
  };
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    const piece own = piece_of(first, count);
    schedule_free_piece(&f, own, y, gradient, z, moment2);
    if (narrows) narrow_piece(own, y, narrow);
  }
  return TRI_OK;
}

/* ---- interpolation, and momentum --------------------------------------------------------------------------------- */

INLINE void lerp_piece(float weight, piece own, const float *a, const float *b, float *out) {
  FOR_VECTORS(i, count, own.first, own.end, {
    vf from = vf_get(TRI_FP32, a, i, count);
    vf_put(TRI_FP32, out, i, count, from + (vf_get(TRI_FP32, b, i, count) - from) * weight);
  });
}

static tri_status lerp(tri_queue *queue, tri_dtype type, int64_t count, double weight, const void *a, const void *b,
                       void *out) {
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) lerp_piece((float)weight, piece_of(first, count), a, b, out);
  return TRI_OK;
}

typedef struct momentum_factors {
  float gradient, beta, one_minus_beta;
} momentum_factors;

INLINE void momentum_piece(bool nesterov, const momentum_factors *f, piece own, const float *gradient, float *moment,
                           float *out) {
  FOR_VECTORS(i, count, own.first, own.end, {
    vf g = vf_get(TRI_FP32, gradient, i, count) * f->gradient * f->one_minus_beta;
    vf m = vf_get(TRI_FP32, moment, i, count) * f->beta + g;
    vf_put(TRI_FP32, moment, i, count, m);
    vf_put(TRI_FP32, out, i, count, nesterov ? m * f->beta + g : m);
  });
}

static tri_status momentum(tri_queue *queue, tri_dtype type, int64_t count, const tri_momentum *options,
                           const tri_step_values *values, const void *gradient, void *moment, void *out) {
  const bool nesterov = options->nesterov;
  const momentum_factors f = {(float)values->gradient_scale, (float)options->beta, (float)(1.0 - options->beta)};
  (void)type;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (count > TRI_ALONE)
  for (int64_t first = 0; first < count; first += PIECE) {
    if (nesterov) {
      momentum_piece(true, &f, piece_of(first, count), gradient, moment, out);
    } else {
      momentum_piece(false, &f, piece_of(first, count), gradient, moment, out);
    }
  }
  return TRI_OK;
}

void TRI_KERNEL(table_updates)(tri_device_kernels *table) {
  table->lion = lion;
  table->sgd = sgd;
  table->schedule_free = schedule_free;
  table->lerp = lerp;
  table->momentum = momentum;
}
