#include "base/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LIMB_BITS = 32, LOWEST_BIT = -1088 };

void tri_exact_sum_normalise(tri_exact_sum *sum) { tri_exact_carry(sum); }

void tri_exact_sum_add(tri_exact_sum *sum, double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const tri_exact_term term = tri_exact_split(bits);
  if (term.not_finite) {
    sum->not_finite++;
    return;
  }
  if (value == 0) return;
  for (int i = 0; i < 3; i++) sum->limbs[term.first + i] += term.parts[i];
  if (++sum->pending == TRI_EXACT_MOST_PENDING) tri_exact_sum_normalise(sum);
}

/* Carries leave the sign in the top limb alone, and all others hold 32 bits of the size: added from the lowest up, the
 * first of them count for the last bit at most. */
double tri_exact_sum_value(tri_exact_sum *sum) {
  if (sum->not_finite > 0) return NAN;
  tri_exact_sum_normalise(sum);
  tri_exact_sum size = *sum;
  const bool negative = sum->limbs[TRI_EXACT_SUM_LIMBS - 1] < 0;
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS && negative; i++) size.limbs[i] = -size.limbs[i];
  tri_exact_sum_normalise(&size);
  double value = 0;
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS; i++) {
    value += ldexp((double)size.limbs[i], LIMB_BITS * i + LOWEST_BIT);
  }
  return negative ? -value : value;
}
