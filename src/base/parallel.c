#include "base/parallel.h"

#include <omp.h>
#include <stdio.h>

tri_status tri_parallel_for(int64_t count, int threads, tri_parallel_body body, void *context) {
  char message[1024] = ""; /* message of the failure; tri_status_message is the calling thread's own */
  tri_status worst = TRI_OK;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int64_t i = 0; i < count; i++) {
    const tri_status status = body(context, i, omp_get_thread_num());
    if (status == TRI_OK) continue;
#pragma omp critical(tri_parallel_failure)
    if (worst == TRI_OK) {
      worst = status;
      snprintf(message, sizeof message, "%s", tri_status_message());
    }
  }
  return worst == TRI_OK ? TRI_OK : tri_fail(worst, "%s", message);
}
