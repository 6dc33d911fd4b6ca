/* The emulated device: the kernels of GPUs on the CPU (emulator.h), for tests. It implements the calls of a vendor's
 * driver (gpu/runtime.h), so that all of device/gpu runs except the drivers themselves. */
#ifndef TRI_DEVICE_EMULATED_EMULATED_H
#define TRI_DEVICE_EMULATED_EMULATED_H

#include "device/device.h"

/* Checks the options of the device. Fails with TRI_BAD_CONFIG if they are wrong. */
tri_status tri_emulated_check(const char *options);

/* Sets the members of a device; the caller has set info.types. `options` is the part of the device's name after the
 * colon; gpu/choice.h and emulated.c have the list of options. */
tri_status tri_emulated_create(const char *options, const tri_device_request *request, tri_device *out);

#endif
