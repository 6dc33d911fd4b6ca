/* Checks for the tests of configuration: a failure is compared with its whole message. Include after cmocka.h. */
#ifndef TRI_TESTS_CONFIG_EXPECT_H
#define TRI_TESTS_CONFIG_EXPECT_H

#include "base/status.h"

#define EXPECT_OK(call)                                                                                                \
  do {                                                                                                                 \
    tri_status got_ = (call);                                                                                          \
    if (got_ != TRI_OK) fail_msg("%s: status %d, %s", #call, got_, tri_status_message());                              \
  } while (0)

#define EXPECT_FAILS(code, message, call)                                                                              \
  do {                                                                                                                 \
    assert_int_equal(call, code);                                                                                      \
    assert_string_equal(tri_status_message(), message);                                                                \
  } while (0)

/* For messages that end with a list or with a path of this machine. */
#define EXPECT_FAILS_LIKE(code, part, call)                                                                            \
  do {                                                                                                                 \
    assert_int_equal(call, code);                                                                                      \
    if (strstr(tri_status_message(), part) == NULL) fail_msg("no `%s` in: %s", part, tri_status_message());            \
  } while (0)

#endif
