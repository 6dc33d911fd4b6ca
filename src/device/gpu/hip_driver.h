/* AMD's run-time library, which is opened once in a process, and advice for its errors. */
#ifndef TRI_DEVICE_GPU_HIP_DRIVER_H
#define TRI_DEVICE_GPU_HIP_DRIVER_H

#include "device/gpu/hip_calls.h"
#include "device/gpu/vendor.h"

/* The library reports version 5.2.21153 as 50221153. */
typedef struct tri_hip_driver {
  tri_gpu_driver is;
  tri_hip_calls own;
} tri_hip_driver;

/* Implement tri_gpu_amd.driver and tri_gpu_amd.is_lasting. */
tri_status tri_hip_driver_open(const tri_gpu_driver **out);
bool tri_hip_is_lasting(tri_gpu_enum error);

/* Writes to `out` why a library sees no GPU, and returns out. The reason is found from the device files: `kfd` is
 * /dev/kfd, and `nodes` a glob(7) pattern for the files of the GPUs. "" if this process may read and write kfd and at
 * least one of the nodes. */
const char *tri_hip_absence(const char *kfd, const char *nodes, char *out, size_t out_bytes);

/* Writes the chip's name without its features to `out`: "gfx90a" for the library's name "gfx90a:sramecc+:xnack-"; ""
 * for a name of another form. */
void tri_hip_chip(const char *name, char *out, size_t out_bytes);

#endif
