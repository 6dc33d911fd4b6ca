/* A wish to stop, by SIGINT, SIGTERM or SIGUSR1 (what a launcher passes on to the ranks of a job).
 *
 * Signals are waited for by a thread of their own and blocked in all others. That is more than taste: oneDNN's matrix
 * kernels use the stack pointer as a register like any other, so a handler that ran on a computing thread's stack would
 * write its frame wherever that register points, into the middle of the heap. */
#ifndef TRI_BASE_STOP_H
#define TRI_BASE_STOP_H

#include "base/status.h"

#include <stdbool.h>

/* LOCAL. Once, before any other thread is started. Until tri_stop_defer a signal ends the process as ever. */
tri_status tri_stop_listen(void);

/* From here on the first signal is a wish that the caller looks for, and the second ends the process. */
void tri_stop_defer(void);
bool tri_stop_asked(void);

#endif
