/* The emulated device: the kernels of GPUs, on the CPU (emulator.h), for tests. It stands behind the same calls as a
 * vendor's driver (gpu/runtime.h), so that all of device/gpu runs but the drivers themselves. */
#ifndef TRI_DEVICE_EMULATED_EMULATED_H
#define TRI_DEVICE_EMULATED_EMULATED_H

#include "device/device.h"

/* Whether there are such options. */
tri_status tri_emulated_check(const char *options);

/* Fills in a device that has its types. `options` stands behind the colon of its name: gpu/choice.h, emulated.c. */
tri_status tri_emulated_create(const char *options, const tri_device_request *request, tri_device *out);

#endif
