#include "base/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Each exit status means one thing, but for 3: a key, a value or a layout. */
static void test_exit(void **state) {
  (void)state;
  for (int code = TRI_OK; code <= TRI_INTERNAL; code++) {
    int want = code == TRI_BAD_LAYOUT ? TRI_BAD_CONFIG : code;
    assert_int_equal(tri_status_of_exit(tri_status_exit((tri_status)code)), want);
  }
  assert_int_equal(tri_status_of_exit(137), TRI_COMM);
}

/* The first failure stays, whole, whatever fails after it. */
static void test_kept(void **state) {
  (void)state;
  static tri_saved_error kept;
  static char text[TRI_MESSAGE_BYTES];
  memset(text, 'x', sizeof text - 1);
  tri_error_save(&kept, TRI_OK);
  assert_int_equal(tri_saved_error_restore(&kept), TRI_OK);
  tri_error_save(&kept, tri_fail(TRI_BAD_FILE, "%s", text));
  tri_error_save(&kept, tri_fail(TRI_IO_FAILED, "and the file stays"));
  assert_int_equal(tri_saved_error_restore(&kept), TRI_BAD_FILE);
  assert_string_equal(tri_status_message(), text);
}

static void test_internal(void **state) {
  (void)state;
  char place[64];
  snprintf(place, sizeof place, "7 ranks (tests/unit/test_status.c:%d)", __LINE__ + 1);
  assert_int_equal(tri_fail_internal("%d ranks", 7), TRI_INTERNAL);
  assert_string_equal(tri_status_message(), place);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_internal), cmocka_unit_test(test_exit),
                                     cmocka_unit_test(test_kept)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
