/* The lock of a guarded device, and ordinal numbers in its messages. */
#include "base/log.h"
#include "device/guarded/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void tri_guarded_lock(tri_guarded_state *state) {
  if (pthread_mutex_lock(&state->lock) != EDEADLK) return;
  tri_log_in_handler(
      "a signal handler has jumped out of a crash inside a kernel of the device; the device can no longer be used or "
      "released, so the process ends");
  abort();
}

void tri_guarded_unlock(tri_guarded_state *state) { pthread_mutex_unlock(&state->lock); }

char *tri_guarded_ordinal(uint64_t number, char buffer[32]) {
  static const char *const ends[] = {"th", "st", "nd", "rd"};
  bool teen = number / 10 % 10 == 1;
  snprintf(buffer, 32, "%llu%s", (unsigned long long)number, ends[teen || number % 10 > 3 ? 0 : number % 10]);
  return buffer;
}
