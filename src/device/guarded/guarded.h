/* The guarded device exposes code that forgets that device memory is the device's own and that work is queued. It has
 * the reference device's kernels, bits and wants. But only it can read or write its memory, what is queued runs
 * late, and queues advance against each other in an order that is drawn from a seed. It is for tests. */
#ifndef TRI_DEVICE_GUARDED_GUARDED_H
#define TRI_DEVICE_GUARDED_GUARDED_H

#include "device/device.h"

/* Whether there are such options. */
tri_status tri_guarded_check(const char *options);

/* Fills in a device that has its types. `options`, behind the colon of its name: "" or NAME=NUMBER,... */
tri_status tri_guarded_create(const char *options, const tri_device_request *request, tri_device *out);

#endif
