/* A stand-in for AMD's run-time library (stand_in.h, words below). stand_in_cuda.c implements the GPU; this file gives
 * it AMD's names and rules. The current GPU is a setting of the thread, and is set without any call. Kernels have warps
 * of 64, arguments are a list, shared memory ends at 64 KiB, and an error is reported by one call only.
 *
 *   chip=gfx90a:sramecc+:xnack- hip=70000001   the chip, as the driver names it; the version
 *
 * With STAND_IN_HIP_5 the version is 5, which does not have the properties of version 6. */
#include "device/gpu/code_object.h"
#include "device/gpu/cuda_calls.h"
#include "device/gpu/hip_calls.h"
#include "device/gpu/kernel_list.h"
#include "stand_in.h"
#include "stand_in_work.h"

#include <elf.h>
#include <stdbool.h>

enum { INVALID_VALUE = 1, MOST_SHARED_BYTES = 64 << 10 };
#if defined(STAND_IN_HIP_5)
enum { VERSION = 50221153 };
#else
enum { VERSION = 70000001 };
#endif

#define CUDA_OWN(field, name) extern __typeof__(*((tri_cuda_calls *)NULL)->field) name;
#define CUDA_ADAPTED(field, cuda, hip) CUDA_OWN(field, cuda)
#define CUDA_ALIKE(field, cuda, hip) extern __typeof__(*((tri_gpu_calls *)NULL)->field) cuda;
TRI_GPU_CALLS_ALIKE(CUDA_ALIKE)
TRI_GPU_CALLS_ADAPTED(CUDA_ADAPTED)
TRI_CUDA_CALLS(CUDA_OWN)

#define DECLARE(field, name) STAND_IN_EXPORT extern __typeof__(*((tri_hip_calls *)NULL)->field) name;
#define DECLARE_COMMON(field, cuda, hip) STAND_IN_EXPORT extern __typeof__(*((tri_gpu_calls *)NULL)->field) hip;
TRI_GPU_CALLS(DECLARE_COMMON)
TRI_HIP_CALLS(DECLARE)
TRI_HIP_CALLS_IF_ANY(DECLARE)

/* ---- what every call begins and ends with ------------------------------------------------------------------------ */

/* Any error is reported once. */
static tri_gpu_enum ended(tri_gpu_enum error) {
  stand_in_broken = 0;
  return error;
}

/* The thread's GPU is there from the first call on that works on it. */
static tri_gpu_enum begin(const char *name, bool works) {
  static _Thread_local tri_cuda_context own;
  const int told = stand_in_told(name);
  if (told != 0 || !works) return told;
  return own != NULL ? 0 : cuDevicePrimaryCtxRetain(&own, 0) != 0 ? TRI_GPU_OUT_OF_MEMORY : cuCtxSetCurrent(own);
}

#define BEGIN_(works)                                                                                                  \
  do {                                                                                                                 \
    const tri_gpu_enum begun_ = begin(__func__, works);                                                                \
    if (begun_ != 0) return ended(begun_);                                                                             \
  } while (0)
#define BEGIN() BEGIN_(true)
#define BEGIN_ASKING() BEGIN_(false)

/* ---- the library and its devices --------------------------------------------------------------------------------- */

tri_gpu_enum hipRuntimeGetVersion(int *out) {
  *out = (int)stand_in_number("hip", VERSION);
  return 0;
}

const char *hipGetErrorName(tri_gpu_enum error) {
  switch (error) {
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case TRI_GPU_OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case TRI_HIP_NO_BINARY_FOR_GPU: return "hipErrorNoBinaryForGpu";
    case TRI_HIP_INVALID_IMAGE: return "hipErrorInvalidImage";
    case TRI_HIP_ECC: return "hipErrorECCNotCorrectable";
    case TRI_HIP_ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
    case TRI_HIP_LAUNCH_FAILED: return "hipErrorLaunchFailure";
    default: return NULL;
  }
}

const char *hipGetErrorString(tri_gpu_enum error) { return error == 0 ? NULL : "as told to the stand-in"; }

