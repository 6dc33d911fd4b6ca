/* Optimizers element by element: each number is read and written once, 16 bytes at a time if all addresses allow it. A
 * thread processes WIDE_VECTOR numbers at a time, in strides of the whole grid, and no element depends on another one.
 * Multiply-adds are explicit: the compiler might contract differently for the remaining elements. */
#include "device/gpu/kernels/updates.h"

#include "device/gpu/kernels/wide.h"

/* ---- WIDE_VECTOR numbers, or the `left` remaining ones ----------------------------------------------------------- */

/* Load WIDE_VECTOR numbers, padded with zeros, and store them. `whole`: the arrays are aligned to 16 bytes. */
DEVICE void load_update_vector(const wide *from, int whole, int64_t left, wide out[WIDE_VECTOR]) {
  if (whole && left >= WIDE_VECTOR) {
    load_16_bytes(from, out);
  } else {
    for (int j = 0; j < WIDE_VECTOR; j++) out[j] = j < left ? from[j] : 0;
  }
}

DEVICE void store_update_vector(wide *to, int whole, int64_t left, const wide values[WIDE_VECTOR]) {
  if (whole && left >= WIDE_VECTOR) {
    store_16_bytes(to, values);
  } else {
    for (int j = 0; j < WIDE_VECTOR; j++) {
      if (j < left) to[j] = values[j];
    }
  }
}

/* Stores the parameter, and its copy if `narrow` is not NULL. */
DEVICE void store_parameter(wide *to, element *narrow, int64_t at, int whole, int64_t left,
                            const wide values[WIDE_VECTOR]) {
  store_update_vector(to + at, whole, left, values);
  if (narrow == 0) return;
  if (((uintptr_t)narrow & 7u) == 0 && left >= WIDE_VECTOR) {
    store_narrow_vector(narrow + at, values);
  } else {
    for (int j = 0; j < WIDE_VECTOR; j++) {
      if (j < left) store_narrow(narrow + at + j, values[j]);
    }
  }
}

/* Return the index of the first of the WIDE_VECTOR numbers that this thread processes at a time, and the step to the
 * next index. */
DEVICE int64_t first_number(void) { return (block_x() * threads() + thread()) * WIDE_VECTOR; }
DEVICE int64_t number_step(void) { return blocks_x() * threads() * WIDE_VECTOR; }

/* ---- Lion -------------------------------------------------------------------------------------------------------- */

KERNEL(lion) {
  wide *parameter = (wide *)a.parameter, *moment = (wide *)a.moment;
  const wide *gradient = (const wide *)a.gradient;
  const double lr = a.values->lr * a.lr_scale;
  const wide scale = (wide)a.values->gradient_scale, step = (wide)lr, decay = (wide)(1.0 - lr * a.weight_decay);
  const wide beta1 = (wide)a.beta1, beta2 = (wide)a.beta2, rest1 = (wide)(1.0 - a.beta1), rest2 = (wide)(1.0 - a.beta2);
  const int whole = is_aligned(parameter) && is_aligned(gradient) && is_aligned(moment);
  for (int64_t i = first_number(); i < a.count; i += number_step()) {
    const int64_t left = a.count - i;
    wide p[WIDE_VECTOR], g[WIDE_VECTOR], m[WIDE_VECTOR];
    load_update_vector(parameter + i, whole, left, p);
    load_update_vector(gradient + i, whole, left, g);
    load_update_vector(moment + i, whole, left, m);
    for (int j = 0; j < WIDE_VECTOR; j++) {
      const wide scaled = g[j] * scale, to = wide_multiply_add(beta1, m[j], rest1 * scaled);
      const wide sign = (wide)(to > 0) - (wide)(to < 0);
      p[j] = wide_multiply_add(p[j], decay, -(step * sign));
      m[j] = wide_multiply_add(beta2, m[j], rest2 * scaled);
    }
    store_parameter(parameter, (element *)a.narrow, i, whole, left, p);
    store_update_vector(moment + i, whole, left, m);
  }
}

/* ---- SGD --------------------------------------------------------------------------------------------------------- */

KERNEL(sgd) {
  wide *parameter = (wide *)a.parameter, *moment = (wide *)a.moment;
  const wide *gradient = (const wide *)a.gradient;
  const wide scale = (wide)a.values->gradient_scale, step = (wide)(a.values->lr * a.lr_scale);
  const wide decay = (wide)a.weight_decay, momentum = (wide)a.momentum;
  const int whole = is_aligned(parameter) && is_aligned(gradient) && is_aligned(moment);
  for (int64_t i = first_number(); i < a.count; i += number_step()) {
    const int64_t left = a.count - i;
    wide p[WIDE_VECTOR], g[WIDE_VECTOR], m[WIDE_VECTOR];
    load_update_vector(parameter + i, whole, left, p);
    load_update_vector(gradient + i, whole, left, g);
    load_update_vector(moment + i, whole, left, m);
    for (int j = 0; j < WIDE_VECTOR; j++) {
      const wide decayed = wide_multiply_add(decay, p[j], g[j] * scale);
      m[j] = wide_multiply_add(momentum, m[j], decayed);
      p[j] = wide_multiply_add(-step, a.nesterov ? wide_multiply_add(momentum, m[j], decayed) : m[j], p[j]);
    }
    store_parameter(parameter, (element *)a.narrow, i, whole, left, p);
    store_update_vector(moment + i, whole, left, m);
  }
}

