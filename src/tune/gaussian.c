#include "tune/gaussian.h"

#include "base/memory.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

struct tri_gaussian {
  int64_t dims, count;
  bool is_category[TRI_GAUSSIAN_DIMS];
  double log[TRI_GAUSSIAN_NUMBERS],
      inverse_squares[TRI_GAUSSIAN_DIMS]; /* log: logarithms of the hyperparameters; inverse_squares: 1 / length^2 of
                                             each dimension */
  double strength, noise;
  /* x: points [count * dims]. factor: lower Cholesky factor of the covariance [count * count], row-major. inverse:
   * scratch of slope_of [count * count]. targets: (y - mean) / scale [count]. weights: inverse covariance times targets
   * [count]. */
  double *x, *factor, *inverse, *weights, *targets;
  double mean, scale; /* mean and standard deviation of y */
};

/* Prior of the hyperparameters: a normal distribution of the logarithm of each. A length is about the size of the
 * space, the strength is about that of the targets, and the noise is small. The prior prevents overfitting to few
 * points. */
static const double LENGTH = -0.35, LENGTH_VARIANCE = 0.5, STRENGTH_VARIANCE = 2, NOISE = -8, NOISE_VARIANCE = 12;

enum { BLOCK = 16 };

/* ---- likelihood -------------------------------------------------------------------------------------------------- */

static void unpack(tri_gaussian *g) {
  for (int64_t d = 0; d < g->dims; d++) g->inverse_squares[d] = exp(-2 * g->log[d]);
  g->strength = exp(g->log[g->dims]);
  g->noise = exp(g->log[g->dims + 1]);
}

static double scaled_difference(const tri_gaussian *g, int64_t d, const double *a, const double *b) {
  double difference = g->is_category[d] ? (a[d] != b[d]) : a[d] - b[d];
  return difference * difference * g->inverse_squares[d];
}

static double covariance(const tri_gaussian *g, const double *a, const double *b) {
  double squared = 0;
  for (int64_t d = 0; d < g->dims; d++) squared += scaled_difference(g, d, a, b);
  double r = sqrt(5.0 * squared);
  return g->strength * (1.0 + r + r * r / 3.0) * exp(-r);
}

/* Returns the negative logarithm of the hyperparameters' prior. Adds its gradient to `slope`, unless `slope` is
 * NULL. */
static double unlikely(const tri_gaussian *g, double *slope) {
  double sum = 0;
  for (int64_t i = 0; i < g->dims + 2; i++) {
    double centre = i < g->dims ? LENGTH : i == g->dims ? 0 : NOISE;
    double variance = i < g->dims ? LENGTH_VARIANCE : i == g->dims ? STRENGTH_VARIANCE : NOISE_VARIANCE;
    sum += 0.5 * (g->log[i] - centre) * (g->log[i] - centre) / variance;
    if (slope != NULL) slope[i] += (g->log[i] - centre) / variance;
  }
  return sum;
}

/* Factors the covariance and solves for the weights. Returns the negative logarithm of the posterior up to a constant,
 * or infinity if the covariance cannot be factored. The posterior is the marginal likelihood (Rasmussen and Williams,
 * eq. 2.30) times the prior of the hyperparameters. */
static double factorise(tri_gaussian *g) {
  lapack_int n = (lapack_int)g->count;
  unpack(g);
  for (int64_t i = 0; i < g->count; i++) {
    for (int64_t j = 0; j < i; j++) {
      g->factor[i * g->count + j] = covariance(g, g->x + i * g->dims, g->x + j * g->dims);
    }
    g->factor[i * g->count + i] = g->strength + g->noise + 1e-9;
  }
  if (LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'U', n, g->factor, n) != 0) return INFINITY;
  memcpy(g->weights, g->targets, (size_t)g->count * sizeof *g->weights);
  LAPACKE_dpotrs(LAPACK_COL_MAJOR, 'U', n, 1, g->factor, n, g->weights, n);
  double value = 0;
  for (int64_t i = 0; i < g->count; i++) {
    value += 0.5 * g->targets[i] * g->weights[i] + log(g->factor[i * g->count + i]);
  }
  return value + unlikely(g, NULL);
}

/* Computes slope[dims + 2], the gradient of the negative logarithm of the posterior (Rasmussen and Williams, eq. 5.9).
 * Call it after factorise. */
