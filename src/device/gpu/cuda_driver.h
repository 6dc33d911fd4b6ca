/* NVIDIA's driver: opened once in a process, and what its errors mean to who reads them. */
#ifndef TRI_DEVICE_GPU_CUDA_DRIVER_H
#define TRI_DEVICE_GPU_CUDA_DRIVER_H

#include "base/status.h"
#include "device/gpu/cuda_calls.h"

typedef struct tri_cuda_driver {
  tri_cuda_calls calls;
  const char *path;
  int version;   /* of CUDA that it knows: 13000 */
  char text[32]; /* "580.65.06 (CUDA 13.0)" */
  int count;     /* GPUs that this process may use */
  char why[512]; /* why there are that many */
} tri_cuda_driver;

/* *out with a count of 0 and TRI_OK if there is no driver or no GPU. A driver that is there and does not work is a
 * failure, the same at each call. */
tri_status tri_cuda_driver_open(const tri_cuda_driver **out);

/* A call of the driver's has failed: tells its name for the error, and what to do where that is known. `of` is what it
 * happened to: "GPU 0 (NVIDIA H200)". */
tri_status tri_cuda_failed(const tri_cuda_driver *driver, const char *of, const char *call, int error);

#endif
