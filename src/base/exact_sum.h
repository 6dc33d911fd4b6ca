/* Sums of doubles that do not depend on the order, nor on how the terms are spread over ranks.
 *
 * The sum is kept as one very long fixed-point number (Kulisch's accumulator) in limbs of 32 bits, each in an int64_t
 * so that carries can wait: adding is exact, and limbs of many ranks are added up as whole numbers. Only the last step,
 * to a double, rounds. */
#ifndef TRI_BASE_EXACT_SUM_H
#define TRI_BASE_EXACT_SUM_H

#include "base/exact_terms.h"

/* Kernels for GPUs know the struct alone: their run-time compilers refuse prototypes of functions of the host. */
#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__)
void tri_exact_sum_add(tri_exact_sum *sum, double term);
/* Passes carries on, so that the limbs of up to 2^30 ranks can be added. */
void tri_exact_sum_normalise(tri_exact_sum *sum);
/* The nearest double but for one rounding of the last bits; NaN if a term was not finite. */
double tri_exact_sum_value(tri_exact_sum *sum);
#endif

#endif
