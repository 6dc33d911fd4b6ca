/* AdamW, element by element: each element is read and written once, 16 bytes at a time if all addresses allow it. */
#include "device/gpu/kernels/optimizer.h"

#include "device/gpu/kernels/wide.h"

/* Factors that are the same for all elements: computed in double, by one thread of each block, and rounded to the wide
 * type. */
typedef struct adamw_factors {
  wide gradient_scale, decay, beta1, beta2, rest1, rest2; /* rest = 1 - beta */
  wide step, inverse2, eps; /* step: lr / (1 - beta1^update). inverse2: 1 / (1 - beta2^update) */
} adamw_factors;

/* Computes the factors. Called by one thread of each block; the caller synchronises. */
DEVICE void fill_factors(const adamw_arguments *a, adamw_factors *f) {
  const tri_step_values *values = a->values;
  const double lr = values->lr * a->lr_scale;
  f->gradient_scale = (wide)values->gradient_scale;
  f->decay = (wide)(1.0 - lr * a->weight_decay);
  f->beta1 = (wide)a->beta1;
  f->beta2 = (wide)a->beta2;
  f->rest1 = (wide)(1.0 - a->beta1);
  f->rest2 = (wide)(1.0 - a->beta2);
  f->step = (wide)(lr / (1.0 - whole_power(a->beta1, values->update)));
  f->inverse2 = (wide)(1.0 / (1.0 - whole_power(a->beta2, values->update)));
  f->eps = (wide)a->eps;
}

/* Updates one element of the parameter and of its moments. Multiply-adds are explicit: the compiler might contract
 * differently for vectors and for the remaining elements. */
DEVICE void update(const adamw_factors *f, wide gradient, wide *parameter, wide *moment1, wide *moment2) {
  const wide g = gradient * f->gradient_scale;
  const wide m = wide_multiply_add(f->beta1, *moment1, f->rest1 * g);
  const wide v = wide_multiply_add(f->beta2, *moment2, f->rest2 * g * g);
  *parameter = wide_multiply_add(*parameter, f->decay, -(f->step * m / (wide_sqrt(v * f->inverse2) + f->eps)));
  *moment1 = m;
  *moment2 = v;
}

KERNEL(adamw) {
  SHARED(adamw_factors, shared);
  wide *parameter = (wide *)a.parameter, *moment1 = (wide *)a.moment1, *moment2 = (wide *)a.moment2;
  const wide *gradient = (const wide *)a.gradient;
  element *narrow = (element *)a.narrow;
  if (thread() == 0) fill_factors(&a, shared);
  barrier();
  const adamw_factors f = *shared;
  const int whole = is_aligned(parameter) && is_aligned(gradient) && is_aligned(moment1) && is_aligned(moment2) &&
                    ((uintptr_t)narrow & 7u) == 0;
  const int64_t vectors = whole ? a.count / WIDE_VECTOR : 0, first = block_x() * threads() + thread();
  for (int64_t i = first; i < vectors; i += blocks_x() * threads()) {
    wide p[WIDE_VECTOR], g[WIDE_VECTOR], m[WIDE_VECTOR], v[WIDE_VECTOR];
    load_16_bytes(parameter + i * WIDE_VECTOR, p);
    load_16_bytes(gradient + i * WIDE_VECTOR, g);
    load_16_bytes(moment1 + i * WIDE_VECTOR, m);
    load_16_bytes(moment2 + i * WIDE_VECTOR, v);
    for (int j = 0; j < WIDE_VECTOR; j++) update(&f, g[j], &p[j], &m[j], &v[j]);
    store_16_bytes(parameter + i * WIDE_VECTOR, p);
    store_16_bytes(moment1 + i * WIDE_VECTOR, m);
    store_16_bytes(moment2 + i * WIDE_VECTOR, v);
    if (narrow != 0) store_narrow_vector(narrow + i * WIDE_VECTOR, p);
  }
  for (int64_t i = vectors * WIDE_VECTOR + first; i < a.count; i += blocks_x() * threads()) {
    update(&f, gradient[i], &parameter[i], &moment1[i], &moment2[i]);
    if (narrow != 0) store_narrow(narrow + i, parameter[i]);
  }
}
