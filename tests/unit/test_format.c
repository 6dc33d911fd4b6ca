#include "base/format.h"

#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whatever rounds to 0 is printed without a sign of its own. */
static void rounds_to_plain_zero(void **state) {
  (void)state;
  static const struct {
    double value;
    int decimals;
    const char *text;
  } cases[] = {{-0.04, 1, "+0.0"}, {-0.0, 1, "+0.0"},     {-0.05, 1, "-0.1"},   {-0.051, 1, "-0.1"},
               {0.04, 1, "+0.0"},  {-0.004, 2, "+0.00"},  {-0.4, 0, "+0"},      {-0.5, 0, "+0"},
               {-3.14, 1, "-3.1"}, {-0.0049, 2, "+0.00"}, {1e-300, 3, "+0.000"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[32];
    snprintf(text, sizeof text, "%+.*f", cases[i].decimals, tri_format_rounded(cases[i].value, cases[i].decimals));
    assert_string_equal(text, cases[i].text);
  }
  assert_true(isnan(tri_format_rounded(NAN, 1)));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_to_plain_zero)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
