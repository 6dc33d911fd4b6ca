/* Devices of kind `emulated`: the kernels of GPUs on the CPU, for tests. */
#ifndef TRI_DEVICE_GPU_GPU_H
#define TRI_DEVICE_GPU_GPU_H

#include "device/device.h"

/* Fills in a device that has its types. `options` stands behind the colon of its name: emulated.c. */
tri_status tri_gpu_create_emulated(const char *options, int threads, tri_device *out);

#endif
