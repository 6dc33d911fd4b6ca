/* Log lines on standard error, which many processes share: each must be written with one call. */
#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static char got[2 * TRI_MESSAGE_BYTES];
static int ends[2], own_stderr;

/* Standard error is a socket on which each write is a packet. */
static int begin(void **state) {
  (void)state;
  own_stderr = dup(STDERR_FILENO);
  return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0 ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  dup2(own_stderr, STDERR_FILENO);
  close(own_stderr);
  close(ends[0]);
  return close(ends[1]);
}

/* Receives one packet, and checks that there is no other. */
static const char *receive(void) {
  ssize_t length = recv(ends[0], got, sizeof got - 1, 0);
  assert_true(length > 0);
  got[length] = '\0';
  char more;
  assert_int_equal(recv(ends[0], &more, 1, MSG_DONTWAIT), -1);
  return got;
}

static void test_plain(void **state) {
  (void)state;
  assert_false(tri_log_failure(TRI_BAD_FILE, "the first\nand a second line"));
  assert_string_equal(receive(), "trireme: the first\nand a second line\n");
  tri_log("%s %d", "step", 3);
  assert_string_equal(receive(), "step 3\n");
  tri_warn("old");
  assert_string_equal(receive(), "warning: old\n");
}

/* A text longer than a message is truncated, and still ends with a newline. */
static void test_long(void **state) {
  (void)state;
  static char text[2 * TRI_MESSAGE_BYTES];
  memset(text, 'x', sizeof text - 1);
  tri_log_failure(TRI_BAD_FILE, text);
  size_t length = strlen(receive());
  assert_true(length > TRI_MESSAGE_BYTES && got[length - 1] == '\n' && got[length - 2] == 'x');
  text[TRI_MESSAGE_BYTES - 1] = '\0';
  tri_log_failure(TRI_BAD_FILE, text);
  assert_int_equal(strlen(receive()), strlen("trireme: ") + TRI_MESSAGE_BYTES - 1 + 1);
}

/* Lines for a parent that reads them from the launcher's output, because it cannot be reached otherwise. */
static void test_marked(void **state) {
  (void)state;
  tri_log_mark_lines(false);
  tri_log_failure(TRI_BAD_FILE, "the first\nand a second line");
  assert_string_equal(receive(), "\x1etrireme: the first\vand a second line\n");
  tri_log("two\nlines");
  assert_string_equal(receive(), "\x1etwo\vlines\n");
  tri_log_progress("step %d", 5);
  assert_string_equal(receive(), "\x1fstep 5\n");
  tri_log_to_parent("step %d", 6);
  assert_string_equal(receive(), "\x1dstep 6\n");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_plain, begin, end),
                                     cmocka_unit_test_setup_teardown(test_long, begin, end),
                                     cmocka_unit_test_setup_teardown(test_marked, begin, end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
