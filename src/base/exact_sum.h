/* Sums of doubles that depend neither on the order of the terms nor on their distribution over ranks.
 *
 * The sum is a very long fixed-point number (Kulisch's accumulator) in limbs of 32 bits, each in an int64_t so that
 * carries can be delayed: additions are exact, and the limbs of many ranks are added as integers. Only the conversion
 * to a double rounds. */
#ifndef TRI_BASE_EXACT_SUM_H
#define TRI_BASE_EXACT_SUM_H

#include "base/exact_terms.h"

/* GPU kernels only see the struct: their run-time compilers refuse prototypes of host functions. */
#if !defined(__CUDACC_RTC__) && !defined(__HIPCC_RTC__)
void tri_exact_sum_add(tri_exact_sum *sum, double term);
/* Propagates carries, so that the limbs of up to 2^30 ranks can be added. */
void tri_exact_sum_normalise(tri_exact_sum *sum);
/* Returns the sum as a double, with at most one rounding in the last bits; NaN if a term was not finite. */
double tri_exact_sum_value(tri_exact_sum *sum);
#endif

#endif
