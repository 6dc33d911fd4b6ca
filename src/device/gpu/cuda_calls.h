/* Declares the functions and numbers of NVIDIA's driver that HIP does not have, or has with other prototypes; calls.h
 * has the common ones. All agree with cuda.h of a CUDA toolkit, which is not needed to build this program. */
#ifndef TRI_DEVICE_GPU_CUDA_CALLS_H
#define TRI_DEVICE_GPU_CUDA_CALLS_H

#include "device/gpu/calls.h"

typedef int tri_cuda_device;
typedef unsigned long long tri_cuda_address;
typedef struct tri_cuda_context_object *tri_cuda_context;

/* Return values, in addition to those in calls.h. */
enum {
  TRI_CUDA_STUB_LIBRARY = 34,
  TRI_CUDA_DEVICE_UNAVAILABLE = 46,
  TRI_CUDA_INVALID_IMAGE = 200,
  TRI_CUDA_NO_BINARY_FOR_GPU = 209,
  TRI_CUDA_ECC = 214,
  TRI_CUDA_INVALID_TEXT = 218,
  TRI_CUDA_NVLINK = 220,
  TRI_CUDA_NO_TEXT_COMPILER = 221,
  TRI_CUDA_UNSUPPORTED_TEXT = 222,
  TRI_CUDA_TEXT_COMPILER_OFF = 223,
  TRI_CUDA_CONTAINED = 226,
  TRI_CUDA_ILLEGAL_ADDRESS = 700,
  TRI_CUDA_LAUNCH_RESOURCES = 701,
  TRI_CUDA_LAUNCH_TIMEOUT = 702,
  TRI_CUDA_ASSERT = 710,
  TRI_CUDA_HARDWARE_STACK = 714,
  TRI_CUDA_ILLEGAL_INSTRUCTION = 715,
  TRI_CUDA_MISALIGNED_ADDRESS = 716,
  TRI_CUDA_INVALID_ADDRESS_SPACE = 717,
  TRI_CUDA_INVALID_PC = 718,
  TRI_CUDA_LAUNCH_FAILED = 719,
  TRI_CUDA_SYSTEM_NOT_READY = 802,
  TRI_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
  TRI_CUDA_COMPAT_NOT_SUPPORTED = 804,
  TRI_CUDA_MPS_FIRST = 805,
  TRI_CUDA_MPS_LAST = 810,
  TRI_CUDA_UNKNOWN = 999
};

/* Device attributes. */
enum {
  TRI_CUDA_BLOCK_THREADS = 1,
  TRI_CUDA_WARP = 10,
  TRI_CUDA_CLOCK_KHZ = 13,
  TRI_CUDA_PROCESSORS = 16,
  TRI_CUDA_MEMORY_CLOCK_KHZ = 36,
  TRI_CUDA_MEMORY_BUS_BITS = 37,
  TRI_CUDA_L2_BYTES = 38,
  TRI_CUDA_CAPABILITY_MAJOR = 75,
  TRI_CUDA_CAPABILITY_MINOR = 76,
  TRI_CUDA_SHARED_BYTES_ASKED = 97
};

enum {
  TRI_CUDA_FUNCTION_SHARED_ASKED = 8,
  TRI_CUDA_MEMORY_HOST = 1,
  TRI_CUDA_MEMORY_DEVICE = 2,
  TRI_CUDA_JIT_ERRORS = 5,
  TRI_CUDA_JIT_ERRORS_BYTES = 6,
  TRI_CUDA_LAUNCH_END = 0,
  TRI_CUDA_LAUNCH_BUFFER = 1,
  TRI_CUDA_LAUNCH_BUFFER_BYTES = 2
};

/* The source or the destination of a copy of rows, laid out as in CUDA_MEMCPY2D; `memory` selects the address: `host`
 * or `device`. */
typedef struct tri_cuda_copy_side {
  size_t x_bytes, y;
  tri_gpu_enum memory;
  const void *host;
  tri_cuda_address device;
  void *array;
  size_t pitch;
} tri_cuda_copy_side;

typedef struct tri_cuda_copy {
  tri_cuda_copy_side from, to;
  size_t width_bytes, height;
} tri_cuda_copy;

/* Functions that only CUDA's driver has, and those whose prototypes differ from HIP's. */
typedef struct tri_cuda_calls {
  tri_gpu_enum (*init)(unsigned flags);
  tri_gpu_enum (*error_name)(tri_gpu_enum error, const char **out);
  tri_gpu_enum (*error_text)(tri_gpu_enum error, const char **out);
  tri_gpu_enum (*device)(tri_cuda_device *out, int ordinal);
  tri_gpu_enum (*context_retain)(tri_cuda_context *out, tri_cuda_device device);
  tri_gpu_enum (*context_release)(tri_cuda_device device);
  tri_gpu_enum (*context_use)(tri_cuda_context context);
  tri_gpu_enum (*memory_create)(tri_cuda_address *out, size_t bytes);
  tri_gpu_enum (*memory_destroy)(tri_cuda_address memory);
  tri_gpu_enum (*memory_range)(tri_cuda_address *base, size_t *bytes, tri_cuda_address memory);
  tri_gpu_enum (*copy)(tri_cuda_address to, tri_cuda_address from, size_t bytes, tri_gpu_stream_handle stream);
  tri_gpu_enum (*copy_rows)(const tri_cuda_copy *copy, tri_gpu_stream_handle stream);
  tri_gpu_enum (*fill)(tri_cuda_address to, unsigned char value, size_t bytes, tri_gpu_stream_handle stream);
  tri_gpu_enum (*module_load)(tri_gpu_module_handle *out, const void *image, unsigned num_options,
                              tri_gpu_enum *options, void **values);
  tri_gpu_enum (*function_set)(tri_gpu_function_handle function, tri_gpu_enum attribute, int value);
  tri_gpu_enum (*function_load)(tri_gpu_function_handle function); /* NULL before CUDA 12.4 */
} tri_cuda_calls;

/* C(FIELD, NAME) for each function that every driver has, in addition to TRI_GPU_CALLS_ADAPTED. */
#define TRI_CUDA_CALLS(C)                                                                                              \
  C(init, cuInit)                                                                                                      \
  C(device, cuDeviceGet)                                                                                               \
  C(context_retain, cuDevicePrimaryCtxRetain)                                                                          \
  C(context_release, cuDevicePrimaryCtxRelease_v2)                                                                     \
  C(context_use, cuCtxSetCurrent)                                                                                      \
  C(module_load, cuModuleLoadDataEx)                                                                                   \
  C(function_set, cuFuncSetAttribute)
/* The functions that only newer drivers have. */
#define TRI_CUDA_CALLS_IF_ANY(C) C(function_load, cuFuncLoad)

#endif
