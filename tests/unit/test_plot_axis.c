/* Axes of plots: positions of values, and ticks at round values, for any range. */
#include "base/plot_axis.h"
#include "check.h"

#include <math.h>

static void check_near(double value, double wanted, double error) {
  if (!(fabs(value - wanted) <= error)) fail_msg("%.17g in the place of %.17g", value, wanted);
}

static void places(void **state) {
  (void)state;
  const tri_plot_axis up = {.low = 2, .high = 6, .start = 100, .size = -80};
  check_near(tri_plot_place(&up, 2), 100, 1e-12);
  check_near(tri_plot_place(&up, 3), 80, 1e-12);
  check_near(tri_plot_place(&up, 7), 0, 1e-12);
  const tri_plot_axis across = {.low = 1, .high = 10000, .start = 10, .size = 40, .logarithmic = true};
  check_near(tri_plot_place(&across, 100), 30, 1e-12);
}

static void check(const tri_plot_axis *axis, int wanted, int expected, const double *values) {
  double ticks[TRI_PLOT_TICKS];
  int count = tri_plot_ticks(axis, wanted, ticks);
  assert_int_equal(count, expected);
  for (int i = 0; i < count; i++) check_near(ticks[i], values[i], 1e-12 * fabs(axis->high));
}

static void round_values(void **state) {
  (void)state;
  check(&(tri_plot_axis){.low = 0, .high = 10}, 5, 6, (double[]){0, 2, 4, 6, 8, 10});
  check(&(tri_plot_axis){.low = -0.7, .high = 1.2}, 4, 4, (double[]){-0.5, 0, 0.5, 1});
  check(&(tri_plot_axis){.low = 991.3, .high = 1027.8}, 4, 3, (double[]){1000, 1010, 1020});
  check(&(tri_plot_axis){.low = 1, .high = 3}, 8, 11, (double[]){1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.4, 2.6, 2.8, 3});
  check(&(tri_plot_axis){.low = 1, .high = 3, .whole = true}, 8, 3, (double[]){1, 2, 3});
}

static void logarithms(void **state) {
  (void)state;
  check(&(tri_plot_axis){.low = 3e-4, .high = 3e-3, .logarithmic = true}, 4, 5,
        (double[]){3e-4, 5e-4, 1e-3, 2e-3, 3e-3});
  check(&(tri_plot_axis){.low = 5, .high = 2e4, .logarithmic = true}, 4, 4, (double[]){10, 100, 1000, 10000});
  /* The range is too narrow for logarithmic ticks. */
  check(&(tri_plot_axis){.low = 6, .high = 8, .logarithmic = true}, 4, 5, (double[]){6, 6.5, 7, 7.5, 8});
}

static void no_range(void **state) {
  (void)state;
  check_near(tri_plot_place(&(tri_plot_axis){.low = 1e30, .high = 1e30 + 1, .start = 10, .size = 40}, 1e30), 30, 0);
  check(&(tri_plot_axis){.low = 1, .high = 1}, 4, 0, NULL);
  check(&(tri_plot_axis){.low = INFINITY, .high = -INFINITY}, 4, 0, NULL);
  check(&(tri_plot_axis){.low = NAN, .high = NAN}, 4, 0, NULL);
  check(&(tri_plot_axis){.low = 0, .high = INFINITY}, 4, 0, NULL);
}

/* For any range there are ticks, in ascending order and inside the range. */
static void any_range(void **state) {
  (void)state;
  for (int power = -12; power <= 12; power++) {
    for (int wide = 1; wide < 100; wide++) {
      const tri_plot_axis axis = {.low = wide % 7 * pow(10, power), .high = (wide % 7 + 0.37 * wide) * pow(10, power)};
      double ticks[TRI_PLOT_TICKS];
      int count = tri_plot_ticks(&axis, 6, ticks);
      assert_in_range(count, 3, 13);
      for (int i = 0; i < count; i++) {
        assert_true(ticks[i] >= axis.low - 1e-9 * axis.high && ticks[i] <= axis.high * (1 + 1e-9));
        assert_true(i == 0 || ticks[i] > ticks[i - 1]);
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(places), cmocka_unit_test(round_values),
                                     cmocka_unit_test(logarithms), cmocka_unit_test(no_range),
                                     cmocka_unit_test(any_range)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
