/* Devices of the kinds `gpu` and `emulated`: the kernels of GPUs on the CPU, for tests. */
#ifndef TRI_DEVICE_GPU_GPU_H
#define TRI_DEVICE_GPU_GPU_H

#include "device/device.h"

/* Whether any GPU can be seen; opens drivers, and says nothing. */
bool tri_gpu_is_visible(void);

/* Whether there are such options, on whatever machine. */
tri_status tri_gpu_check(const char *options);
tri_status tri_gpu_check_emulated(const char *options);

/* Each fills in a device that has its types. `options` stands behind the colon of its name: choice.h, emulated.c. */
tri_status tri_gpu_create(const char *options, const tri_device_request *request, tri_device *out);
tri_status tri_gpu_create_emulated(const char *options, const tri_device_request *request, tri_device *out);

#endif
