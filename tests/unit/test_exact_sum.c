/* Exact sums over the whole range of double: every term is recovered, in any order of summation, and no bit is lost. */
#include "base/random.h"
#include "check.h"
#include "device/exact_sum.h"

#include <float.h>
#include <math.h>

static const double ends[] = {0x1p-1074,
                              0x1p-1073,
                              0x1.8p-1060,
                              0x1p-1040,
                              0x1.fffffffffffffp-1023,
                              DBL_MIN,
                              0x1.23456789abcdep-1000,
                              1e-30,
                              0.1,
                              1,
                              3,
                              1e30,
                              0x1p1000,
                              DBL_MAX};
enum { NUM_ENDS = sizeof ends / sizeof ends[0] };

static void check_zero(const tri_exact_sum *sum) {
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS; i++) assert_int_equal(sum->limbs[i], 0);
  assert_int_equal(sum->not_finite, 0);
}

/* Each term alone, and after larger terms were added and subtracted. */
static void terms_come_out_whole(void **state) {
  (void)state;
  for (int i = 0; i < NUM_ENDS; i++) {
    for (int negative = 0; negative < 2; negative++) {
      const double sign = negative > 0 ? -1 : 1;
      tri_exact_sum sum = {{0}, 0, 0};
      tri_exact_sum_add(&sum, sign * ends[i]);
      assert_true(tri_exact_sum_value(&sum) == sign * ends[i]);
      for (int k = 0; k < NUM_ENDS; k++) tri_exact_sum_add(&sum, ends[k]);
      for (int k = NUM_ENDS - 1; k >= 0; k--) tri_exact_sum_add(&sum, -ends[k]);
      assert_true(tri_exact_sum_value(&sum) == sign * ends[i]);
      tri_exact_sum_add(&sum, -sign * ends[i]);
      tri_exact_sum_normalise(&sum);
      check_zero(&sum);
    }
  }
}

/* Random numbers of all exponents and fractions. */
static void random_terms_cancel(void **state) {
  (void)state;
  enum { TERMS = 20000 };
  const tri_random_key key = tri_random_stream(3, TRI_RANDOM_TEST, 9);
  tri_exact_sum sum = {{0}, 0, 0};
  int64_t finite = 0;
  for (int round = 0; round < 2; round++) {
    for (uint64_t i = 0; i < TERMS; i++) {
      uint64_t at = round == 0 ? i : TERMS - 1 - i;
      uint64_t bits = (uint64_t)tri_random_u32(key, 2 * at) << 32 | tri_random_u32(key, 2 * at + 1);
      double value;
      memcpy(&value, &bits, sizeof value);
      if (!isfinite(value)) continue;
      tri_exact_sum_add(&sum, round == 0 ? value : -value);
      finite++;
    }
  }
  assert_int_equal(sum.pending, finite);
  tri_exact_sum_normalise(&sum);
  check_zero(&sum);
}

static void what_is_not_finite_is_counted(void **state) {
  (void)state;
  tri_exact_sum sum = {{0}, 0, 0};
  tri_exact_sum_add(&sum, 0.0);
  tri_exact_sum_add(&sum, -0.0);
  check_zero(&sum);
  assert_int_equal(sum.pending, 0);
  tri_exact_sum_add(&sum, INFINITY);
  tri_exact_sum_add(&sum, (double)NAN);
  assert_int_equal(sum.not_finite, 2);
  assert_int_equal(sum.pending, 0);
  assert_true(isnan(tri_exact_sum_value(&sum)));
}

/* Carries are propagated before limbs overflow: adds as many terms as may be pending, each with all bits set. */
static void carries_do_not_wait_for_ever(void **state) {
  (void)state;
  const int64_t most = (int64_t)1 << 29;
  tri_exact_sum sum = {{0}, 0, most - 2};
  tri_exact_sum_add(&sum, DBL_MAX);
  assert_int_equal(sum.pending, most - 1);
  tri_exact_sum_add(&sum, DBL_MAX);
  assert_int_equal(sum.pending, 0);
  for (int i = 0; i < TRI_EXACT_SUM_LIMBS - 1; i++) assert_in_range(sum.limbs[i], 0, UINT32_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(terms_come_out_whole),
      cmocka_unit_test(random_terms_cancel),
      cmocka_unit_test(what_is_not_finite_is_counted),
      cmocka_unit_test(carries_do_not_wait_for_ever),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
