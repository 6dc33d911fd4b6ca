/* The part of the runtime that is specific to AMD's GPUs (vendor.h). HIP has no contexts: the current GPU is a setting
 * of the thread, and each call sets it for the calling thread. If a kernel reads unmapped memory, most versions of HIP
 * abort the process themselves. */
#include "device/gpu/hip_driver.h"

#include <stdio.h>
#include <string.h>

static const tri_hip_calls *own_calls(const tri_gpu_context *context) {
  return &((const tri_hip_driver *)(const void *)context->driver)->own;
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

static tri_gpu_enum hip_use(const tri_gpu_context *context) { return own_calls(context)->device_use(context->ordinal); }

static tri_status hip_find(tri_gpu_context *context) {
  context->device = context->ordinal;
  return tri_gpu_use(context);
}

static tri_status read_properties(tri_gpu_context *context, void *properties) {
  const tri_hip_calls *calls = own_calls(context);
  const bool newer = calls->properties_6 != NULL;
  if (!newer && calls->properties_5 == NULL) return TRI_OK;
  TRI_TRY(tri_gpu_use(context));
  const tri_gpu_enum error = (newer ? calls->properties_6 : calls->properties_5)(properties, context->ordinal);
  if (error == 0) return TRI_OK;
  return tri_gpu_call_failed(context, newer ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties", error);
}

/* Writes the chip's name for the compiler to `out`: "gfx90a". The function that fills the properties determines their
 * layout. Fails with TRI_UNSUPPORTED if the text at the expected offset is not the name of a chip, because then the
 * layout is unknown. */
static tri_status hip_architecture(tri_gpu_context *context, char *out, size_t out_bytes) {
  _Alignas(16) char properties[TRI_HIP_PROPERTIES_BYTES] = {0};
  char name[TRI_HIP_CHIP_BYTES];
  const bool newer = own_calls(context)->properties_6 != NULL;
  TRI_TRY(read_properties(context, properties));
  memcpy(name, properties + (newer ? TRI_HIP_CHIP_OFFSET_6 : TRI_HIP_CHIP_OFFSET_5), sizeof name);
  name[sizeof name - 1] = '\0';
  tri_hip_chip(name, out, out_bytes);
  if (out[0] != '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: %s (%s) does not say which chip it is where this program looks for it: take a ROCm of versions "
                  "5 to 7",
                  context->label, context->driver->text, context->driver->path);
}

/* Creates the stream `zeroing`, which is the first allocation on the GPU. Fails with TRI_OUT_OF_MEMORY if there is no
 * memory for it, and with TRI_UNSUPPORTED if the library does not report the chip's name. */
static tri_status hip_begin(tri_gpu_context *context) {
  char chip[32];
  TRI_TRY(hip_architecture(context, chip, sizeof chip));
  TRI_TRY(tri_gpu_use(context));
  const tri_gpu_enum error = context->calls->stream_create(&context->zeroing, TRI_GPU_STREAM_NON_BLOCKING);
  if (error == TRI_GPU_OUT_OF_MEMORY) return tri_gpu_full_at_first(context);
  return error == 0 ? TRI_OK : tri_gpu_call_failed(context, context->vendor->call_names.stream_create, error);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Fails with TRI_UNSUPPORTED because the library rejects an image: the compiler's version does not match the
 * library's. */
static tri_status image_refused(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_enum error) {
  const char *name = context->calls->error_name(error);
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: %s (%s) rejects the compiled kernels `%s`: %s (%u). If hipRTC belongs to a newer ROCm than this "
                  "library, use both from the same ROCm",
                  context->label, context->driver->text, context->driver->path, image->module,
                  name == NULL ? "an error without a name" : name, error);
}

static tri_status hip_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module_handle *out) {
  const tri_gpu_enum error = own_calls(context)->module_load(out, image->image);
  switch (error) {
    case 0: return TRI_OK;
    case TRI_HIP_INVALID_DEVICE_FUNCTION:
    case TRI_HIP_INVALID_IMAGE:
    case TRI_HIP_NO_BINARY_FOR_GPU:
    case TRI_HIP_INVALID_KERNEL_FILE:
    case TRI_HIP_OBJECT_NOT_LOADED: return image_refused(context, image, error);
    default: return tri_gpu_call_failed(context, "hipModuleLoadData", error);
  }
}

static tri_status check_launch(const tri_gpu_context *context, const tri_gpu_launch_call *call) {
  TRI_TRY(tri_gpu_shared_check(context, call));
  if ((uint64_t)call->grid.x * call->threads > UINT32_MAX) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s takes fewer than 2^32 threads at once, and kernel `%s` asks for %u blocks of %u; smaller "
                    "micro-batches ask for less",
                    context->label, call->name, call->grid.x, call->threads);
  }
  return TRI_OK;
}

/* Launches a kernel. The list of arguments has one element, the kernel's struct; the library knows its size from the
 * compiled kernel. */
static tri_status hip_launch(tri_gpu_context *context, tri_gpu_stream_handle stream, const tri_gpu_launch_call *call) {
  void *arguments[] = {(void *)(uintptr_t)call->arguments};
  if (call->shared_bytes > 0 || call->grid.x > UINT32_MAX / 1024) TRI_TRY(check_launch(context, call));
  TRI_GPU_CALL(context, launch, call->function->own, call->grid.x, call->grid.y, call->grid.z, call->threads, 1, 1,
               (unsigned)call->shared_bytes, stream, arguments, NULL);
  return TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define NAME(field, cuda, hip) .field = #hip,
const tri_gpu_vendor tri_gpu_amd = {
    .name = "AMD",
    .peer = TRI_PEER_ROCM,
    .keeps_image = true,
    .attributes = {.warp = TRI_HIP_WARP,
                   .processors = TRI_HIP_PROCESSORS,
                   .clock_khz = TRI_HIP_CLOCK_KHZ,
                   .memory_clock_khz = TRI_HIP_MEMORY_CLOCK_KHZ,
                   .memory_bus_bits = TRI_HIP_MEMORY_BUS_BITS,
                   .l2_bytes = TRI_HIP_L2_BYTES,
                   .shared_bytes = TRI_HIP_SHARED_BYTES,
                   .block_threads = TRI_HIP_BLOCK_THREADS},
    .call_names = {TRI_GPU_CALLS(NAME)},
    .use_name = "hipSetDevice",
    .driver = tri_hip_driver_open,
    .is_lasting = tri_hip_is_lasting,
    .use = hip_use,
    .find = hip_find,
    .begin = hip_begin,
    .architecture = hip_architecture,
    .module_load = hip_module_load,
    .launch = hip_launch,
};
