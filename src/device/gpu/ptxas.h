/* Reads the report of NVIDIA's assembler (ptxas), a part of NVRTC, on the resources of kernels. */
#ifndef TRI_DEVICE_GPU_PTXAS_H
#define TRI_DEVICE_GPU_PTXAS_H

#include "base/status.h"

/* Replaces *log by a shorter text, and releases the old one. The assembler's lines about a kernel's resources, which
 * differ by version, become one line in the form of tri_gpu_code_kernel_print. Other messages stay, in order. */
tri_status tri_gpu_ptxas_shorten(char **log);

#endif