static void slope_of(tri_gaussian *g, double *slope) {
  lapack_int n = (lapack_int)g->count;
  memset(slope, 0, TRI_GAUSSIAN_NUMBERS * sizeof *slope);
  memcpy(g->inverse, g->factor, (size_t)(g->count * g->count) * sizeof *g->inverse);
  LAPACKE_dpotri(LAPACK_COL_MAJOR, 'U', n, g->inverse, n);
  for (int64_t i = 0; i < g->count; i++) {
    const double *a = g->x + i * g->dims;
    double own = g->inverse[i * g->count + i] - g->weights[i] * g->weights[i];
    slope[g->dims] += 0.5 * own * g->strength;
    slope[g->dims + 1] += 0.5 * own * g->noise;
    for (int64_t j = 0; j < i; j++) {
      double terms[TRI_GAUSSIAN_DIMS], squared = 0;
      for (int64_t d = 0; d < g->dims; d++) squared += terms[d] = scaled_difference(g, d, a, g->x + j * g->dims);
      double pull = g->inverse[i * g->count + j] - g->weights[i] * g->weights[j];
      double r = sqrt(5.0 * squared), fall = g->strength * exp(-r);
      slope[g->dims] += pull * fall * (1.0 + r + r * r / 3.0);
      for (int64_t d = 0; d < g->dims; d++) slope[d] += pull * fall * (1.0 + r) * 5.0 / 3.0 * terms[d];
    }
  }
  (void)unlikely(g, slope);
}

/* ---- fitting ----------------------------------------------------------------------------------------------------- */

typedef double square[TRI_GAUSSIAN_NUMBERS][TRI_GAUSSIAN_NUMBERS];

/* Updates the inverse Hessian from the step s and the change of the gradient over this step (Broyden, Fletcher,
 * Goldfarb, Shanno). */
static void learn(square h, int64_t n, const double *s, const double *change) {
  double curve = 0, hc[TRI_GAUSSIAN_NUMBERS] = {0}, chc = 0;
  for (int64_t i = 0; i < n; i++) curve += s[i] * change[i];
  if (curve < 1e-10) return;
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) hc[i] += h[i][j] * change[j];
    chc += change[i] * hc[i];
  }
  for (int64_t i = 0; i < n; i++) {
    for (int64_t j = 0; j < n; j++) {
      h[i][j] += (1 + chc / curve) * s[i] * s[j] / curve - (hc[i] * s[j] + s[i] * hc[j]) / curve;
    }
  }
}

/* Computes the descent direction -h slope. Scales it so that no logarithm of a hyperparameter changes by more than
 * 1. */
static void direction_of(square h, int64_t n, const double *slope, double *direction) {
  double most = 0;
  for (int64_t i = 0; i < n; i++) {
    direction[i] = 0;
    for (int64_t j = 0; j < n; j++) direction[i] -= h[i][j] * slope[j];
    if (fabs(direction[i]) > most) most = fabs(direction[i]);
  }
  for (int64_t i = 0; i < n && most > 1; i++) direction[i] /= most;
}

/* Maximises the posterior from the current hyperparameters on. Returns the smallest negative logarithm of the posterior
 * that was reached. */
static double maximise(tri_gaussian *g, int evaluations) {
  int64_t n = g->dims + 2;
  square h = {{0}};
  double slope[TRI_GAUSSIAN_NUMBERS], before[TRI_GAUSSIAN_NUMBERS], direction[TRI_GAUSSIAN_NUMBERS];
  for (int64_t i = 0; i < n; i++) h[i][i] = 0.3;
  double best = factorise(g), rate = 1;
  slope_of(g, slope);
  while (evaluations-- > 0 && rate > 1e-3) {
    double step[TRI_GAUSSIAN_NUMBERS], old[TRI_GAUSSIAN_NUMBERS], change[TRI_GAUSSIAN_NUMBERS];
    direction_of(h, n, slope, direction);
    memcpy(before, g->log, sizeof before);
    memcpy(old, slope, sizeof old);
    for (int64_t i = 0; i < n; i++) g->log[i] += step[i] = rate * direction[i];
    double now = factorise(g);
    if (!(now < best)) { /* the step was too long */
      memcpy(g->log, before, sizeof before);
      rate *= 0.3;
      continue;
    }
    slope_of(g, slope);
    for (int64_t i = 0; i < n; i++) change[i] = slope[i] - old[i];
    learn(h, n, step, change);
    bool still = best - now < 1e-5;
    best = now;
    rate = 1;
    if (still) break;
  }
  return best;
}

