/* A Gaussian process (Rasmussen and Williams 2006) with a Matern 5/2 kernel. Its hyperparameters are a length for each
 * dimension, a strength and the noise. They maximise the marginal likelihood times a prior. A category is a dimension
 * in which all values are equally far apart. */
#ifndef TRI_TUNE_GAUSSIAN_H
#define TRI_TUNE_GAUSSIAN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_GAUSSIAN_DIMS = 16, TRI_GAUSSIAN_NUMBERS = TRI_GAUSSIAN_DIMS + 2 };

/* Logarithms of the fitted hyperparameters: lengths [dims], strength, noise. Strength and noise are variances, for
 * targets of variance 1. A fit starts from the result of the previous fit; {0} if there was no fit. */
typedef struct tri_gaussian_state {
  double log[TRI_GAUSSIAN_NUMBERS];
  /* Whether `log` has the result of an earlier call. */
  bool begun;
} tri_gaussian_state;

typedef struct tri_gaussian tri_gaussian;

/* Creates a model of the values y[count] at the points x[count * dims], which are in [0, 1]. is_category[dims] marks
 * the categories. Copies all arrays. First fits *state from one or two starting points, with about `evaluations`
 * evaluations of the likelihood from each (count^3 operations each). If `evaluations` is 0 or `count` is at most 2,
 * keeps the hyperparameters of *state without a fit. Adds more noise if the covariance is singular, and fails with
 * TRI_INTERNAL if this does not help. Release with tri_gaussian_destroy. */
tri_status tri_gaussian_create(int64_t dims, const bool *is_category, int64_t count, const double *x, const double *y,
                               int evaluations, tri_gaussian_state *state, tri_gaussian **out);
void tri_gaussian_destroy(tri_gaussian *gaussian);

/* Computes the mean and the standard deviation of the function, without noise, at each of the points x[count * dims].
 * `deviations` may be NULL. */
tri_status tri_gaussian_predict(const tri_gaussian *gaussian, int64_t count, const double *x, double *means,
                                double *deviations);

#endif
