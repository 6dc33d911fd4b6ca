/* The part of the runtime that is specific to NVIDIA's GPUs (vendor.h). A process has the GPU's primary context, which
 * it shares with other libraries in the process (a device-aware MPI, cuBLASLt); each call makes it current for the
 * calling thread. */
#include "device/gpu/cuda_driver.h"

#include <stdio.h>

static const tri_cuda_calls *own_calls(const tri_gpu_context *context) {
  return &((const tri_cuda_driver *)(const void *)context->driver)->own;
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

static tri_gpu_enum cuda_use(const tri_gpu_context *context) { return own_calls(context)->context_use(context->own); }

static tri_status cuda_find(tri_gpu_context *context) {
  const tri_gpu_enum error = own_calls(context)->device(&context->device, context->ordinal);
  return error == 0 ? TRI_OK : tri_gpu_call_failed(context, "cuDeviceGet", error);
}

/* Retains the GPU's primary context, and creates the stream `zeroing`. If no library has created the primary context
 * yet, this call creates it, which is the first allocation on the GPU. Fails with TRI_OUT_OF_MEMORY if there is no
 * memory for it. */
static tri_status cuda_begin(tri_gpu_context *context) {
  const tri_gpu_enum error = own_calls(context)->context_retain(&context->own, context->device);
  if (error == TRI_GPU_OUT_OF_MEMORY) return tri_gpu_full_at_first(context);
  if (error != 0) return tri_gpu_call_failed(context, "cuDevicePrimaryCtxRetain", error);
  TRI_GPU_CALL(context, stream_create, &context->zeroing, TRI_GPU_STREAM_NON_BLOCKING);
  return TRI_OK;
}

static void cuda_end(tri_gpu_context *context) {
  if (context->own == NULL) return;
  (void)own_calls(context)->context_use(NULL);
  (void)own_calls(context)->context_release(context->device);
}

/* Writes the compiler's name of the chip to `out`. From compute capability 9.0 on, each chip has instructions that only
 * code compiled for exactly this chip (suffix `a`) may use. */
static tri_status cuda_architecture(tri_gpu_context *context, char *out, size_t out_bytes) {
  const int major = tri_gpu_attribute(context, TRI_CUDA_CAPABILITY_MAJOR);
  const int minor = tri_gpu_attribute(context, TRI_CUDA_CAPABILITY_MINOR);
  snprintf(out, out_bytes, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
  return TRI_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Fails with TRI_UNSUPPORTED because the driver rejects an image: the compiler's version does not match the
 * driver's. */
static tri_status image_refused(const tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_enum error,
                                const char *said) {
  const char *name = context->calls->error_name(error);
  char hint[128];
  snprintf(hint, sizeof hint, " (`pip install nvidia-cuda-nvrtc-cu12`)");
  if (context->driver->version >= 13000) hint[0] = '\0';
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: NVIDIA's driver %s rejects the compiled kernels `%s`: %s (%u)%s%s. If the compiler is newer "
                  "than the driver, update the driver, or use a compiler of the driver's CUDA%s",
                  context->label, context->driver->text, image->module, name == NULL ? "an error without a name" : name,
                  error, said[0] == '\0' ? "" : ": ", said, hint);
}

static tri_status cuda_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module_handle *out) {
  enum { SAID_BYTES = 1024 };
  char said[SAID_BYTES] = "";
  tri_gpu_enum options[2] = {TRI_CUDA_JIT_ERRORS, TRI_CUDA_JIT_ERRORS_BYTES};
  void *values[2] = {said, (void *)(uintptr_t)SAID_BYTES};
  const tri_gpu_enum error = own_calls(context)->module_load(out, image->image, 2, options, values);
  said[SAID_BYTES - 1] = '\0';
  switch (error) {
    case 0: return TRI_OK;
    case TRI_CUDA_INVALID_IMAGE:
    case TRI_CUDA_NO_BINARY_FOR_GPU:
    case TRI_CUDA_INVALID_TEXT:
    case TRI_CUDA_NO_TEXT_COMPILER:
    case TRI_CUDA_UNSUPPORTED_TEXT:
    case TRI_CUDA_TEXT_COMPILER_OFF: return image_refused(context, image, error, said);
    default: return tri_gpu_call_failed(context, "cuModuleLoadDataEx", error);
  }
}

/* Loads the kernel, if the driver has cuFuncLoad (CUDA 12.4 and newer). Otherwise the driver loads it at its first
 * launch, which may be recorded into a graph. */
static tri_status cuda_function_load(tri_gpu_context *context, tri_gpu_function_handle function) {
  const tri_cuda_calls *calls = own_calls(context);
  if (calls->function_load == NULL) return TRI_OK;
  TRI_TRY(tri_gpu_use(context));
  const tri_gpu_enum error = calls->function_load(function);
  return error == 0 ? TRI_OK : tri_gpu_call_failed(context, "cuFuncLoad", error);
}

static tri_status raise_shared(tri_gpu_context *context, tri_gpu_function *function, const tri_gpu_launch_call *call) {
  if (call->shared_bytes <= function->shared_bytes) return TRI_OK;
  TRI_TRY(tri_gpu_shared_check(context, call));
  TRI_TRY(tri_gpu_use(context));
  const tri_gpu_enum error =
      own_calls(context)->function_set(function->own, TRI_CUDA_FUNCTION_SHARED_ASKED, (int)call->shared_bytes);
  if (error != 0) return tri_gpu_call_failed(context, "cuFuncSetAttribute", error);
  function->shared_bytes = call->shared_bytes;
  return TRI_OK;
}

/* Raises the kernel's limit of dynamic shared memory to the bytes that the call requests. Without a raised limit,
 * dynamic and declared shared memory of a block together may not exceed 48 KiB. */
static tri_status allow_shared(tri_gpu_context *context, const tri_gpu_launch_call *call) {
  if (call->shared_bytes == 0) return TRI_OK;
  pthread_mutex_lock(&call->function->module->lock);
  tri_status status = raise_shared(context, call->function, call);
  pthread_mutex_unlock(&call->function->module->lock);
  return status;
}

static tri_status cuda_launch(tri_gpu_context *context, tri_gpu_stream_handle stream, const tri_gpu_launch_call *call) {
  size_t bytes = call->argument_bytes;
  void *extra[] = {(void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER, (void *)(uintptr_t)call->arguments,
                   (void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER_BYTES, &bytes, (void *)(uintptr_t)TRI_CUDA_LAUNCH_END};
  TRI_TRY(allow_shared(context, call));
  TRI_GPU_CALL(context, launch, call->function->own, call->grid.x, call->grid.y, call->grid.z, call->threads, 1, 1,
               (unsigned)call->shared_bytes, stream, NULL, extra);
  return TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define NAME(field, cuda, hip) .field = #cuda,
const tri_gpu_vendor tri_gpu_nvidia = {
    .name = "NVIDIA",
    .peer = TRI_PEER_CUDA,
    .attributes = {.warp = TRI_CUDA_WARP,
                   .processors = TRI_CUDA_PROCESSORS,
                   .clock_khz = TRI_CUDA_CLOCK_KHZ,
                   .memory_clock_khz = TRI_CUDA_MEMORY_CLOCK_KHZ,
                   .memory_bus_bits = TRI_CUDA_MEMORY_BUS_BITS,
                   .l2_bytes = TRI_CUDA_L2_BYTES,
                   .shared_bytes = TRI_CUDA_SHARED_BYTES_ASKED,
                   .block_threads = TRI_CUDA_BLOCK_THREADS},
    .call_names = {TRI_GPU_CALLS(NAME)},
    .use_name = "cuCtxSetCurrent",
    .driver = tri_cuda_driver_open,
    .use = cuda_use,
    .find = cuda_find,
    .begin = cuda_begin,
    .end = cuda_end,
    .architecture = cuda_architecture,
    .module_load = cuda_module_load,
    .function_load = cuda_function_load,
    .launch = cuda_launch,
};
