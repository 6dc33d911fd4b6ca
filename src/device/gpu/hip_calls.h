/* The functions and numbers of AMD's run-time library that are used here: what hip/hip_runtime_api.h of ROCm 5 to 7
 * says, in words of our own (tests/gpu/prototypes_hip.c compares). */
#ifndef TRI_DEVICE_GPU_HIP_CALLS_H
#define TRI_DEVICE_GPU_HIP_CALLS_H

#include <stddef.h>
#include <stdint.h>

typedef struct tri_hip_module_object *tri_hip_module;
typedef struct tri_hip_function_object *tri_hip_function;
typedef struct tri_hip_stream_object *tri_hip_stream;
typedef struct tri_hip_event_object *tri_hip_event;
typedef struct tri_hip_graph_object *tri_hip_graph;
typedef struct tri_hip_graph_run_object *tri_hip_graph_run;

/* Their enums are unsigned numbers to a C compiler. */
typedef unsigned tri_hip_enum;

/* Every function returns one of these numbers, 0 for success. */
enum {
  TRI_HIP_OUT_OF_MEMORY = 2,
  TRI_HIP_NOT_INITIALIZED = 3,
  TRI_HIP_OLD_DRIVER = 35,
  TRI_HIP_INVALID_DEVICE_FUNCTION = 98,
  TRI_HIP_NO_DEVICE = 100,
  TRI_HIP_INVALID_DEVICE = 101,
  TRI_HIP_INVALID_IMAGE = 200,
  TRI_HIP_NO_BINARY_FOR_GPU = 209,
  TRI_HIP_ECC = 214,
  TRI_HIP_INVALID_KERNEL_FILE = 218,
  TRI_HIP_OBJECT_NOT_LOADED = 303,
  TRI_HIP_ILLEGAL_STATE = 401,
  TRI_HIP_NOT_READY = 600,
  TRI_HIP_ILLEGAL_ADDRESS = 700,
  TRI_HIP_LAUNCH_TIMEOUT = 702,
  TRI_HIP_ASSERT = 710,
  TRI_HIP_LAUNCH_FAILED = 719,
  TRI_HIP_CAPTURE_FIRST = 900,
  TRI_HIP_CAPTURE_LAST = 908,
  TRI_HIP_UNKNOWN = 999,
  TRI_HIP_RUNTIME_MEMORY = 1052,
  TRI_HIP_RUNTIME_OTHER = 1053
};

/* What a device is asked: the same numbers since version 5.0. */
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

enum {
  TRI_HIP_STREAM_NON_BLOCKING = 1,
  TRI_HIP_EVENT_UNTIMED = 2,
  TRI_HIP_CAPTURE_THREAD_LOCAL = 1,
  TRI_HIP_CAPTURE_RELAXED = 2,
  TRI_HIP_HOST_PORTABLE = 1,
  TRI_HIP_COPY_HOST_TO_HOST = 0,
  TRI_HIP_COPY_HOST_TO_DEVICE = 1,
  TRI_HIP_COPY_DEVICE_TO_HOST = 2,
  TRI_HIP_COPY_DEVICE_TO_DEVICE = 3
};

/* The name of the chip has no function of its own: it stands in the struct of a device's properties, which has another
 * layout from version 6 on and a function of its own for that. `gcnArchName`, 256 bytes, begins at these offsets. */
enum {
  TRI_HIP_PROPERTIES_BYTES = 4096, /* more than either takes */
  TRI_HIP_CHIP_OFFSET_5 = 396,     /* hipGetDeviceProperties */
  TRI_HIP_CHIP_OFFSET_6 = 1160,    /* hipGetDevicePropertiesR0600 */
  TRI_HIP_CHIP_BYTES = 256
};

