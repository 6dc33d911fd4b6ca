/* Sums of doubles that depend neither on the order of the terms nor on their distribution over ranks; for the host and
 * for GPU kernels.
 *
 * The sum is a very long fixed-point number (Kulisch's accumulator) in limbs of 32 bits, each in an int64_t so that
 * carries can be delayed: additions are exact, and the limbs of many ranks are added as integers. Only the conversion
 * to a double rounds. Everything else is integers, so any order of additions gives the same limbs. */
#ifndef TRI_DEVICE_EXACT_SUM_H
#define TRI_DEVICE_EXACT_SUM_H

#include "base/host_and_gpu.h"

#if !defined(TRI_ON_GPU)
#include <math.h>
#endif
#include <stdint.h>

/* Limbs from 2^-1074, the smallest double, to 2^1024 times the largest number of terms. */
enum { TRI_EXACT_SUM_LIMBS = 68 };

typedef struct tri_exact_sum {
  int64_t limbs[TRI_EXACT_SUM_LIMBS]; /* limb i counts units of 2^(32 i - 1088) */
  int64_t not_finite;                 /* number of infinite or NaN terms; if not 0, the sum is NaN */
  int64_t pending;                    /* number of terms since carries were propagated */
} tri_exact_sum;

/* Maximum number of terms, each below 2^32, between two propagations of carries: limbs stay far below 2^63. */
enum { TRI_EXACT_MOST_PENDING = 1 << 29 };

/* A term, split for addition: parts[i] is added to limb first + i. */
typedef struct tri_exact_term {
  int32_t first;      /* number of the first limb, 0 .. TRI_EXACT_SUM_LIMBS - 3 */
  int32_t not_finite; /* 1 if the double is infinite or NaN, and the other members are undefined; else 0 */
  int64_t parts[3];   /* all with the same sign, and magnitudes below 2^32; all 0 for zero */
} tri_exact_term;

/* Splits the bits of a double: an integer of 53 bits times a power of two. The lowest power, 2^-1074, is 14 bits above
 * the lowest bit of limb 0. */
TRI_HOST_AND_GPU tri_exact_term tri_exact_split(uint64_t bits) {
  const int32_t exponent = (int32_t)(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & 0xfffffffffffffull;
  const uint64_t whole = exponent == 0 ? fraction : fraction | (uint64_t)1 << 52;
  const int32_t bit = (exponent == 0 ? 0 : exponent - 1) + 14;
  const int32_t shift = bit % 32;
  const int64_t sign = bits >> 63 != 0 ? -1 : 1;
  const uint64_t low = (whole & 0xffffffffu) << shift;
  const uint64_t high = ((whole >> 32) << shift) + (low >> 32);
  tri_exact_term term;
  term.first = bit / 32;
  term.not_finite = exponent == 0x7ff;
  term.parts[0] = sign * (int64_t)(low & 0xffffffffu);
  term.parts[1] = sign * (int64_t)(high & 0xffffffffu);
  term.parts[2] = sign * (int64_t)(high >> 32);
  return term;
}

/* Propagates carries: each limb but the last is then in [0, 2^32). */
TRI_HOST_AND_GPU void tri_exact_carry(tri_exact_sum *sum) {
  const int64_t base = (int64_t)1 << 32;
  int64_t carry = 0;
  TRI_NOT_UNROLLED for (int32_t i = 0; i < TRI_EXACT_SUM_LIMBS - 1; i++) {
    const int64_t value = sum->limbs[i] + carry;
    const int64_t low = value & (base - 1);
    carry = (value - low) / base;
    sum->limbs[i] = low;
  }
  sum->limbs[TRI_EXACT_SUM_LIMBS - 1] += carry;
  sum->pending = 0;
}

TRI_HOST_AND_GPU void tri_exact_term_add(tri_exact_sum *sum, double value) {
  union {
    double value;
    uint64_t bits;
  } as;
  as.value = value;
  const tri_exact_term term = tri_exact_split(as.bits);
  if (term.not_finite) {
    sum->not_finite++;
    return;
  }
  if (value == 0) return;
  for (int32_t i = 0; i < 3; i++) sum->limbs[term.first + i] += term.parts[i];
  if (++sum->pending == TRI_EXACT_MOST_PENDING) tri_exact_carry(sum);
}

/* Returns the sum as a double, with an error of less than one unit in the last place; NaN if a term was not finite.
 * After the carries only the top limb has the sign, and each of the others has 32 bits of the magnitude. Limbs are
 * added from the lowest one up, so the first additions affect at most the last bit. Changes *sum, which may not be used
 * afterwards. */
TRI_HOST_AND_GPU double tri_exact_value(tri_exact_sum *sum) {
  double value = 0;
  if (sum->not_finite > 0) return nan("");
  tri_exact_carry(sum);
  const int negative = sum->limbs[TRI_EXACT_SUM_LIMBS - 1] < 0;
  if (negative) {
    for (int32_t i = 0; i < TRI_EXACT_SUM_LIMBS; i++) sum->limbs[i] = -sum->limbs[i];
    tri_exact_carry(sum);
  }
  TRI_NOT_UNROLLED for (int32_t i = 0; i < TRI_EXACT_SUM_LIMBS; i++) {
    value += ldexp((double)sum->limbs[i], 32 * i - 1088);
  }
  return negative ? -value : value;
}

/* ---- host only --------------------------------------------------------------------------------------------------- */

#if !defined(TRI_ON_GPU)

static inline void tri_exact_sum_add(tri_exact_sum *sum, double value) { tri_exact_term_add(sum, value); }

/* Propagates carries, so that the limbs of up to 2^30 ranks can be added. */
static inline void tri_exact_sum_normalise(tri_exact_sum *sum) { tri_exact_carry(sum); }

/* Returns the same as tri_exact_value; *sum may be used afterwards. */
static inline double tri_exact_sum_value(tri_exact_sum *sum) {
  if (sum->not_finite == 0) tri_exact_carry(sum);
  tri_exact_sum scratch = *sum;
  return tri_exact_value(&scratch);
}

#endif

#endif
