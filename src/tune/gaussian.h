/* A Gaussian process (Rasmussen and Williams 2006): Matern 5/2 with a length for each dimension, noise, and both by
 * maximal marginal likelihood. Categories are dimensions of their own in which all values are equally far apart. */
#ifndef TRI_TUNE_GAUSSIAN_H
#define TRI_TUNE_GAUSSIAN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TRI_GAUSSIAN_DIMS = 16 };

/* What is fitted: carried from one fit to the next, which begins there. {0} begins anew. */
typedef struct tri_gaussian_state {
  double lengths[TRI_GAUSSIAN_DIMS], noise;
} tri_gaussian_state;

typedef struct tri_gaussian tri_gaussian;

/* x[count * dims] in [0, 1]; is_category[dims]; y[count]. With `fit`, the state is improved first. Everything is
 * copied. Release with tri_gaussian_destroy. */
tri_status tri_gaussian_create(int64_t dims, const bool *is_category, int64_t count, const double *x, const double *y,
                               bool fit, tri_gaussian_state *state, tri_gaussian **out);
void tri_gaussian_destroy(tri_gaussian *gaussian);

/* Mean and standard deviation (of the function, without the noise) at a place. `scratch` has room for count numbers. */
void tri_gaussian_predict(const tri_gaussian *gaussian, const double *x, double *scratch, double *mean,
                          double *deviation);

#endif
