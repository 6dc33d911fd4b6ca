/* Shared by the unit tests: cmocka's headers in the order that it needs, and checks that print the library's
 * message. */
#ifndef TRI_TESTS_CHECK_H
#define TRI_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after these four */
#include "base/status.h"

#include <cmocka.h>
#include <string.h>

#define CHECK_OK(call)                                                                                                 \
  do {                                                                                                                 \
    tri_status check_status_ = (call);                                                                                 \
    if (check_status_ != TRI_OK) fail_msg("%s", tri_status_message());                                                 \
  } while (0)

/* Fails unless the call fails with this code and a message that contains the text. */
#define CHECK_FAILS(call, code, text)                                                                                  \
  do {                                                                                                                 \
    tri_status check_status_ = (call);                                                                                 \
    if (check_status_ != (code)) fail_msg("status %d, not %d: %s", check_status_, code, tri_status_message());         \
    if (strstr(tri_status_message(), text) == NULL) fail_msg("no \"%s\" in: %s", text, tri_status_message());          \
  } while (0)

#endif
