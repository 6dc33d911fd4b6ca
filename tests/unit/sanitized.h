/* Whether a sanitizer is enabled. Tests then take ten times as long; a test with a thousand cases of one kind runs only
 * a part of them, but all branches. */
#ifndef TRI_TESTS_UNIT_SANITIZED_H
#define TRI_TESTS_UNIT_SANITIZED_H

#include "base/sanitizer.h"

enum { SANITIZED = TRI_ADDRESS_SANITIZER || TRI_THREAD_SANITIZER };

#endif
