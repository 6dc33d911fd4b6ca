/* Values of parameters, and the coordinates of points for models. */
#include "check.h"
#include "tune/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tri_space one_knob(const char *values) {
  tri_space space = {.num_knobs = 1, .devices = 1, .node_devices = 1};
  snprintf(space.knobs[0].name, sizeof space.knobs[0].name, "a");
  snprintf(space.knobs[0].values, sizeof space.knobs[0].values, "%s", values);
  return space;
}

static double place(const tri_space *space, int32_t value) {
  double x = NAN;
  tri_point_place(space, &(tri_point){.at = {value}}, &x);
  return x;
}

/* The order of the values does not matter. */
static void test_coordinates(void **state) {
  (void)state;
  tri_space space = one_knob("4 2 8");
  assert_int_equal(tri_space_complete(&space), TRI_OK);
  for (int i = 0; i < 3; i++) assert_true(fabs(place(&space, i) - (const double[]){0.5, 0, 1}[i]) < 1e-15);
  space = one_knob("1 0 8");
  assert_int_equal(tri_space_complete(&space), TRI_OK);
  for (int i = 0; i < 3; i++) assert_true(fabs(place(&space, i) - (const double[]){0.125, 0, 1}[i]) < 1e-15);
  space = one_knob("3 2");
  assert_int_equal(tri_space_complete(&space), TRI_OK);
  assert_true(place(&space, 0) == 1 && place(&space, 1) == 0);
}

static void test_equal_numbers(void **state) {
  (void)state;
  tri_space space = one_knob("2 1 2.0");
  assert_int_equal(tri_space_complete(&space), TRI_BAD_CONFIG);
  assert_non_null(strstr(tri_status_message(), "`a` has the value 2.0 twice"));
}

/* Equal ratios, three digits, no value twice, and both ends as they are given. */
static void test_logarithmic(void **state) {
  (void)state;
  tri_space space = one_knob("");
  space.knobs[0].low = 1e-5;
  space.knobs[0].high = 0.01234567;
  space.knobs[0].log = true;
  space.knobs[0].num_values = TRI_KNOB_VALUES;
  assert_int_equal(tri_space_complete(&space), TRI_OK);
  const tri_knob *knob = &space.knobs[0];
  assert_int_equal(knob->count, TRI_KNOB_VALUES);
  assert_string_equal(knob->words[0], "1e-05");
  assert_string_equal(knob->words[TRI_KNOB_VALUES - 1], "0.01234567");
  for (int64_t v = 1; v < knob->count; v++) {
    const double exact = 1e-5 * pow(1234.567, (double)v / (TRI_KNOB_VALUES - 1));
    assert_true(fabs(knob->numbers[v] / exact - 1) < 0.005 && knob->numbers[v] > knob->numbers[v - 1]);
  }
  space.knobs[0].count = 0;
  space.knobs[0].high = 1.004e-5; /* between the ends no number has three digits */
  assert_int_equal(tri_space_complete(&space), TRI_OK);
  assert_int_equal(space.knobs[0].count, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_coordinates),
      cmocka_unit_test(test_equal_numbers),
      cmocka_unit_test(test_logarithmic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
