#include "checkpoint/combine.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- means and task vectors -------------------------------------------------------------------------------------- */

/* Computes ((w0 x0 + w1 x1) + w2 x2 ...) / W, where W is the sum of the weights in the same order. */
static void combine_linear(const tri_combine_settings *s, int models, int64_t count, float *const *values,
                           const float *base, float *out) {
  float total = (float)s->weights[0];
  (void)base;
  for (int m = 1; m < models; m++) total += (float)s->weights[m];
  for (int64_t i = 0; i < count; i++) {
    float sum = (float)s->weights[0] * values[0][i];
    for (int m = 1; m < models; m++) sum += (float)s->weights[m] * values[m][i];
    out[i] = sum / total;
  }
}

/* Computes b + scale (w0 (x0 - b) + w1 (x1 - b) ...), where b is the base. */
static void combine_task(const tri_combine_settings *s, int models, int64_t count, float *const *values,
                         const float *base, float *out) {
  for (int64_t i = 0; i < count; i++) {
    float sum = (float)s->weights[0] * (values[0][i] - base[i]);
    for (int m = 1; m < models; m++) sum += (float)s->weights[m] * (values[m][i] - base[i]);
    out[i] = base[i] + (float)s->scale * sum;
  }
}

/* ---- slerp ------------------------------------------------------------------------------------------------------- */

/* Interpolates between two tensors, regarded as vectors, along the circle (Shoemake 1985); interpolates linearly if
 * they are nearly parallel or opposite, or if one is zero. */
static void combine_slerp(const tri_combine_settings *s, int models, int64_t count, float *const *values,
                          const float *base, float *out) {
  double squares[2] = {0, 0}, dot = 0, first = 1 - s->t, second = s->t;
  (void)models;
  (void)base;
  for (int64_t i = 0; i < count; i++) {
    squares[0] += (double)values[0][i] * (double)values[0][i];
    squares[1] += (double)values[1][i] * (double)values[1][i];
    dot += (double)values[0][i] * (double)values[1][i];
  }
  const double norms = sqrt(squares[0]) * sqrt(squares[1]), cosine = norms > 0 ? dot / norms : 1;
  if (fabs(cosine) <= 0.9995) {
    const double angle = acos(cosine);
    first = sin((1 - s->t) * angle) / sin(angle);
    second = sin(s->t * angle) / sin(angle);
  }
  for (int64_t i = 0; i < count; i++) out[i] = (float)(first * (double)values[0][i] + second * (double)values[1][i]);
}

/* ---- TIES -------------------------------------------------------------------------------------------------------- */

/* Returns the bits of |value|, which are ordered like the magnitudes. */
static uint32_t magnitude(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits & 0x7fffffffU;
}

/* Returns the bits of the k-th largest magnitude, k >= 1: finds, bit by bit from the highest, the largest bound that at
 * least k magnitudes reach. */
static uint32_t kth_magnitude(const float *values, int64_t count, int64_t k) {
  uint32_t found = 0;
  for (int bit = 30; bit >= 0; bit--) {
    const uint32_t with = found | (1U << bit);
    int64_t reach = 0;
    for (int64_t i = 0; i < count; i++) reach += magnitude(values[i]) >= with;
    if (reach >= k) found = with;
  }
  return found;
}

/* Sets all elements to 0 except the floor(density count) ones of largest magnitude; of equal magnitudes, the first are
 * kept. */
static void trim(float *values, int64_t count, double density) {
  int64_t left = (int64_t)(density * (double)count), larger = 0;
  if (left >= count) return;
  const uint32_t bound = left > 0 ? kth_magnitude(values, count, left) : UINT32_MAX;
  for (int64_t i = 0; i < count; i++) larger += magnitude(values[i]) > bound;
  left -= larger;
  for (int64_t i = 0; i < count; i++) {
    const uint32_t size = magnitude(values[i]);
    if (size > bound || (size == bound && left-- > 0)) continue;
    values[i] = 0;
  }
}

/* TIES (Yadav et al. 2023): trims each model's differences from the base and elects, for each element, the sign of
 * their weighted sum; then adds to the base `scale` times the weighted mean of the differences whose weighted values
 * have that sign. */
static void combine_ties(const tri_combine_settings *s, int models, int64_t count, float *const *values,
                         const float *base, float *out) {
  for (int m = 0; m < models; m++) {
    for (int64_t i = 0; i < count; i++) values[m][i] -= base[i];
    trim(values[m], count, s->density);
  }
  for (int64_t i = 0; i < count; i++) {
    float elected = 0, sum = 0, weights = 0;
    for (int m = 0; m < models; m++) elected += (float)s->weights[m] * values[m][i];
    for (int m = 0; m < models; m++) {
      const float term = (float)s->weights[m] * values[m][i];
      if (elected >= 0 ? !(term > 0) : !(term < 0)) continue;
      sum += term;
      weights += (float)s->weights[m];
    }
    if (fabsf(weights) < 1e-8F) weights = 1;
    out[i] = base[i] + (float)s->scale * (sum / weights);
  }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tri_combine_method methods[] = {
    {.name = "linear", .combine = combine_linear, .weights = true},
    {.name = "task_arithmetic", .combine = combine_task, .base = true, .weights = true, .scale = true},
    {.name = "slerp", .combine = combine_slerp, .models = 2, .t = true},
    {.name = "ties", .combine = combine_ties, .base = true, .weights = true, .scale = true, .density = true},
};

const tri_combine_method *tri_combine_find(const char *name) {
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
    if (strcmp(methods[i].name, name) == 0) return &methods[i];
  }
  return NULL;
}