tri_gpu_enum hipGetDeviceCount(int *out) {
  BEGIN_ASKING();
  *out = (int)stand_in_number("gpus", 1);
  return *out == 0 ? TRI_GPU_NO_DEVICE : 0;
}

tri_gpu_enum hipSetDevice(int ordinal) {
  BEGIN_ASKING();
  return ordinal < (int)stand_in_number("gpus", 1) ? 0 : TRI_HIP_INVALID_DEVICE;
}

tri_gpu_enum hipDeviceGetName(char *out, int bytes, int ordinal) {
  BEGIN_ASKING();
  return ended(cuDeviceGetName(out, bytes, ordinal));
}

tri_gpu_enum hipDeviceGetAttribute(int *out, tri_gpu_enum attribute, int ordinal) {
  (void)ordinal;
  BEGIN_ASKING();
  switch (attribute) {
    case TRI_HIP_BLOCK_THREADS: *out = 1024; break;
    case TRI_HIP_WARP: *out = 64; break;
    case TRI_HIP_PROCESSORS: *out = 1; break;
    case TRI_HIP_SHARED_BYTES: *out = MOST_SHARED_BYTES; break;
    case TRI_HIP_CLOCK_KHZ:
    case TRI_HIP_MEMORY_CLOCK_KHZ:
    case TRI_HIP_MEMORY_BUS_BITS:
    case TRI_HIP_L2_BYTES: *out = 1000; break;
    default: return INVALID_VALUE;
  }
  return 0;
}

tri_gpu_enum hipDeviceTotalMem(size_t *out, int ordinal) {
  BEGIN_ASKING();
  return ended(cuDeviceTotalMem_v2(out, ordinal));
}

tri_gpu_enum hipDeviceGetPCIBusId(char *out, int bytes, int ordinal) {
  BEGIN_ASKING();
  return ended(cuDeviceGetPCIBusId(out, bytes, ordinal));
}

static int fill_properties(void *out, size_t offset) {
  char chip[TRI_HIP_CHIP_BYTES];
  const char *word = stand_in_word("chip");
  snprintf(chip, sizeof chip, "%.*s", word == NULL ? 99 : (int)strcspn(word, ","),
           word == NULL ? "gfx90a:sramecc+:xnack-" : word);
  memset(out, 0x33, 256);
  memcpy((char *)out + offset, chip, sizeof chip);
  return 0;
}

tri_gpu_enum hipGetDeviceProperties(void *out, int ordinal) {
  (void)ordinal;
  BEGIN_ASKING();
  return fill_properties(out, TRI_HIP_CHIP_OFFSET_5);
}

#if !defined(STAND_IN_HIP_5)
tri_gpu_enum hipGetDevicePropertiesR0600(void *out, int ordinal) {
  (void)ordinal;
  BEGIN_ASKING();
  return fill_properties(out, TRI_HIP_CHIP_OFFSET_6);
}
#endif

/* ---- memory ------------------------------------------------------------------------------------------------------ */

tri_gpu_enum hipMemGetInfo(size_t *free, size_t *total) {
  BEGIN();
  return ended(cuMemGetInfo_v2(free, total));
}

tri_gpu_enum hipMalloc(void **out, size_t bytes) {
  tri_cuda_address memory = 0;
  BEGIN();
  const int error = cuMemAlloc_v2(&memory, bytes);
  *out = (void *)(uintptr_t)memory;
  return ended(error);
}

tri_gpu_enum hipFree(void *memory) {
  BEGIN();
  return ended(cuMemFree_v2((uintptr_t)memory));
}

tri_gpu_enum hipMemGetAddressRange(void **base, size_t *bytes, void *memory) {
  tri_cuda_address first = 0;
  BEGIN();
  const int error = cuMemGetAddressRange_v2(&first, bytes, (uintptr_t)memory);
  *base = (void *)(uintptr_t)first;
  return ended(error);
}

tri_gpu_enum hipHostMalloc(void **out, size_t bytes, unsigned flags) {
  BEGIN();
  return ended(cuMemHostAlloc(out, bytes, flags));
}

