#include "base/format.h"
#include "config/nearest_word.h"

#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A number that rounds to 0 is printed without its sign. */
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

static void thousands_are_grouped(void **state) {
  (void)state;
  static const struct {
    int64_t number;
    const char *text;
  } cases[] = {{0, "0"},          {999, "999"},          {1000, "1,000"},
               {52736, "52,736"}, {-123456, "-123,456"}, {1234567, "1,234,567"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[32];
    assert_string_equal(tri_format_grouped(cases[i].number, text, sizeof text), cases[i].text);
  }
}

static void what_is_not_known_is_a_dash(void **state) {
  (void)state;
  static const double unknown[] = {NAN, INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    char text[32];
    assert_string_equal(tri_format_count(unknown[i], text, sizeof text), "-");
    assert_string_equal(tri_format_bytes(unknown[i], text, sizeof text), "-");
    assert_string_equal(tri_format_seconds(unknown[i], text, sizeof text), "?");
  }
}

static void meant_words_are_near_or_known_elsewhere(void **state) {
  (void)state;
  static const char *const names[] = {"num_layers", "lr", "global_batch", "r", "--out", "warmup", "context"};
  static const struct {
    const char *word, *meant;
  } cases[] = {{"num_layesr", "num_layers"},
               {"num-layers", "num_layers"},
               {"layers", "num_layers"},
               {"warmpu", "warmup"},
               {"Warmup", "warmup"},
               {"warmup_of_rate", "warmup"},
               {"learning_rate", "lr"},
               {"n_layer", "num_layers"},
               {"Learning-Rate", "lr"},
               {"train_batch_size", "global_batch"},
               {"-o", "--out"},
               {"--output", "--out"},
               {"--oot", "--out"},
               {"cntext", "context"},
               {"error", NULL},
               {"lt", NULL},
               {"contents_of_it", NULL},
               {"", NULL},
               {"xyz", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *meant = tri_nearest_word(cases[i].word, names, sizeof names / sizeof names[0]);
    if (cases[i].meant == NULL) {
      assert_null(meant);
    } else {
      assert_non_null(meant);
      assert_string_equal(meant, cases[i].meant);
    }
  }
  assert_null(tri_known_word("num_layesr", names, 1)); /* only words of other programs are known */
  assert_string_equal(tri_known_word("n-layers", names, 1), "num_layers");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_to_plain_zero), cmocka_unit_test(thousands_are_grouped),
                                     cmocka_unit_test(what_is_not_known_is_a_dash),
                                     cmocka_unit_test(meant_words_are_near_or_known_elsewhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
