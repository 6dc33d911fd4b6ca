#include "base/exact_sum.h"

#include <math.h>

enum { LIMB_BITS = 32, LOWEST_BIT = -1088, MOST_PENDING = 1 << 29 };

void tri_exact_sum_normalise(tri_exact_sum *sum) {
  const int64_t base = (int64_t)1 << LIMB_BITS;
  int64_t carry = 0;
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS - 1; i++) {
    int64_t value = sum->limbs[i] + carry;
    int64_t low = value % base;
    if (low < 0) low += base;
    carry = (value - low) / base;
    sum->limbs[i] = low;
  }
  sum->limbs[TRI_EXACT_SUM_LIMBS - 1] += carry;
  sum->pending = 0;
}

/* A double is a whole number of 53 bits times a power of two: it touches three limbs at most. */
void tri_exact_sum_add(tri_exact_sum *sum, double term) {
  if (!isfinite(term)) {
    sum->not_finite++;
    return;
  }
  int exponent = 0;
  int64_t whole = (int64_t)ldexp(frexp(term, &exponent), 53);
  if (whole == 0) return;
  int bit = exponent - 53 - LOWEST_BIT;
  int limb = bit / LIMB_BITS, shift = bit % LIMB_BITS;
  int64_t sign = whole < 0 ? -1 : 1;
  __uint128_t wide = (__uint128_t)(uint64_t)(whole * sign) << shift;
  for (; wide != 0; wide >>= LIMB_BITS, limb++) sum->limbs[limb] += sign * (int64_t)(uint32_t)wide;
  if (++sum->pending == MOST_PENDING) tri_exact_sum_normalise(sum);
}

/* From the top limb down: each holds 32 bits, so the first three that are not zero hold more than a double does. */
double tri_exact_sum_value(tri_exact_sum *sum) {
  if (sum->not_finite > 0) return NAN;
  tri_exact_sum_normalise(sum);
  double value = 0;
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS; i++) {
    value += ldexp((double)sum->limbs[i], LIMB_BITS * i + LOWEST_BIT);
  }
  return value;
}
