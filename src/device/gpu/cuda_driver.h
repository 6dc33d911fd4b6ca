/* NVIDIA's driver: opened once in a process; and advice for its errors. */
#ifndef TRI_DEVICE_GPU_CUDA_DRIVER_H
#define TRI_DEVICE_GPU_CUDA_DRIVER_H

#include "device/gpu/cuda_calls.h"
#include "device/gpu/vendor.h"

/* The driver's version is that of the CUDA that it supports: 13000. */
typedef struct tri_cuda_driver {
  tri_gpu_driver is;
  tri_cuda_calls own;
} tri_cuda_driver;

/* The functions of tri_gpu_nvidia. */
tri_status tri_cuda_driver_open(const tri_gpu_driver **out);

#endif
