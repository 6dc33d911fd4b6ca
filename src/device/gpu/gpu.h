/* Devices of the kind `gpu`. */
#ifndef TRI_DEVICE_GPU_GPU_H
#define TRI_DEVICE_GPU_GPU_H

#include "device/device.h"
#include "device/gpu/runtime.h"

/* Whether any GPU can be seen; opens drivers, and says nothing. */
bool tri_gpu_is_visible(void);

/* Whether there are such options, on whatever machine. */
tri_status tri_gpu_check(const char *options);

/* Fills in a device that has its types. `options` stands behind the colon of its name: choice.h. */
tri_status tri_gpu_create(const char *options, const tri_device_request *request, tri_device *out);

/* The same for a kind of another name, with GPUs of these runtimes (NULL at the end). `place`: of tri_device_request.
 */
tri_status tri_gpu_create_from(const char *kind, const tri_gpu_runtime *const *runtimes, const char *options, int place,
                               tri_device *out);

#endif