tri_gpu_enum hipHostFree(void *memory) {
  BEGIN();
  return ended(cuMemFreeHost(memory));
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static bool is_kind(const void *to, const void *from, tri_gpu_enum kind) {
  return kind == (stand_in_memory_is(from) ? 2u : 0u) + (stand_in_memory_is(to) ? 1u : 0u);
}

tri_gpu_enum hipMemcpyAsync(void *to, const void *from, size_t bytes, tri_gpu_enum kind, tri_gpu_stream_handle stream) {
  BEGIN();
  if (!is_kind(to, from, kind)) return INVALID_VALUE;
  return ended(cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, bytes, stream));
}

static tri_cuda_copy_side side_of(const void *at, size_t pitch) {
  return (tri_cuda_copy_side){.memory = stand_in_memory_is(at) ? TRI_CUDA_MEMORY_DEVICE : TRI_CUDA_MEMORY_HOST,
                              .host = at,
                              .device = (uintptr_t)at,
                              .pitch = pitch};
}

tri_gpu_enum hipMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                              size_t height, tri_gpu_enum kind, tri_gpu_stream_handle stream) {
  const tri_cuda_copy copy = {
      .from = side_of(from, from_pitch), .to = side_of(to, to_pitch), .width_bytes = width_bytes, .height = height};
  BEGIN();
  if (!is_kind(to, from, kind)) return INVALID_VALUE;
  return ended(cuMemcpy2DAsync_v2(&copy, stream));
}

tri_gpu_enum hipMemsetAsync(void *to, int value, size_t bytes, tri_gpu_stream_handle stream) {
  BEGIN();
  return ended(cuMemsetD8Async((uintptr_t)to, (unsigned char)value, bytes, stream));
}

tri_gpu_enum hipStreamCreateWithFlags(tri_gpu_stream_handle *out, unsigned flags) {
  BEGIN();
  return ended(cuStreamCreate(out, flags));
}

tri_gpu_enum hipStreamDestroy(tri_gpu_stream_handle stream) {
  BEGIN();
  return ended(cuStreamDestroy_v2(stream));
}

tri_gpu_enum hipStreamSynchronize(tri_gpu_stream_handle stream) {
  BEGIN();
  return ended(cuStreamSynchronize(stream));
}

tri_gpu_enum hipStreamWaitEvent(tri_gpu_stream_handle stream, tri_gpu_event_handle event, unsigned flags) {
  BEGIN();
  return ended(cuStreamWaitEvent(stream, event, flags));
}

tri_gpu_enum hipEventCreateWithFlags(tri_gpu_event_handle *out, unsigned flags) {
  BEGIN();
  return ended(cuEventCreate(out, flags));
}

tri_gpu_enum hipEventDestroy(tri_gpu_event_handle event) {
  BEGIN();
  return ended(cuEventDestroy_v2(event));
}

tri_gpu_enum hipEventRecord(tri_gpu_event_handle event, tri_gpu_stream_handle stream) {
  BEGIN();
  return ended(cuEventRecord(event, stream));
}

tri_gpu_enum hipEventSynchronize(tri_gpu_event_handle event) {
  BEGIN();
  return ended(cuEventSynchronize(event));
}

tri_gpu_enum hipEventQuery(tri_gpu_event_handle event) {
  BEGIN();
  return ended(cuEventQuery(event));
}

tri_gpu_enum hipEventElapsedTime(float *milliseconds, tri_gpu_event_handle from, tri_gpu_event_handle to) {
  BEGIN();
  return ended(cuEventElapsedTime(milliseconds, from, to));
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Loads the stand-in compiler's code object: the chip is in its note, followed by the image for the other stand-in. */
tri_gpu_enum hipModuleLoadData(tri_gpu_module_handle *out, const void *image) {
  tri_gpu_enum options[2] = {TRI_CUDA_JIT_ERRORS, TRI_CUDA_JIT_ERRORS_BYTES};
  char said[256], chip[64];
  void *values[2] = {said, (void *)(uintptr_t)sizeof said};
  Elf64_Ehdr file;
  const char *word = stand_in_word("chip");
  BEGIN();
  memcpy(&file, image, sizeof file);
  if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_entry == 0) return TRI_HIP_INVALID_IMAGE;
  const char *text = (const char *)image + file.e_entry;
  snprintf(chip, sizeof chip, "%.*s", word == NULL ? 99 : (int)strcspn(word, ":,"), word == NULL ? "gfx90a" : word);
  if (strcmp(text, chip) != 0) return TRI_HIP_NO_BINARY_FOR_GPU;
  return ended(cuModuleLoadDataEx(out, text + strlen(text) + 1, 2, options, values));
}

