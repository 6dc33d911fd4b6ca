/* NVIDIA's driver, which is opened once in a process, and advice for its errors. */
#ifndef TRI_DEVICE_GPU_CUDA_DRIVER_H
#define TRI_DEVICE_GPU_CUDA_DRIVER_H

#include "device/gpu/cuda_calls.h"
#include "device/gpu/vendor.h"

/* The driver's version is the highest version of CUDA that it supports: 13000 for 13.0. */
typedef struct tri_cuda_driver {
  tri_gpu_driver is;
  tri_cuda_calls own;
} tri_cuda_driver;

/* Implements tri_gpu_nvidia.driver. */
tri_status tri_cuda_driver_open(const tri_gpu_driver **out);

#endif
