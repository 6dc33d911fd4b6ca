#include "tune/gaussian.h"

#include "base/memory.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

struct tri_gaussian {
  int64_t dims, count;
  bool is_category[TRI_GAUSSIAN_DIMS];
  tri_gaussian_state state;
  double *x, *factor, *weights, *targets; /* factor: lower Cholesky, column by column */
  double mean, scale;
};

static double matern(double squared) {
  double r = sqrt(5.0 * squared);
  return (1.0 + r + r * r / 3.0) * exp(-r);
}

static double covariance(const tri_gaussian *g, const double *a, const double *b) {
  double squared = 0;
  for (int64_t d = 0; d < g->dims; d++) {
    double apart = g->is_category[d] ? (a[d] != b[d]) : a[d] - b[d];
    apart /= g->state.lengths[d];
    squared += apart * apart;
  }
  return matern(squared);
}

/* Factors the covariance and solves for the weights; the negative log likelihood, or infinity. Targets have unit
 * spread, so the signal's variance is 1. */
static double factorise(tri_gaussian *g) {
  lapack_int n = (lapack_int)g->count;
  for (int64_t i = 0; i < g->count; i++) {
    for (int64_t j = i; j < g->count; j++) {
      g->factor[i * g->count + j] = covariance(g, g->x + i * g->dims, g->x + j * g->dims);
    }
    g->factor[i * g->count + i] += g->state.noise + 1e-8;
  }
  if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', n, g->factor, n) != 0) return INFINITY;
  memcpy(g->weights, g->targets, (size_t)g->count * sizeof *g->weights);
  LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'L', n, 1, g->factor, n, g->weights, n);
  double value = 0;
  for (int64_t i = 0; i < g->count; i++) {
    value += 0.5 * g->targets[i] * g->weights[i] + log(g->factor[i * g->count + i]);
  }
  /* Lengths of the size of the space are as likely beforehand as any; far longer or shorter ones are not. */
  for (int64_t d = 0; d < g->dims; d++)
    value += 0.5 * log(g->state.lengths[d] / 0.7) * log(g->state.lengths[d] / 0.7) / 2.0;
  return value + 0.5 * log(g->state.noise / 1e-3) * log(g->state.noise / 1e-3) / 25.0;
}

/* One number up or down by a factor. */
static bool try_factor(tri_gaussian *g, double *number, double factor, double low, double high, double *best) {
  double before = *number;
  *number = before * factor < low ? low : before * factor > high ? high : before * factor;
  double now = *number == before ? INFINITY : factorise(g);
  if (now < *best - 1e-9) {
    *best = now;
    return true;
  }
  *number = before;
  return false;
}

static void maximise(tri_gaussian *g, bool anew) {
  double best = factorise(g);
  int rounds = anew ? 6 : 2;
  for (double step = anew ? 3.0 : 1.4; rounds > 0; rounds--, step = sqrt(step)) {
    for (int64_t d = 0; d < g->dims; d++) {
      if (!try_factor(g, &g->state.lengths[d], step, 0.03, 30, &best)) {
        try_factor(g, &g->state.lengths[d], 1 / step, 0.03, 30, &best);
      }
    }
    if (!try_factor(g, &g->state.noise, step * step, 1e-6, 1, &best)) {
      try_factor(g, &g->state.noise, 1 / (step * step), 1e-6, 1, &best);
    }
  }
}

static void normalise(tri_gaussian *g, const double *y) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < g->count; i++) sum += y[i];
  g->mean = g->count > 0 ? sum / (double)g->count : 0;
  for (int64_t i = 0; i < g->count; i++) squares += (y[i] - g->mean) * (y[i] - g->mean);
  g->scale = g->count > 1 ? sqrt(squares / (double)(g->count - 1)) : 1;
  if (!(g->scale > 1e-12)) g->scale = 1;
  for (int64_t i = 0; i < g->count; i++) g->targets[i] = (y[i] - g->mean) / g->scale;
}

tri_status tri_gaussian_create(int64_t dims, const bool *is_category, int64_t count, const double *x, const double *y,
                               bool fit, tri_gaussian_state *state, tri_gaussian **out) {
  tri_gaussian *g = NULL;
  size_t n = (size_t)count;
  TRI_TRY(tri_alloc("a Gaussian process", 1, sizeof *g, &g));
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", n * (size_t)dims, sizeof *g->x, &g->x), failed);
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", n * n, sizeof *g->factor, &g->factor), failed);
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", 2 * n, sizeof *g->weights, &g->weights), failed);
  g->targets = g->weights + n;
  g->dims = dims;
  g->count = count;
  memcpy(g->is_category, is_category, (size_t)dims * sizeof *is_category);
  memcpy(g->x, x, n * (size_t)dims * sizeof *x);
  normalise(g, y);
  bool anew = state->noise == 0;
  if (anew) {
    state->noise = 1e-3;
    for (int64_t d = 0; d < dims; d++) state->lengths[d] = 0.7;
  }
  g->state = *state;
  if (fit && count > 2) maximise(g, anew || count < 40);
  if (!isfinite(factorise(g))) {
    status = tri_fail(TRI_INTERNAL, "the covariance of %lld trials cannot be factored", (long long)count);
    goto failed;
  }
  *state = g->state;
  *out = g;
  return TRI_OK;
failed:
  tri_gaussian_destroy(g);
  return status;
}

void tri_gaussian_destroy(tri_gaussian *g) {
  if (g == NULL) return;
  tri_free(g->weights);
  tri_free(g->factor);
  tri_free(g->x);
  tri_free(g);
}

void tri_gaussian_predict(const tri_gaussian *g, const double *x, double *scratch, double *mean, double *deviation) {
  double sum = 0, left = 1;
  for (int64_t i = 0; i < g->count; i++) {
    scratch[i] = covariance(g, g->x + i * g->dims, x);
    sum += scratch[i] * g->weights[i];
  }
  /* Forward substitution by columns, which lie side by side. */
  for (int64_t i = 0; i < g->count && deviation != NULL; i++) {
    const double *column = g->factor + i * g->count;
    double at = scratch[i] / column[i];
    left -= at * at;
    for (int64_t j = i + 1; j < g->count; j++) scratch[j] -= at * column[j];
  }
  *mean = g->mean + g->scale * sum;
  if (deviation != NULL) *deviation = g->scale * sqrt(left > 1e-12 ? left : 1e-12);
}