tri_gpu_enum hipModuleUnload(tri_gpu_module_handle module) {
  BEGIN();
  return ended(cuModuleUnload((tri_gpu_module_handle)(void *)module));
}

tri_gpu_enum hipModuleGetFunction(tri_gpu_function_handle *out, tri_gpu_module_handle module, const char *name) {
  BEGIN();
  return ended(cuModuleGetFunction(out, (tri_gpu_module_handle)(void *)module, name));
}

/* As a real one knows it, from the code object. A function begins with its name. */
static size_t argument_bytes_of(tri_gpu_function_handle function) {
  const char *name = *(const char *const *)(const void *)function;
#define BYTES_OF(kernel, threads)                                                                                      \
  if (strcmp(name, #kernel) == 0) return sizeof(kernel##_arguments);
  TRI_GPU_KERNELS(BYTES_OF)
  return 0;
}

tri_gpu_enum hipModuleLaunchKernel(tri_gpu_function_handle function, unsigned x, unsigned y, unsigned z,
                                   unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                                   tri_gpu_stream_handle stream, void **arguments, void **extra) {
  BEGIN();
  size_t bytes = argument_bytes_of(function);
  if (arguments == NULL || arguments[0] == NULL || extra != NULL || shared_bytes > MOST_SHARED_BYTES ||
      (uint64_t)x * threads_x > UINT32_MAX) {
    return INVALID_VALUE;
  }
  void *given[] = {(void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER, arguments[0],
                   (void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER_BYTES, &bytes, (void *)(uintptr_t)TRI_CUDA_LAUNCH_END};
  (void)cuFuncSetAttribute((tri_gpu_function_handle)(void *)function, TRI_CUDA_FUNCTION_SHARED_ASKED,
                           MOST_SHARED_BYTES);
  return ended(cuLaunchKernel((tri_gpu_function_handle)(void *)function, x, y, z, threads_x, threads_y, threads_z,
                              shared_bytes, stream, NULL, given));
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

tri_gpu_enum hipStreamBeginCapture(tri_gpu_stream_handle stream, tri_gpu_enum mode) {
  BEGIN();
  return ended(cuStreamBeginCapture_v2(stream, mode));
}

tri_gpu_enum hipStreamEndCapture(tri_gpu_stream_handle stream, tri_gpu_graph_handle *out) {
  BEGIN();
  return ended(cuStreamEndCapture(stream, out));
}

tri_gpu_enum hipThreadExchangeStreamCaptureMode(tri_gpu_enum *exchanged) {
  BEGIN();
  return ended(cuThreadExchangeStreamCaptureMode((void *)exchanged));
}

tri_gpu_enum hipGraphInstantiateWithFlags(tri_gpu_graph_run_handle *out, tri_gpu_graph_handle graph,
                                          unsigned long long flags) {
  BEGIN();
  return ended(cuGraphInstantiateWithFlags(out, (tri_gpu_graph_handle)(void *)graph, flags));
}

tri_gpu_enum hipGraphLaunch(tri_gpu_graph_run_handle run, tri_gpu_stream_handle stream) {
  BEGIN();
  return ended(cuGraphLaunch((tri_gpu_graph_run_handle)(void *)run, stream));
}

tri_gpu_enum hipGraphExecDestroy(tri_gpu_graph_run_handle run) {
  BEGIN();
  return ended(cuGraphExecDestroy((tri_gpu_graph_run_handle)(void *)run));
}

tri_gpu_enum hipGraphDestroy(tri_gpu_graph_handle graph) {
  BEGIN();
  return ended(cuGraphDestroy((tri_gpu_graph_handle)(void *)graph));
}
