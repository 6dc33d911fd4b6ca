/* A Gaussian process (Rasmussen and Williams 2006) with a Matern 5/2 kernel: a length for each dimension, a strength
 * and noise, all fitted by maximizing the marginal likelihood times a prior. Categories are dimensions in which all
 * values are equally far apart. */
#ifndef TRI_TUNE_GAUSSIAN_H
#define TRI_TUNE_GAUSSIAN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_GAUSSIAN_DIMS = 16, TRI_GAUSSIAN_NUMBERS = TRI_GAUSSIAN_DIMS + 2 };

/* Logarithms of the fitted hyperparameters: lengths [dims], strength, noise (both variances, for targets of variance
 * 1). A fit starts from the result of the previous fit; {0}: no fit yet. */
typedef struct tri_gaussian_state {
  double log[TRI_GAUSSIAN_NUMBERS];
  bool begun;
} tri_gaussian_state;

typedef struct tri_gaussian tri_gaussian;

/* Creates a model of x[count * dims] in [0, 1]; is_category[dims]; y[count]. All are copied. First fits *state from
 * one or two starting points, each with about `evaluations` evaluations of the likelihood (of count^3 operations); 0:
 * no fit. More noise is added if the covariance is singular. Release with tri_gaussian_destroy. */
tri_status tri_gaussian_create(int64_t dims, const bool *is_category, int64_t count, const double *x, const double *y,
                               int evaluations, tri_gaussian_state *state, tri_gaussian **out);
void tri_gaussian_destroy(tri_gaussian *gaussian);

/* Computes the means and the standard deviations of the function, without noise, at x[count * dims]; deviations may be
 * NULL. */
tri_status tri_gaussian_predict(const tri_gaussian *gaussian, int64_t count, const double *x, double *means,
                                double *deviations);

#endif