/* ---- schedule-free AdamW ----------------------------------------------------------------------------------------- */

typedef struct schedule_free_factors {
  wide scale, beta2, rest2, inverse2, eps, decay, average, y_step, z_step;
} schedule_free_factors;

/* Computes the factors, by one thread of each block. */
DEVICE void fill_factors(const schedule_free_arguments *a, schedule_free_factors *f) {
  const tri_step_values *values = a->values;
  const double lr = values->lr * a->lr_scale;
  f->scale = (wide)values->gradient_scale;
  f->beta2 = (wide)a->beta2;
  f->rest2 = (wide)(1.0 - a->beta2);
  f->inverse2 = (wide)(1.0 / (1.0 - whole_power(a->beta2, values->update)));
  f->eps = (wide)a->eps;
  f->decay = (wide)a->weight_decay;
  f->average = (wide)values->average;
  f->y_step = (wide)(lr * (a->beta1 * (1.0 - values->average) - 1.0));
  f->z_step = (wide)-lr;
}

/* Updates one element of y, z and moment2. */
DEVICE void schedule_free_update(const schedule_free_factors *f, wide gradient, wide *y, wide *z, wide *moment2) {
  const wide g = gradient * f->scale;
  const wide v = wide_multiply_add(f->beta2, *moment2, f->rest2 * g * g);
  const wide n = wide_multiply_add(f->decay, *y, g / (wide_sqrt(v * f->inverse2) + f->eps));
  *y = wide_multiply_add(f->y_step, n, wide_multiply_add(f->average, *z - *y, *y));
  *z = wide_multiply_add(f->z_step, n, *z);
  *moment2 = v;
}

KERNEL(schedule_free) {
  SHARED(schedule_free_factors, shared);
  wide *y = (wide *)a.y, *z = (wide *)a.z, *moment2 = (wide *)a.moment2;
  const wide *gradient = (const wide *)a.gradient;
  if (thread() == 0) fill_factors(&a, shared);
  barrier();
  const schedule_free_factors f = *shared;
  const int whole = is_aligned(y) && is_aligned(gradient) && is_aligned(z) && is_aligned(moment2);
  for (int64_t i = first_number(); i < a.count; i += number_step()) {
    const int64_t left = a.count - i;
    wide at_y[WIDE_VECTOR], g[WIDE_VECTOR], at_z[WIDE_VECTOR], v[WIDE_VECTOR];
    load_update_vector(y + i, whole, left, at_y);
    load_update_vector(gradient + i, whole, left, g);
    load_update_vector(z + i, whole, left, at_z);
    load_update_vector(moment2 + i, whole, left, v);
    for (int j = 0; j < WIDE_VECTOR; j++) schedule_free_update(&f, g[j], &at_y[j], &at_z[j], &v[j]);
    store_parameter(y, (element *)a.narrow, i, whole, left, at_y);
    store_update_vector(z + i, whole, left, at_z);
    store_update_vector(moment2 + i, whole, left, v);
  }
}

/* ---- interpolation, and momentum --------------------------------------------------------------------------------- */

KERNEL(lerp) {
  const wide *from = (const wide *)a.a, *to = (const wide *)a.b;
  wide *out = (wide *)a.out;
  const wide weight = (wide)a.weight;
  const int whole = is_aligned(from) && is_aligned(to) && is_aligned(out);
  for (int64_t i = first_number(); i < a.count; i += number_step()) {
    const int64_t left = a.count - i;
    wide x[WIDE_VECTOR], y[WIDE_VECTOR];
    load_update_vector(from + i, whole, left, x);
    load_update_vector(to + i, whole, left, y);
    for (int j = 0; j < WIDE_VECTOR; j++) x[j] = wide_multiply_add(weight, y[j] - x[j], x[j]);
    store_update_vector(out + i, whole, left, x);
  }
}

KERNEL(momentum) {
  const wide *gradient = (const wide *)a.gradient;
  wide *moment = (wide *)a.moment, *out = (wide *)a.out;
  const wide scale = (wide)a.values->gradient_scale, beta = (wide)a.beta, rest = (wide)(1.0 - a.beta);
  const int whole = is_aligned(gradient) && is_aligned(moment) && is_aligned(out);
  for (int64_t i = first_number(); i < a.count; i += number_step()) {
    const int64_t left = a.count - i;
    wide g[WIDE_VECTOR], m[WIDE_VECTOR];
    load_update_vector(gradient + i, whole, left, g);
    load_update_vector(moment + i, whole, left, m);
    for (int j = 0; j < WIDE_VECTOR; j++) {
      const wide part = rest * (g[j] * scale);
      m[j] = wide_multiply_add(beta, m[j], part);
      g[j] = a.nesterov ? wide_multiply_add(beta, m[j], part) : m[j];
    }
    store_update_vector(moment + i, whole, left, m);
    store_update_vector(out + i, whole, left, g);
  }
}
