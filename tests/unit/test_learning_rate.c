#include "run/learning_rate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const tri_decay kinds[] = {TRI_DECAY_CONSTANT, TRI_DECAY_LINEAR, TRI_DECAY_COSINE, TRI_DECAY_WSD};

static void assert_near(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-15 + 1e-12 * fabs(expected))) fail_msg("%.17g is not %.17g", value, expected);
}

static void test_warm_up(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    assert_near(tri_learning_rate(kinds[k], 1, 100, 10, 1e-3, 1e-4, 0.2), 1e-4);
    assert_near(tri_learning_rate(kinds[k], 5, 100, 10, 1e-3, 1e-4, 0.2), 5e-4);
    assert_true(tri_learning_rate(kinds[k], 10, 100, 10, 1e-3, 1e-4, 0.2) == 1e-3);
  }
}

static void test_last_step_is_exact(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    double expected = kinds[k] == TRI_DECAY_CONSTANT ? 6e-4 : 6e-5;
    assert_true(tri_learning_rate(kinds[k], 777, 777, 13, 6e-4, 6e-5, 0.31) == expected);
    assert_true(tri_learning_rate(kinds[k], 778, 777, 13, 6e-4, 6e-5, 0.31) == expected);
    assert_true(tri_learning_rate(kinds[k], 1, 1, 0, 6e-4, 6e-5, 0.6) == expected);
  }
}

static void test_middle(void **state) {
  (void)state;
  /* Half-way from step 10 to step 110. */
  assert_near(tri_learning_rate(TRI_DECAY_LINEAR, 60, 110, 10, 1e-3, 2e-4, 0), 6e-4);
  assert_near(tri_learning_rate(TRI_DECAY_COSINE, 60, 110, 10, 1e-3, 2e-4, 0), 6e-4);
  /* A third of the way: cos(pi / 3) = 1/2. */
  assert_near(tri_learning_rate(TRI_DECAY_COSINE, 40, 100, 10, 1e-3, 2e-4, 0), 2e-4 + 8e-4 * 0.75);
  assert_near(tri_learning_rate(TRI_DECAY_CONSTANT, 60, 110, 10, 1e-3, 2e-4, 0), 1e-3);
}

static void test_wsd(void **state) {
  (void)state;
  assert_true(tri_learning_rate(TRI_DECAY_WSD, 80, 100, 10, 1e-3, 0, 0.2) == 1e-3);
  assert_near(tri_learning_rate(TRI_DECAY_WSD, 81, 100, 10, 1e-3, 0, 0.2), 0.95e-3);
  assert_near(tri_learning_rate(TRI_DECAY_WSD, 90, 100, 10, 1e-3, 0, 0.2), 0.5e-3);
  assert_true(tri_learning_rate(TRI_DECAY_WSD, 100, 100, 10, 1e-3, 0, 0.2) == 0);
  /* A share of 0 never decays; a share of 1 begins to decay when the warm-up ends. */
  assert_true(tri_learning_rate(TRI_DECAY_WSD, 100, 100, 10, 1e-3, 0, 0) == 1e-3);
  assert_near(tri_learning_rate(TRI_DECAY_WSD, 55, 100, 10, 1e-3, 0, 1.0), 0.5e-3);
}

static void test_odd_ends(void **state) {
  (void)state;
  for (int k = 0; k < 4; k++) {
    /* A warm-up as long as the run, and a longer one. */
    assert_true(tri_learning_rate(kinds[k], 10, 10, 10, 1e-3, 1e-4, 0.2) == 1e-3);
    assert_near(tri_learning_rate(kinds[k], 10, 10, 40, 1e-3, 1e-4, 0.2), 2.5e-4);
    assert_near(tri_learning_rate(kinds[k], 30, 10, 40, 1e-3, 1e-4, 0.2), 2.5e-4);
    assert_near(tri_learning_rate(kinds[k], 0, 100, 10, 1e-3, 1e-4, 0.2), 1e-4);
    for (int64_t step = 12; step <= 100; step++) {
      double before = tri_learning_rate(kinds[k], step - 1, 100, 11, 1e-3, 1e-4, 0.4);
      double now = tri_learning_rate(kinds[k], step, 100, 11, 1e-3, 1e-4, 0.4);
      assert_true(now <= before && now >= 1e-4);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_warm_up), cmocka_unit_test(test_last_step_is_exact), cmocka_unit_test(test_middle),
      cmocka_unit_test(test_wsd),     cmocka_unit_test(test_odd_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
