/* Reads the report of NVIDIA's assembler (ptxas), a part of NVRTC, on the resources of kernels. */
#ifndef TRI_DEVICE_GPU_PTXAS_H
#define TRI_DEVICE_GPU_PTXAS_H

#include "base/status.h"

/* Rewrites *log: the assembler reports each kernel's resources in several lines, which differ by version; they become
 * one line for each kernel, after all other lines. */
tri_status tri_gpu_ptxas_shorten(char **log);

#endif
