/* A loop whose iterations run on several threads and may fail. */
#ifndef TRI_BASE_PARALLEL_H
#define TRI_BASE_PARALLEL_H

#include "base/status.h"

#include <stdint.h>

/* The body of a loop: `i` is the index of the iteration, `thread` the number of the thread that runs it, from 0. */
typedef tri_status (*tri_parallel_body)(void *context, int64_t i, int thread);

/* Runs the iterations 0 .. count - 1 on `threads` threads. All of them run, also after a failure; returns the failure
 * that was recorded first, with its message. */
tri_status tri_parallel_for(int64_t count, int threads, tri_parallel_body body, void *context);

#endif
