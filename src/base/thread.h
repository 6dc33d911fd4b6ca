/* Starting threads. */
#ifndef TRI_BASE_THREAD_H
#define TRI_BASE_THREAD_H

#include "base/status.h"

#include <pthread.h>

/* Starts a thread that runs body(argument). Fails with TRI_OUT_OF_MEMORY, with the reason, if the system refuses the
 * thread; `name` is for the message ("the thread that saves"). *out is set only on success. */
tri_status tri_thread_start(const char *name, void *(*body)(void *), void *argument, pthread_t *out);

#endif
