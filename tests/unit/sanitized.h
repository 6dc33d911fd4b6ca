/* Whether a sanitizer is at work. A test takes ten times as long then, and wants to go every way, not every size: those
 * of a thousand cases of one kind take a part of them. */
#ifndef TRI_TESTS_UNIT_SANITIZED_H
#define TRI_TESTS_UNIT_SANITIZED_H

#include "base/sanitizer.h"

enum { SANITIZED = TRI_ADDRESS_SANITIZER || TRI_THREAD_SANITIZER };

#endif
