/* The guarded device, for tests, detects code that accesses device memory from the host, or that does not wait for
 * queued work. It has the kernels, results and description of the reference device. But the host cannot read or write
 * its memory, queued work runs late, and the order in which queues advance is random, from a seed. */
#ifndef TRI_DEVICE_GUARDED_GUARDED_H
#define TRI_DEVICE_GUARDED_GUARDED_H

#include "device/device.h"

/* Checks the options of the device's name, the part after the colon. Fails with TRI_BAD_CONFIG if they are wrong. */
tri_status tri_guarded_check(const char *options);

/* Sets the members of a device; the caller has set info.types. `options` is the part of the device's name after the
 * colon: "" or NAME=NUMBER,... */
tri_status tri_guarded_create(const char *options, const tri_device_request *request, tri_device *out);

#endif
