/* Importance of parameters: Shapley values of the model of the trials, over all subsets of parameters (Lundberg and Lee
 * 2017). */
#ifndef TRI_TUNE_SHAPLEY_H
#define TRI_TUNE_SHAPLEY_H

#include "tune/gaussian.h"

enum { TRI_SHAPLEY_DIMS = 12 };

/* Computes values[dims]: the contribution of each parameter to the difference between the model's mean at the point x
 * and its mean over background[count * dims]; their sum is that difference. TRI_UNSUPPORTED above TRI_SHAPLEY_DIMS. */
tri_status tri_shapley(const tri_gaussian *model, int64_t dims, int64_t count, const double *background,
                       const double *x, double *values);

#endif
