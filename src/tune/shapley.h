/* Importance of parameters: Shapley values (Lundberg and Lee 2017) of a model of the trials, over all subsets of
 * parameters. */
#ifndef TRI_TUNE_SHAPLEY_H
#define TRI_TUNE_SHAPLEY_H

#include "tune/gaussian.h"

enum { TRI_SHAPLEY_DIMS = 12 };

/* Computes values[dims], the contribution of each parameter to a difference: the model's mean at the point x, minus the
 * average of its means at background[count * dims]. The sum of the values is that difference. Fails with
 * TRI_UNSUPPORTED if `dims` is above TRI_SHAPLEY_DIMS. */
tri_status tri_shapley(const tri_gaussian *model, int64_t dims, int64_t count, const double *background,
                       const double *x, double *values);

#endif
