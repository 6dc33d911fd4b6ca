/* The calls of a vendor's run-time library that this program uses: the common part of CUDA's driver and HIP, declared
 * here. If the two prototypes of a call differ, this file has HIP's, and cuda_driver.c converts its arguments to CUDA's
 * (tests/gpu/prototypes_cuda.c and prototypes_hip.c compare both with the vendors' headers). cuda_calls.h has the calls
 * that only CUDA has, and CUDA's prototypes of those that differ; hip_calls.h has the calls that only HIP has. */
#ifndef TRI_DEVICE_GPU_CALLS_H
#define TRI_DEVICE_GPU_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned tri_gpu_enum; /* the type that compilers choose for the vendor's enums, because no value is below 0 */

/* The vendor's own objects. */
typedef struct tri_gpu_stream_object *tri_gpu_stream_handle;
typedef struct tri_gpu_event_object *tri_gpu_event_handle;
typedef struct tri_gpu_module_object *tri_gpu_module_handle;
typedef struct tri_gpu_function_object *tri_gpu_function_handle;
typedef struct tri_gpu_graph_object *tri_gpu_graph_handle;
typedef struct tri_gpu_graph_run_object *tri_gpu_graph_run_handle;

/* Return values of the calls, in addition to 0 for success and to the other errors that the vendors' headers list. */
enum {
  TRI_GPU_OUT_OF_MEMORY = 2,
  TRI_GPU_NO_DEVICE = 100,
  TRI_GPU_NOT_READY = 600,
  TRI_GPU_CAPTURE_FIRST = 900,
  TRI_GPU_CAPTURE_LAST = 908
};

enum {
  TRI_GPU_STREAM_NON_BLOCKING = 1,
  TRI_GPU_EVENT_UNTIMED = 2,
  TRI_GPU_CAPTURE_THREAD_LOCAL = 1,
  TRI_GPU_CAPTURE_RELAXED = 2,
  TRI_GPU_HOST_PORTABLE = 1
};

/* The direction of a copy. The numbers are HIP's; CUDA's driver finds the direction from the addresses. */
enum {
  TRI_GPU_COPY_HOST_TO_HOST = 0,
  TRI_GPU_COPY_HOST_TO_DEVICE = 1,
  TRI_GPU_COPY_DEVICE_TO_HOST = 2,
  TRI_GPU_COPY_DEVICE_TO_DEVICE = 3
};

typedef struct tri_gpu_calls {
  tri_gpu_enum (*version)(int *out); /* sets *out to 13000 for CUDA 13.0, and to 50221153 for HIP 5.2.21153 */
  tri_gpu_enum (*device_count)(int *out);
  tri_gpu_enum (*device_name)(char *out, int bytes, int device);
  tri_gpu_enum (*device_attribute)(int *out, tri_gpu_enum attribute, int device);
  tri_gpu_enum (*device_memory)(size_t *out, int device);
  tri_gpu_enum (*device_bus)(char *out, int bytes, int device);
  tri_gpu_enum (*memory_info)(size_t *free, size_t *total);
  tri_gpu_enum (*host_create)(void **out, size_t bytes, unsigned flags);
  tri_gpu_enum (*host_destroy)(void *memory);
  tri_gpu_enum (*stream_create)(tri_gpu_stream_handle *out, unsigned flags);
  tri_gpu_enum (*stream_destroy)(tri_gpu_stream_handle stream);
  tri_gpu_enum (*stream_finish)(tri_gpu_stream_handle stream);
  tri_gpu_enum (*stream_wait)(tri_gpu_stream_handle stream, tri_gpu_event_handle event, unsigned flags);
  tri_gpu_enum (*event_create)(tri_gpu_event_handle *out, unsigned flags);
  tri_gpu_enum (*event_destroy)(tri_gpu_event_handle event);
  tri_gpu_enum (*event_record)(tri_gpu_event_handle event, tri_gpu_stream_handle stream);
  tri_gpu_enum (*event_wait)(tri_gpu_event_handle event);
  tri_gpu_enum (*event_query)(tri_gpu_event_handle event);
  tri_gpu_enum (*event_elapsed)(float *milliseconds, tri_gpu_event_handle from, tri_gpu_event_handle to);
  tri_gpu_enum (*module_unload)(tri_gpu_module_handle module);
  tri_gpu_enum (*module_function)(tri_gpu_function_handle *out, tri_gpu_module_handle module, const char *name);
  tri_gpu_enum (*launch)(tri_gpu_function_handle function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                         unsigned threads_y, unsigned threads_z, unsigned shared_bytes, tri_gpu_stream_handle stream,
                         void **arguments, void **extra);
  tri_gpu_enum (*capture_begin)(tri_gpu_stream_handle stream, tri_gpu_enum mode);
  tri_gpu_enum (*capture_end)(tri_gpu_stream_handle stream, tri_gpu_graph_handle *out);
  tri_gpu_enum (*capture_mode)(tri_gpu_enum *exchanged);
  tri_gpu_enum (*graph_instantiate)(tri_gpu_graph_run_handle *out, tri_gpu_graph_handle graph,
                                    unsigned long long flags);
  tri_gpu_enum (*graph_launch)(tri_gpu_graph_run_handle graph, tri_gpu_stream_handle stream);
  tri_gpu_enum (*graph_run_destroy)(tri_gpu_graph_run_handle graph);
  tri_gpu_enum (*graph_destroy)(tri_gpu_graph_handle graph);
  /* CUDA's driver has other prototypes for the following calls; cuda_driver.c converts them. */
  const char *(*error_name)(tri_gpu_enum error);
  const char *(*error_text)(tri_gpu_enum error);
  tri_gpu_enum (*memory_create)(void **out, size_t bytes);
  tri_gpu_enum (*memory_destroy)(void *memory);
  tri_gpu_enum (*memory_range)(void **base, size_t *bytes, void *memory);
  tri_gpu_enum (*copy)(void *to, const void *from, size_t bytes, tri_gpu_enum kind, tri_gpu_stream_handle stream);
  tri_gpu_enum (*copy_rows)(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                            size_t height, tri_gpu_enum kind, tri_gpu_stream_handle stream);
  tri_gpu_enum (*fill)(void *to, int value, size_t bytes, tri_gpu_stream_handle stream);
} tri_gpu_calls;

