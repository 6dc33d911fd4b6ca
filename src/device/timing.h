/* Measures the time of queued work on a device. */
#ifndef TRI_DEVICE_TIMING_H
#define TRI_DEVICE_TIMING_H

#include "device/queue.h"

/* Queues one round of the work. `round` counts from 0, so that rounds can use different operands. The function must not
 * wait or allocate. */
typedef tri_status tri_device_work(tri_queue *queue, void *context, int round);

/* Queues `rounds` rounds, waits, and sets *seconds to their total time. The time is measured by the device's clock,
 * without gaps in which the device waits for the host, if the device supports that (a recorded graph); else by the
 * host's clock. The caller queues warm-up rounds before. */
tri_status tri_device_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds);

#endif
