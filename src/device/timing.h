/* How long queued work takes on a device. */
#ifndef TRI_DEVICE_TIMING_H
#define TRI_DEVICE_TIMING_H

#include "device/queue.h"

/* Queues one round of the work; `round` counts from 0, so that it can go from one set of operands to the next. It waits
 * for nothing and makes nothing. */
typedef tri_status tri_device_work(tri_queue *queue, void *context, int round);

/* Queues `rounds` rounds, waits, and tells the seconds that they took together: by the device's own clock and without
 * gaps in which it waits for the host, where it can do that (a recorded graph), else by the host's clock. Rounds before
 * them, to warm up, are the caller's to queue. */
tri_status tri_device_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds);

#endif
