/* Devices of the kind `gpu`. */
#ifndef TRI_DEVICE_GPU_GPU_H
#define TRI_DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/runtime.h"

/* Returns whether any GPU is visible. Opens drivers, and prints nothing. */
bool tri_gpu_is_visible(void);

/* Fails with TRI_BAD_CONFIG if the options' syntax is wrong, on any machine. */
tri_status tri_gpu_check(const char *options);

/* Sets the members of a device; the caller has set info.types. `options` is the text after the colon of the device's
 * name. Fails as tri_gpu_choose does (choice.h), and if the GPU cannot be opened or its kernels cannot be compiled or
 * loaded. */
tri_status tri_gpu_create(const char *options, const tri_device_request *request, tri_device *out);

/* Works like tri_gpu_create, for the kind of device named `kind` and for GPUs of the given runtimes (a list that ends
 * with NULL). `place`: tri_device_request.place. */
tri_status tri_gpu_create_from(const char *kind, const tri_gpu_runtime *const *runtimes, const char *options, int place,
                               tri_device *out);

#endif
