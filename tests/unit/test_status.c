#include "base/status.h"

#include "base/thread.h"
#include "check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Each exit status has one meaning, except 3: a key, a value or a layout. */
static void test_exit(void **state) {
  (void)state;
  for (int code = TRI_OK; code <= TRI_INTERNAL; code++) {
    int want = code == TRI_BAD_LAYOUT ? TRI_BAD_CONFIG : code;
    assert_int_equal(tri_status_of_exit(tri_status_exit((tri_status)code)), want);
  }
  assert_int_equal(tri_status_of_exit(137), TRI_COMM);
}

/* The first error message is kept, complete, whatever fails after it. */
static void test_kept(void **state) {
  (void)state;
  static tri_saved_error kept;
  static char text[TRI_MESSAGE_BYTES];
  memset(text, 'x', sizeof text - 1);
  for (size_t i = 0; i < sizeof text - 1; i += 100) text[i] = ' ';
  tri_error_save(&kept, TRI_OK);
  assert_int_equal(tri_saved_error_restore(&kept), TRI_OK);
  tri_error_save(&kept, tri_fail(TRI_BAD_FILE, "%s", text));
  tri_error_save(&kept, tri_fail(TRI_IO_FAILED, "and the file stays"));
  assert_int_equal(tri_saved_error_restore(&kept), TRI_BAD_FILE);
  assert_string_equal(tri_status_message(), text);
}

/* Names of a megabyte are truncated, and the rest of the message is kept; paths are printed in full. */
static void test_long_words(void **state) {
  (void)state;
  static char name[1000001], path[2001], want[4096];
  memset(name, '(', sizeof name - 1);
  tri_fail(TRI_BAD_CONFIG, "`%s` is not a column; \"%s\", or %s.", name, "tflops", name);
  snprintf(want, sizeof want, "`%.199s...` is not a column; \"tflops\", or %.200s....", name, name);
  assert_string_equal(tri_status_message(), want);
  for (size_t i = 0; i + 1 < sizeof path; i++) path[i] = i % 100 == 0 ? '/' : 'p';
  tri_fail(TRI_BAD_FILE, "cannot open %s", path);
  snprintf(want, sizeof want, "cannot open %s", path);
  assert_string_equal(tri_status_message(), want);
  for (size_t i = 0; i + 1 < sizeof name; i += 2) memcpy(name + i, "\xC3\xA4", 2);
  tri_fail(TRI_BAD_FILE, "x%s", name);
  snprintf(want, sizeof want, "x%.198s...", name);
  assert_string_equal(tri_status_message(), want);
  for (size_t i = 0; i + 1 < sizeof name; i += 2) name[i] = ' ';
  tri_fail(TRI_BAD_FILE, "%s", name);
  assert_int_equal(strlen(tri_status_message()), TRI_MESSAGE_BYTES - 1);
  assert_string_equal(tri_status_message() + TRI_MESSAGE_BYTES - 4, "...");
}

static void test_internal(void **state) {
  (void)state;
  char place[64];
  snprintf(place, sizeof place, "7 ranks (tests/unit/test_status.c:%d)", __LINE__ + 1);
  assert_int_equal(tri_fail_internal("%d ranks", 7), TRI_INTERNAL);
  assert_string_equal(tri_status_message(), place);
}

static void *nothing(void *unused) { return unused; }

/* A thread that the system refuses is not an internal error. (No address space has room for a stack of this size.) */
static void test_thread(void **state) {
  (void)state;
  pthread_attr_t usual, huge;
  pthread_t thread;
  assert_int_equal(pthread_getattr_default_np(&usual), 0);
  assert_int_equal(pthread_attr_init(&huge), 0);
  assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 56), 0);
  assert_int_equal(pthread_setattr_default_np(&huge), 0);
  tri_status status = tri_thread_start("the thread that saves", nothing, NULL, &thread);
  assert_int_equal(pthread_setattr_default_np(&usual), 0);
  CHECK_FAILS(status, TRI_OUT_OF_MEMORY, "cannot start the thread that saves: ");
  CHECK_OK(tri_thread_start("the thread that saves", nothing, NULL, &thread));
  assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_internal), cmocka_unit_test(test_exit),
                                     cmocka_unit_test(test_kept), cmocka_unit_test(test_thread),
                                     cmocka_unit_test(test_long_words)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