typedef struct tri_hip_calls {
  tri_hip_enum (*version)(int *out); /* 50221153: 5.2.21153 */
  const char *(*error_name)(tri_hip_enum error);
  const char *(*error_text)(tri_hip_enum error);
  tri_hip_enum (*device_count)(int *out);
  tri_hip_enum (*device_use)(int ordinal);
  tri_hip_enum (*device_name)(char *out, int bytes, int ordinal);
  tri_hip_enum (*device_attribute)(int *out, tri_hip_enum attribute, int ordinal);
  tri_hip_enum (*device_memory)(size_t *out, int ordinal);
  tri_hip_enum (*device_bus)(char *out, int bytes, int ordinal);
  tri_hip_enum (*properties_5)(void *out, int ordinal);
  tri_hip_enum (*properties_6)(void *out, int ordinal);
  tri_hip_enum (*memory_info)(size_t *free, size_t *total);
  tri_hip_enum (*memory_create)(void **out, size_t bytes);
  tri_hip_enum (*memory_destroy)(void *memory);
  tri_hip_enum (*memory_range)(void **base, size_t *bytes, void *memory);
  tri_hip_enum (*host_create)(void **out, size_t bytes, unsigned flags);
  tri_hip_enum (*host_destroy)(void *memory);
  tri_hip_enum (*copy)(void *to, const void *from, size_t bytes, tri_hip_enum kind, tri_hip_stream stream);
  tri_hip_enum (*copy_rows)(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                            size_t height, tri_hip_enum kind, tri_hip_stream stream);
  tri_hip_enum (*fill)(void *to, int value, size_t bytes, tri_hip_stream stream);
  tri_hip_enum (*stream_create)(tri_hip_stream *out, unsigned flags);
  tri_hip_enum (*stream_destroy)(tri_hip_stream stream);
  tri_hip_enum (*stream_finish)(tri_hip_stream stream);
  tri_hip_enum (*stream_wait)(tri_hip_stream stream, tri_hip_event event, unsigned flags);
  tri_hip_enum (*event_create)(tri_hip_event *out, unsigned flags);
  tri_hip_enum (*event_destroy)(tri_hip_event event);
  tri_hip_enum (*event_record)(tri_hip_event event, tri_hip_stream stream);
  tri_hip_enum (*event_wait)(tri_hip_event event);
  tri_hip_enum (*event_query)(tri_hip_event event);
  tri_hip_enum (*event_elapsed)(float *milliseconds, tri_hip_event from, tri_hip_event to);
  tri_hip_enum (*module_load)(tri_hip_module *out, const void *image);
  tri_hip_enum (*module_unload)(tri_hip_module module);
  tri_hip_enum (*module_function)(tri_hip_function *out, tri_hip_module module, const char *name);
  tri_hip_enum (*launch)(tri_hip_function function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                         unsigned threads_y, unsigned threads_z, unsigned shared_bytes, tri_hip_stream stream,
                         void **arguments, void **extra);
  tri_hip_enum (*capture_begin)(tri_hip_stream stream, tri_hip_enum mode);
  tri_hip_enum (*capture_end)(tri_hip_stream stream, tri_hip_graph *out);
  tri_hip_enum (*capture_mode)(tri_hip_enum *exchanged);
  tri_hip_enum (*graph_instantiate)(tri_hip_graph_run *out, tri_hip_graph graph, unsigned long long flags);
  tri_hip_enum (*graph_launch)(tri_hip_graph_run graph, tri_hip_stream stream);
  tri_hip_enum (*graph_run_destroy)(tri_hip_graph_run graph);
  tri_hip_enum (*graph_destroy)(tri_hip_graph graph);
} tri_hip_calls;

/* C(FIELD, NAME) for each that every version has: the library's own name. */
#define TRI_HIP_CALLS(C)                                                                                               \
  C(version, hipRuntimeGetVersion)                                                                                     \
  C(error_name, hipGetErrorName)                                                                                       \
  C(error_text, hipGetErrorString)                                                                                     \
  C(device_count, hipGetDeviceCount)                                                                                   \
  C(device_use, hipSetDevice)                                                                                          \
  C(device_name, hipDeviceGetName)                                                                                     \
  C(device_attribute, hipDeviceGetAttribute)                                                                           \
  C(device_memory, hipDeviceTotalMem)                                                                                  \
  C(device_bus, hipDeviceGetPCIBusId)                                                                                  \
  C(memory_info, hipMemGetInfo)                                                                                        \
  C(memory_create, hipMalloc)                                                                                          \
  C(memory_destroy, hipFree)                                                                                           \
  C(memory_range, hipMemGetAddressRange)                                                                               \
  C(host_create, hipHostMalloc)                                                                                        \
  C(host_destroy, hipHostFree)                                                                                         \
  C(copy, hipMemcpyAsync)                                                                                              \
  C(copy_rows, hipMemcpy2DAsync)                                                                                       \
  C(fill, hipMemsetAsync)                                                                                              \
  C(stream_create, hipStreamCreateWithFlags)                                                                           \
  C(stream_destroy, hipStreamDestroy)                                                                                  \
  C(stream_finish, hipStreamSynchronize)                                                                               \
  C(stream_wait, hipStreamWaitEvent)                                                                                   \
  C(event_create, hipEventCreateWithFlags)                                                                             \
  C(event_destroy, hipEventDestroy)                                                                                    \
  C(event_record, hipEventRecord)                                                                                      \
  C(event_wait, hipEventSynchronize)                                                                                   \
  C(event_query, hipEventQuery)                                                                                        \
  C(event_elapsed, hipEventElapsedTime)                                                                                \
  C(module_load, hipModuleLoadData)                                                                                    \
  C(module_unload, hipModuleUnload)                                                                                    \
  C(module_function, hipModuleGetFunction)                                                                             \
  C(launch, hipModuleLaunchKernel)                                                                                     \
  C(capture_begin, hipStreamBeginCapture)                                                                              \
  C(capture_end, hipStreamEndCapture)                                                                                  \
  C(capture_mode, hipThreadExchangeStreamCaptureMode)                                                                  \
  C(graph_instantiate, hipGraphInstantiateWithFlags)                                                                   \
  C(graph_launch, hipGraphLaunch)                                                                                      \
  C(graph_run_destroy, hipGraphExecDestroy)                                                                            \
  C(graph_destroy, hipGraphDestroy)
/* One of the two is always there. */
#define TRI_HIP_CALLS_IF_ANY(C)                                                                                        \
  C(properties_5, hipGetDeviceProperties)                                                                              \
  C(properties_6, hipGetDevicePropertiesR0600)

#endif
