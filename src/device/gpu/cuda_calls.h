/* The functions and numbers of NVIDIA's driver that are used here: what cuda.h of a CUDA toolkit says, in words of our
 * own (tests/gpu/prototypes_cuda.c compares). */
#ifndef TRI_DEVICE_GPU_CUDA_CALLS_H
#define TRI_DEVICE_GPU_CUDA_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned tri_cuda_enum; /* one of theirs, without values below 0 */
typedef int tri_cuda_device;
typedef unsigned long long tri_cuda_address;
typedef struct tri_cuda_context_object *tri_cuda_context;
typedef struct tri_cuda_module_object *tri_cuda_module;
typedef struct tri_cuda_function_object *tri_cuda_function;
typedef struct tri_cuda_stream_object *tri_cuda_stream;
typedef struct tri_cuda_event_object *tri_cuda_event;
typedef struct tri_cuda_graph_object *tri_cuda_graph;
typedef struct tri_cuda_graph_run_object *tri_cuda_graph_run;

/* Every function returns one of these numbers, 0 for success. */
enum {
  TRI_CUDA_OUT_OF_MEMORY = 2,
  TRI_CUDA_STUB_LIBRARY = 34,
  TRI_CUDA_DEVICE_UNAVAILABLE = 46,
  TRI_CUDA_NO_DEVICE = 100,
  TRI_CUDA_INVALID_IMAGE = 200,
  TRI_CUDA_NO_BINARY_FOR_GPU = 209,
  TRI_CUDA_ECC = 214,
  TRI_CUDA_INVALID_TEXT = 218,
  TRI_CUDA_NVLINK = 220,
  TRI_CUDA_NO_TEXT_COMPILER = 221,
  TRI_CUDA_UNSUPPORTED_TEXT = 222,
  TRI_CUDA_TEXT_COMPILER_OFF = 223,
  TRI_CUDA_CONTAINED = 226,
  TRI_CUDA_NOT_READY = 600,
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
  TRI_CUDA_CAPTURE_FIRST = 900,
  TRI_CUDA_CAPTURE_LAST = 908,
  TRI_CUDA_UNKNOWN = 999
};

/* What a device is asked. */
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
  TRI_CUDA_STREAM_NON_BLOCKING = 1,
  TRI_CUDA_EVENT_UNTIMED = 2,
  TRI_CUDA_CAPTURE_THREAD_LOCAL = 1,
  TRI_CUDA_CAPTURE_RELAXED = 2,
  TRI_CUDA_HOST_PORTABLE = 1,
  TRI_CUDA_MEMORY_HOST = 1,
  TRI_CUDA_MEMORY_DEVICE = 2,
  TRI_CUDA_JIT_ERRORS = 5,
  TRI_CUDA_JIT_ERRORS_BYTES = 6,
  TRI_CUDA_LAUNCH_END = 0,
  TRI_CUDA_LAUNCH_BUFFER = 1,
  TRI_CUDA_LAUNCH_BUFFER_BYTES = 2
};

/* A copy of rows: of one side, `memory` says which of `host` and `device` it is. */
typedef struct tri_cuda_copy_side {
  size_t x_bytes, y;
  tri_cuda_enum memory;
  const void *host;
  tri_cuda_address device;
  void *array;
  size_t pitch;
} tri_cuda_copy_side;

typedef struct tri_cuda_copy {
  tri_cuda_copy_side from, to;
  size_t width_bytes, height;
} tri_cuda_copy;

