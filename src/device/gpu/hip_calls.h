/* The functions and numbers that only AMD's run-time library has (calls.h has the common ones), as in
 * hip/hip_runtime_api.h of ROCm 5 to 7, declared here. */
#ifndef TRI_DEVICE_GPU_HIP_CALLS_H
#define TRI_DEVICE_GPU_HIP_CALLS_H

#include "device/gpu/calls.h"

/* Return values, in addition to those in calls.h. */
enum {
  TRI_HIP_NOT_INITIALIZED = 3,
  TRI_HIP_OLD_DRIVER = 35,
  TRI_HIP_INVALID_DEVICE_FUNCTION = 98,
  TRI_HIP_INVALID_DEVICE = 101,
  TRI_HIP_INVALID_IMAGE = 200,
  TRI_HIP_NO_BINARY_FOR_GPU = 209,
  TRI_HIP_ECC = 214,
  TRI_HIP_INVALID_KERNEL_FILE = 218,
  TRI_HIP_OBJECT_NOT_LOADED = 303,
  TRI_HIP_ILLEGAL_STATE = 401,
  TRI_HIP_ILLEGAL_ADDRESS = 700,
  TRI_HIP_LAUNCH_TIMEOUT = 702,
  TRI_HIP_ASSERT = 710,
  TRI_HIP_LAUNCH_FAILED = 719,
  TRI_HIP_UNKNOWN = 999,
  TRI_HIP_RUNTIME_MEMORY = 1052,
  TRI_HIP_RUNTIME_OTHER = 1053
};

/* Device attributes: the same numbers since version 5.0. */
enum {
  TRI_HIP_CLOCK_KHZ = 5,
  TRI_HIP_L2_BYTES = 19,
  TRI_HIP_BLOCK_THREADS = 56,
  TRI_HIP_MEMORY_BUS_BITS = 59,
  TRI_HIP_MEMORY_CLOCK_KHZ = 60,
  TRI_HIP_PROCESSORS = 63,
  TRI_HIP_SHARED_BYTES = 74,
  TRI_HIP_WARP = 87
};

/* No function returns the name of the chip: it is a member of the device properties, which have another layout and
 * another function from version 6 on. `gcnArchName`, 256 bytes, begins at these offsets. */
enum {
  TRI_HIP_PROPERTIES_BYTES = 4096, /* larger than either struct */
  TRI_HIP_CHIP_OFFSET_5 = 396,     /* hipGetDeviceProperties */
  TRI_HIP_CHIP_OFFSET_6 = 1160,    /* hipGetDevicePropertiesR0600 */
  TRI_HIP_CHIP_BYTES = 256
};

typedef struct tri_hip_calls {
  tri_gpu_enum (*device_use)(int ordinal);
  tri_gpu_enum (*properties_5)(void *out, int ordinal);
  tri_gpu_enum (*properties_6)(void *out, int ordinal);
  tri_gpu_enum (*module_load)(tri_gpu_module_handle *out, const void *image);
} tri_hip_calls;

/* C(FIELD, NAME) for each function that every version has, with its name in the library. */
#define TRI_HIP_CALLS(C)                                                                                               \
  C(device_use, hipSetDevice)                                                                                          \
  C(module_load, hipModuleLoadData)
/* Each version of the library has at least one of these two functions. */
#define TRI_HIP_CALLS_IF_ANY(C)                                                                                        \
  C(properties_5, hipGetDeviceProperties)                                                                              \
  C(properties_6, hipGetDevicePropertiesR0600)

#endif
