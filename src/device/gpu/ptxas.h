/* Reads the report of NVIDIA's assembler (ptxas), a part of NVRTC, on the resources of kernels. */
#ifndef TRI_DEVICE_GPU_PTXAS_H
#define TRI_DEVICE_GPU_PTXAS_H

#include "base/status.h"

/* Rewrites *log, which is released and replaced: the assembler reports each kernel's resources in several lines, which
 * differ by version; the last of them becomes one line in the form of tri_gpu_code_kernel_print, and the others are
 * removed. Other messages stay, in order. */
tri_status tri_gpu_ptxas_shorten(char **log);

#endif
