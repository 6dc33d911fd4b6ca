#include "base/thread.h"

#include <string.h>

tri_status tri_thread_start(const char *name, void *(*body)(void *), void *argument, pthread_t *out) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, body, argument);
  if (error != 0) {
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "cannot start %s: %s; the limit of memory (ulimit -v) or of processes and threads (ulimit -u, "
                    "pids.max of the control group) is reached",
                    name, strerror(error));
  }
  *out = thread;
  return TRI_OK;
}
