/* Charts: contents of the SVG, even with odd values. */
#include "check.h"
#include "page/chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int count_of(const char *text, const char *word) {
  int found = 0;
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) found++;
  return found;
}

/* Returns a curve through (1, low), (2, no value), (3, high), and a dot, in the form for a page. */
static char *draw(double low, double high, bool logarithmic) {
  tri_page page;
  tri_chart c;
  tri_chart_span span = TRI_CHART_NO_SPAN;
  tri_chart_span_add(&span, low);
  tri_chart_span_add(&span, high);
  CHECK_OK(tri_page_open(&page, "nowhere"));
  tri_chart_begin(&c, &tri_chart_large, "<a> & \"b\"", page.to);
  tri_chart_set_across(&c, "x", (tri_chart_span){1, 3}, true);
  tri_chart_set_values(&c, "y", span, logarithmic);
  tri_chart_draw_axes(&c);
  tri_chart_line line = tri_chart_line_begin(&c, TRI_CHART_CURVE("#123456"));
  tri_chart_line_to(&line, 1, low);
  tri_chart_line_to(&line, 2, NAN);
  tri_chart_line_to(&line, 3, high);
  tri_chart_line_end(&line);
  tri_chart_dot(&c, TRI_CHART_DOTS("#123456"), 3, 3, high, "<t>");
  tri_chart_end(&c);
  fclose(page.to);
  return page.text;
}

static void parts(void **state) {
  (void)state;
  char *text = draw(2, 7, false);
  assert_non_null(strstr(text, "aria-label=\"&lt;a&gt; &amp; &quot;b&quot;\">"));
  assert_non_null(strstr(text, ">&lt;a&gt; &amp; &quot;b&quot;</text>"));
  assert_null(strstr(text, "xmlns")); /* not needed within a page */
  assert_int_equal(count_of(text, "<line stroke"), 3 + 6);
  assert_non_null(strstr(text, "text-anchor=\"end\">7</text>"));
  assert_non_null(strstr(text, " r=\"3\"><title>&lt;t&gt;</title></circle>"));
  const char *curve = strstr(text, " d=\"");
  assert_int_equal(count_of(curve, "M"), 2); /* interrupted where a value is missing */
  assert_int_equal(count_of(curve, "L"), 0);
  free(text);
}

static void logarithms(void **state) {
  (void)state;
  assert_true(tri_chart_is_wide((tri_chart_span){1, 11}) && !tri_chart_is_wide((tri_chart_span){1, 9}));
  assert_true(!tri_chart_is_wide((tri_chart_span){0, 11}) && !tri_chart_is_wide(TRI_CHART_NO_SPAN));
  char *text = draw(0.0001, 0.01, true);
  assert_non_null(strstr(text, ">y (logarithmic)</text>"));
  assert_non_null(strstr(text, ">0.001</text>"));
  free(text);
}

/* One value, none, and equal values: the SVG has only finite numbers. */
static void odd_values(void **state) {
  (void)state;
  const double odd[][2] = {{3, 3}, {NAN, 3}, {NAN, NAN}, {0, INFINITY}, {-1, 0}, {-1e308, 1e308}};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    char *text = draw(odd[i][0], odd[i][1], false);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    free(text);
  }
}

static void words(void **state) {
  (void)state;
  const char *const down[] = {"up", "middle", "low"};
  tri_chart c = {.form = tri_chart_medium};
  tri_chart_set_words_down(&c, down, 3);
  tri_chart_set_words_across(&c, down, 2);
  assert_true(tri_chart_y(&c, 0) < tri_chart_y(&c, 2));
  assert_true(tri_chart_x(&c, -0.5) == c.form.left && tri_chart_x(&c, 1.5) == c.form.width - c.form.right);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(logarithms),
                                     cmocka_unit_test(odd_values), cmocka_unit_test(words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