/* C(FIELD, CUDA, HIP) for each call with the same prototype in both, with the names in the libraries. A suffix _v2 in
 * CUDA's names is the version of the prototype. */
#define TRI_GPU_CALLS_ALIKE(C)                                                                                         \
  C(version, cuDriverGetVersion, hipRuntimeGetVersion)                                                                 \
  C(device_count, cuDeviceGetCount, hipGetDeviceCount)                                                                 \
  C(device_name, cuDeviceGetName, hipDeviceGetName)                                                                    \
  C(device_attribute, cuDeviceGetAttribute, hipDeviceGetAttribute)                                                     \
  C(device_memory, cuDeviceTotalMem_v2, hipDeviceTotalMem)                                                             \
  C(device_bus, cuDeviceGetPCIBusId, hipDeviceGetPCIBusId)                                                             \
  C(memory_info, cuMemGetInfo_v2, hipMemGetInfo)                                                                       \
  C(host_create, cuMemHostAlloc, hipHostMalloc)                                                                        \
  C(host_destroy, cuMemFreeHost, hipHostFree)                                                                          \
  C(stream_create, cuStreamCreate, hipStreamCreateWithFlags)                                                           \
  C(stream_destroy, cuStreamDestroy_v2, hipStreamDestroy)                                                              \
  C(stream_finish, cuStreamSynchronize, hipStreamSynchronize)                                                          \
  C(stream_wait, cuStreamWaitEvent, hipStreamWaitEvent)                                                                \
  C(event_create, cuEventCreate, hipEventCreateWithFlags)                                                              \
  C(event_destroy, cuEventDestroy_v2, hipEventDestroy)                                                                 \
  C(event_record, cuEventRecord, hipEventRecord)                                                                       \
  C(event_wait, cuEventSynchronize, hipEventSynchronize)                                                               \
  C(event_query, cuEventQuery, hipEventQuery)                                                                          \
  C(event_elapsed, cuEventElapsedTime, hipEventElapsedTime)                                                            \
  C(module_unload, cuModuleUnload, hipModuleUnload)                                                                    \
  C(module_function, cuModuleGetFunction, hipModuleGetFunction)                                                        \
  C(launch, cuLaunchKernel, hipModuleLaunchKernel)                                                                     \
  C(capture_begin, cuStreamBeginCapture_v2, hipStreamBeginCapture)                                                     \
  C(capture_end, cuStreamEndCapture, hipStreamEndCapture)                                                              \
  C(capture_mode, cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)                               \
  C(graph_instantiate, cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)                                      \
  C(graph_launch, cuGraphLaunch, hipGraphLaunch)                                                                       \
  C(graph_run_destroy, cuGraphExecDestroy, hipGraphExecDestroy)                                                        \
  C(graph_destroy, cuGraphDestroy, hipGraphDestroy)
/* C(FIELD, CUDA, HIP) for each call whose prototype in CUDA's driver differs from HIP's (tri_cuda_calls). */
#define TRI_GPU_CALLS_ADAPTED(C)                                                                                       \
  C(error_name, cuGetErrorName, hipGetErrorName)                                                                       \
  C(error_text, cuGetErrorString, hipGetErrorString)                                                                   \
  C(memory_create, cuMemAlloc_v2, hipMalloc)                                                                           \
  C(memory_destroy, cuMemFree_v2, hipFree)                                                                             \
  C(memory_range, cuMemGetAddressRange_v2, hipMemGetAddressRange)                                                      \
  C(copy, cuMemcpyAsync, hipMemcpyAsync)                                                                               \
  C(copy_rows, cuMemcpy2DAsync_v2, hipMemcpy2DAsync)                                                                   \
  C(fill, cuMemsetD8Async, hipMemsetAsync)
#define TRI_GPU_CALLS(C) TRI_GPU_CALLS_ALIKE(C) TRI_GPU_CALLS_ADAPTED(C)

/* Names of the calls for messages. */
typedef struct tri_gpu_call_names {
#define TRI_GPU_CALL_NAME_(field, cuda, hip) const char *field;
  TRI_GPU_CALLS(TRI_GPU_CALL_NAME_)
#undef TRI_GPU_CALL_NAME_
} tri_gpu_call_names;

#endif
