#include "base/exact_sum.h"

void tri_exact_sum_normalise(tri_exact_sum *sum) { tri_exact_carry(sum); }

void tri_exact_sum_add(tri_exact_sum *sum, double value) { tri_exact_term_add(sum, value); }

double tri_exact_sum_value(tri_exact_sum *sum) {
  if (sum->not_finite == 0) tri_exact_carry(sum);
  tri_exact_sum scratch = *sum;
  return tri_exact_value(&scratch);
}
