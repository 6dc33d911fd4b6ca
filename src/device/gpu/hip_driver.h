/* AMD's run-time library: opened once in a process, and what its errors mean to who reads them. */
#ifndef TRI_DEVICE_GPU_HIP_DRIVER_H
#define TRI_DEVICE_GPU_HIP_DRIVER_H

#include "device/gpu/hip_calls.h"
#include "device/gpu/vendor.h"

/* Its version: 50221153 for 5.2.21153. */
typedef struct tri_hip_driver {
  tri_gpu_driver is;
  tri_hip_calls own;
} tri_hip_driver;

/* For tri_gpu_amd. */
tri_status tri_hip_driver_open(const tri_gpu_driver **out);
const char *tri_hip_advice(tri_gpu_enum error);
bool tri_hip_is_lasting(tri_gpu_enum error);

/* Why a library sees no GPU, by the files through which it reaches them: `kfd` is /dev/kfd, and `nodes` a pattern of
 * glob(7) for those of the GPUs. "" if they are there and may be used. */
const char *tri_hip_absence(const char *kfd, const char *nodes, char *out, size_t out_bytes);

/* "gfx90a" of the chip's name as the library has it, "gfx90a:sramecc+:xnack-"; "" of what is no such name. */
void tri_hip_chip(const char *name, char *out, size_t out_bytes);

#endif
