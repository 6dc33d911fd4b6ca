/* The folders of AMD's libraries: of ROCm's packages, and of Python's. */
#include "device/gpu/hip_library.h"

#include <stddef.h>

const char *const tri_hip_folders[] = {"/opt/rocm/lib", "/opt/rocm/core/lib", "/opt/rocm-[567]*/lib", NULL};

/* The Python packages of AMD (rocm-sdk-core) and of PyTorch for ROCm. */
const char *const tri_hip_wheels[] = {"_rocm_sdk_core/lib", "torch/lib", NULL};