/* Sets the hyperparameters to the result of the last fit; before the first fit, to the means of the prior. */
static void gaussian_begin(tri_gaussian *g, const tri_gaussian_state *state) {
  for (int64_t i = 0; i < g->dims + 2; i++) {
    g->log[i] = state->begun ? state->log[i] : i < g->dims ? LENGTH : i == g->dims ? 0 : NOISE;
  }
}

/* Maximises the posterior from the result of the last fit and, if there are enough evaluations, also from the means of
 * the prior, because the posterior may have several maxima. */
static void maximise_all(tri_gaussian *g, int evaluations, const tri_gaussian_state *state) {
  double found[TRI_GAUSSIAN_NUMBERS], first = maximise(g, evaluations);
  if (!state->begun || evaluations < 10) return;
  memcpy(found, g->log, sizeof found);
  gaussian_begin(g, &(tri_gaussian_state){.begun = false});
  if (maximise(g, evaluations) >= first) memcpy(g->log, found, sizeof found);
}

/* ---- the object -------------------------------------------------------------------------------------------------- */

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
                               int evaluations, tri_gaussian_state *state, tri_gaussian **out) {
  tri_gaussian *g = NULL;
  size_t n = (size_t)count;
  TRI_TRY(tri_alloc("a Gaussian process", 1, sizeof *g, &g));
  tri_status status = TRI_OK;
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", n * (size_t)dims, sizeof *g->x, &g->x), failed);
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", 2 * n * n, sizeof *g->factor, &g->factor), failed);
  TRI_TRY_GOTO(tri_alloc("a Gaussian process", 2 * n, sizeof *g->weights, &g->weights), failed);
  g->inverse = g->factor + n * n;
  g->targets = g->weights + n;
  g->dims = dims;
  g->count = count;
  memcpy(g->is_category, is_category, (size_t)dims * sizeof *is_category);
  memcpy(g->x, x, n * (size_t)dims * sizeof *x);
  normalise(g, y);
  gaussian_begin(g, state);
  if (evaluations > 0 && count > 2) maximise_all(g, evaluations, state);
  /* Points that are nearly equal at these lengths make the matrix singular. More noise makes it regular. */
  for (int i = 0; i < 8 && !isfinite(factorise(g)); i++) g->log[dims + 1] += 2;
  if (!isfinite(factorise(g))) {
    status = tri_fail_internal("the covariance of %lld trials cannot be factored", (long long)count);
    goto failed;
  }
  memcpy(state->log, g->log, sizeof g->log);
  state->begun = true;
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

/* Predicts up to BLOCK points together, which are interleaved in work[count][BLOCK], so that each number of the factor
 * is read only once for all of them. */
static void predict_block(const tri_gaussian *g, int64_t places, const double *x, double (*work)[BLOCK], double *means,
                          double *deviations) {
  double sums[BLOCK] = {0}, left[BLOCK];
  for (int64_t p = 0; p < BLOCK; p++) left[p] = g->strength;
  for (int64_t i = 0; i < g->count; i++) {
    double at[BLOCK] = {0};
    const double *row = g->factor + i * g->count;
    for (int64_t p = 0; p < places; p++) at[p] = covariance(g, g->x + i * g->dims, x + p * g->dims);
    for (int64_t p = 0; p < BLOCK; p++) sums[p] += at[p] * g->weights[i];
    if (deviations == NULL) continue;
    for (int64_t j = 0; j < i; j++) {
      for (int64_t p = 0; p < BLOCK; p++) at[p] -= row[j] * work[j][p];
    }
    for (int64_t p = 0; p < BLOCK; p++) {
      work[i][p] = at[p] / row[i];
      left[p] -= work[i][p] * work[i][p];
    }
  }
  for (int64_t p = 0; p < places; p++) {
    means[p] = g->mean + g->scale * sums[p];
    if (deviations != NULL) deviations[p] = g->scale * sqrt(left[p] > 1e-12 ? left[p] : 1e-12);
  }
}

tri_status tri_gaussian_predict(const tri_gaussian *g, int64_t count, const double *x, double *means,
                                double *deviations) {
  double(*work)[BLOCK] = NULL;
  TRI_TRY(tri_alloc("a Gaussian process", (size_t)g->count + 1, sizeof *work, &work));
  for (int64_t i = 0; i < count; i += BLOCK) {
    predict_block(g, count - i < BLOCK ? count - i : BLOCK, x + i * g->dims, work, means + i,
                  deviations == NULL ? NULL : deviations + i);
  }
  tri_free(work);
  return TRI_OK;
}
