/* Element-wise parts of GaLore and Fira, bound by memory bandwidth. Both project a gradient to a low rank, run Adam
 * there, and project the result back; Fira also uses the rest of the gradient. low_rank_adam has one thread per
 * element, low_rank_growth one thread; the kernels on matrices have one block per row of the matrix. */
#include "device/gpu/kernels/low_rank.h"

#include "device/gpu/kernels/wide.h"

/* Runs Adam in the low rank: updates the moments, and stores moment1 / (sqrt(moment2) + eps). The bias correction is a
 * factor of the rate in low_rank_step. */
KERNEL(low_rank_adam) {
  const wide *gradient = (const wide *)a.gradient;
  wide *moment1 = (wide *)a.moment1, *moment2 = (wide *)a.moment2, *out = (wide *)a.out;
  const wide scale = (wide)a.values->gradient_scale, beta1 = (wide)a.beta1, beta2 = (wide)a.beta2, eps = (wide)a.eps;
  const wide rest1 = (wide)(1.0 - a.beta1), rest2 = (wide)(1.0 - a.beta2);
  for (int64_t i = block_x() * threads() + thread(); i < a.count; i += blocks_x() * threads()) {
    const wide g = gradient[i] * scale;
    const wide m = wide_multiply_add(beta1, moment1[i], rest1 * g);
    const wide v = wide_multiply_add(beta2, moment2[i], rest2 * g * g);
    moment1[i] = m;
    moment2[i] = v;
    out[i] = m / (wide_sqrt(v) + eps);
  }
}

/* Replaces `rest`, the gradient after projection and back, by gradient_scale * (gradient - scale * rest), times the
 * ratio of the norms of Adam's result and of the projected gradient in the same row (or column). */
KERNEL(low_rank_rest) {
  const wide *gradient = (const wide *)a.gradient, *adam = (const wide *)a.adam, *projected = (const wide *)a.projected;
  wide *rest = (wide *)a.rest;
  const wide scale = (wide)a.values->gradient_scale, taken = (wide)(a.values->gradient_scale * a.scale);
  for (int64_t r = block_x(); r < a.rows; r += blocks_x()) {
    for (int64_t c = thread(); c < a.columns; c += threads()) {
      const int64_t i = r * a.columns + c, along = a.by_rows ? r : c;
      const wide left = wide_multiply_add(scale, gradient[i], -(taken * rest[i]));
      rest[i] = left * (wide_sqrt(adam[along]) / (wide_sqrt(projected[along]) + (wide)1e-8));
    }
  }
}

/* Limits the growth of the norm of the rest to 1% per step, except in the first update: stores the factor of the rest,
 * and the limited norm. One thread. */
KERNEL(low_rank_growth) {
  if (thread() > 0) return;
  wide *norm = (wide *)a.norm;
  const double x = sqrt(*a.squares), growth = x / ((double)*norm + 1e-8);
  const double factor = a.values->update == 1 || !(growth >= 1.01) ? 1.0 : 1.01 / growth;
  *a.factor = factor;
  *norm = (wide)(x * factor);
}

KERNEL(low_rank_step) {
  const wide *x = (const wide *)a.x, *rest = (const wide *)a.rest;
  wide *parameter = (wide *)a.parameter;
  element *narrow = (element *)a.narrow;
  const double lr = a.values->lr * a.lr_scale, corrected2 = 1.0 - whole_power(a.beta2, a.values->update);
  const double rate = lr * sqrt(corrected2) / (1.0 - whole_power(a.beta1, a.values->update));
  const wide decay = (wide)(1.0 - lr * a.weight_decay), of_x = (wide)(rate * a.scale);
  const wide of_rest = rest == 0 ? (wide)0 : (wide)(rate * *a.factor);
  for (int64_t r = block_x(); r < a.rows; r += blocks_x()) {
    for (int64_t c = thread(); c < a.columns; c += threads()) {
      const int64_t i = r * a.parameter_row + c, at = r * a.x_row + c;
      wide p = wide_multiply_add(-of_x, x[at], parameter[i]);
      if (rest != 0) p = wide_multiply_add(-of_rest, rest[at], p);
      p *= decay;
      parameter[i] = p;
      if (narrow != 0) store_narrow(narrow + i, p);
    }
  }
}