typedef struct tri_cuda_calls {
  tri_cuda_enum (*init)(unsigned flags);
  tri_cuda_enum (*driver_version)(int *out);
  tri_cuda_enum (*error_name)(tri_cuda_enum error, const char **out);
  tri_cuda_enum (*error_text)(tri_cuda_enum error, const char **out);
  tri_cuda_enum (*device_count)(int *out);
  tri_cuda_enum (*device)(tri_cuda_device *out, int ordinal);
  tri_cuda_enum (*device_name)(char *out, int bytes, tri_cuda_device device);
  tri_cuda_enum (*device_attribute)(int *out, tri_cuda_enum attribute, tri_cuda_device device);
  tri_cuda_enum (*device_memory)(size_t *out, tri_cuda_device device);
  tri_cuda_enum (*device_bus)(char *out, int bytes, tri_cuda_device device);
  tri_cuda_enum (*context_retain)(tri_cuda_context *out, tri_cuda_device device);
  tri_cuda_enum (*context_release)(tri_cuda_device device);
  tri_cuda_enum (*context_use)(tri_cuda_context context);
  tri_cuda_enum (*memory_info)(size_t *free, size_t *total);
  tri_cuda_enum (*memory_create)(tri_cuda_address *out, size_t bytes);
  tri_cuda_enum (*memory_destroy)(tri_cuda_address memory);
  tri_cuda_enum (*memory_range)(tri_cuda_address *base, size_t *bytes, tri_cuda_address memory);
  tri_cuda_enum (*host_create)(void **out, size_t bytes, unsigned flags);
  tri_cuda_enum (*host_destroy)(void *memory);
  tri_cuda_enum (*copy)(tri_cuda_address to, tri_cuda_address from, size_t bytes, tri_cuda_stream stream);
  tri_cuda_enum (*copy_rows)(const tri_cuda_copy *copy, tri_cuda_stream stream);
  tri_cuda_enum (*fill)(tri_cuda_address to, unsigned char value, size_t bytes, tri_cuda_stream stream);
  tri_cuda_enum (*stream_create)(tri_cuda_stream *out, unsigned flags);
  tri_cuda_enum (*stream_destroy)(tri_cuda_stream stream);
  tri_cuda_enum (*stream_finish)(tri_cuda_stream stream);
  tri_cuda_enum (*stream_wait)(tri_cuda_stream stream, tri_cuda_event event, unsigned flags);
  tri_cuda_enum (*event_create)(tri_cuda_event *out, unsigned flags);
  tri_cuda_enum (*event_destroy)(tri_cuda_event event);
  tri_cuda_enum (*event_record)(tri_cuda_event event, tri_cuda_stream stream);
  tri_cuda_enum (*event_wait)(tri_cuda_event event);
  tri_cuda_enum (*event_query)(tri_cuda_event event);
  tri_cuda_enum (*event_elapsed)(float *milliseconds, tri_cuda_event from, tri_cuda_event to);
  tri_cuda_enum (*module_load)(tri_cuda_module *out, const void *image, unsigned num_options, tri_cuda_enum *options,
                               void **values);
  tri_cuda_enum (*module_unload)(tri_cuda_module module);
  tri_cuda_enum (*module_function)(tri_cuda_function *out, tri_cuda_module module, const char *name);
  tri_cuda_enum (*function_set)(tri_cuda_function function, tri_cuda_enum attribute, int value);
  tri_cuda_enum (*function_load)(tri_cuda_function function); /* drivers before 12.4 have none */
  tri_cuda_enum (*launch)(tri_cuda_function function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                          unsigned threads_y, unsigned threads_z, unsigned shared_bytes, tri_cuda_stream stream,
                          void **arguments, void **extra);
  tri_cuda_enum (*capture_begin)(tri_cuda_stream stream, tri_cuda_enum mode);
  tri_cuda_enum (*capture_end)(tri_cuda_stream stream, tri_cuda_graph *out);
  tri_cuda_enum (*capture_mode)(tri_cuda_enum *exchanged);
  tri_cuda_enum (*graph_instantiate)(tri_cuda_graph_run *out, tri_cuda_graph graph, unsigned long long flags);
  tri_cuda_enum (*graph_launch)(tri_cuda_graph_run graph, tri_cuda_stream stream);
  tri_cuda_enum (*graph_run_destroy)(tri_cuda_graph_run graph);
  tri_cuda_enum (*graph_destroy)(tri_cuda_graph graph);
} tri_cuda_calls;

/* C(FIELD, NAME) for each that every driver has: the library's own name, whose number says which prototype it is. */
#define TRI_CUDA_CALLS(C)                                                                                              \
  C(init, cuInit)                                                                                                      \
  C(driver_version, cuDriverGetVersion)                                                                                \
  C(error_name, cuGetErrorName)                                                                                        \
  C(error_text, cuGetErrorString)                                                                                      \
  C(device_count, cuDeviceGetCount)                                                                                    \
  C(device, cuDeviceGet)                                                                                               \
  C(device_name, cuDeviceGetName)                                                                                      \
  C(device_attribute, cuDeviceGetAttribute)                                                                            \
  C(device_memory, cuDeviceTotalMem_v2)                                                                                \
  C(device_bus, cuDeviceGetPCIBusId)                                                                                   \
  C(context_retain, cuDevicePrimaryCtxRetain)                                                                          \
  C(context_release, cuDevicePrimaryCtxRelease_v2)                                                                     \
  C(context_use, cuCtxSetCurrent)                                                                                      \
  C(memory_info, cuMemGetInfo_v2)                                                                                      \
  C(memory_create, cuMemAlloc_v2)                                                                                      \
  C(memory_destroy, cuMemFree_v2)                                                                                      \
  C(memory_range, cuMemGetAddressRange_v2)                                                                             \
  C(host_create, cuMemHostAlloc)                                                                                       \
  C(host_destroy, cuMemFreeHost)                                                                                       \
  C(copy, cuMemcpyAsync)                                                                                               \
  C(copy_rows, cuMemcpy2DAsync_v2)                                                                                     \
  C(fill, cuMemsetD8Async)                                                                                             \
  C(stream_create, cuStreamCreate)                                                                                     \
  C(stream_destroy, cuStreamDestroy_v2)                                                                                \
  C(stream_finish, cuStreamSynchronize)                                                                                \
  C(stream_wait, cuStreamWaitEvent)                                                                                    \
  C(event_create, cuEventCreate)                                                                                       \
  C(event_destroy, cuEventDestroy_v2)                                                                                  \
  C(event_record, cuEventRecord)                                                                                       \
  C(event_wait, cuEventSynchronize)                                                                                    \
  C(event_query, cuEventQuery)                                                                                         \
  C(event_elapsed, cuEventElapsedTime)                                                                                 \
  C(module_load, cuModuleLoadDataEx)                                                                                   \
  C(module_unload, cuModuleUnload)                                                                                     \
  C(module_function, cuModuleGetFunction)                                                                              \
  C(function_set, cuFuncSetAttribute)                                                                                  \
  C(launch, cuLaunchKernel)                                                                                            \
  C(capture_begin, cuStreamBeginCapture_v2)                                                                            \
  C(capture_end, cuStreamEndCapture)                                                                                   \
  C(capture_mode, cuThreadExchangeStreamCaptureMode)                                                                   \
  C(graph_instantiate, cuGraphInstantiateWithFlags)                                                                    \
  C(graph_launch, cuGraphLaunch)                                                                                       \
  C(graph_run_destroy, cuGraphExecDestroy)                                                                             \
  C(graph_destroy, cuGraphDestroy)
/* And what newer ones have. */
#define TRI_CUDA_CALLS_IF_ANY(C) C(function_load, cuFuncLoad)

#endif
