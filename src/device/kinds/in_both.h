/* The entries that both tables of kinds have. */
#ifndef TRI_DEVICE_KINDS_IN_BOTH_H
#define TRI_DEVICE_KINDS_IN_BOTH_H

#include "device/cpu/cpu.h"
#include "device/gpu/gpu.h"
#include "device/reference/reference.h"

#define TRI_KINDS_IN_BOTH                                                                                              \
  {"cpu", 1u << TRI_FP32 | 1u << TRI_BF16, false, NULL, tri_cpu_create, NULL},                                         \
      {"reference", 1u << TRI_FP64 | 1u << TRI_FP32, false, tri_reference_check, tri_reference_create, NULL}, {        \
    "gpu", 1u << TRI_FP64 | 1u << TRI_FP32 | 1u << TRI_BF16, false, tri_gpu_check, tri_gpu_create, tri_gpu_is_visible  \
  }

#endif
