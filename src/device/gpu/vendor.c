/* Functions that CUDA and HIP share: loading the driver's library, error messages, attributes, and checks of launches.
 */
#include "device/gpu/vendor.h"

#include <stdio.h>

tri_status tri_gpu_driver_load(const tri_gpu_library *what, void *table, tri_gpu_driver *driver,
                               tri_status (*ask)(void)) {
  tri_status status = tri_gpu_library_open(what, table, &driver->path);
  if (status == TRI_UNSUPPORTED) {
    snprintf(driver->why, sizeof driver->why, "%s", tri_status_message());
    return TRI_OK;
  }
  return status == TRI_OK ? ask() : status;
}

/* Returns a text about what the user can do about an error. Errors that both vendors have are handled here, all others
 * by driver->advice. The result may be in `text`. */
static const char *advice(const tri_gpu_driver *driver, tri_gpu_enum error, char *text, size_t text_bytes) {
  if (error == TRI_GPU_OUT_OF_MEMORY) {
    snprintf(text, text_bytes, "other processes may use its memory (`%s` shows which)", driver->processes_tool);
    return text;
  }
  if (error >= TRI_GPU_CAPTURE_FIRST && error <= TRI_GPU_CAPTURE_LAST)
    return "work was recorded that cannot be: a mistake of this program's";
  return driver->advice(error);
}

tri_status tri_gpu_driver_failed(const tri_gpu_driver *driver, const char *of, const char *call, tri_gpu_enum error) {
  const char *name = driver->calls.error_name(error), *text = driver->calls.error_text(error);
  char room[128];
  return tri_fail(error == TRI_GPU_OUT_OF_MEMORY ? TRI_OUT_OF_MEMORY : TRI_DEVICE_FAILED,
                  "%s: %s returned %s (%u, %s): %s", of, call, name == NULL ? "an error without a name" : name, error,
                  text == NULL ? "no further information" : text, advice(driver, error, room, sizeof room));
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

void tri_gpu_error_keep(tri_gpu_context *context, const char *call, tri_gpu_enum error) {
  tri_gpu_enum none = 0;
  const char *nowhere = NULL;
  if (context->vendor->is_lasting == NULL) return;
  atomic_compare_exchange_strong(&context->lasting_at, &nowhere, call);
  atomic_compare_exchange_strong(&context->lasting, &none, error);
}

tri_status tri_gpu_call_failed(tri_gpu_context *context, const char *call, tri_gpu_enum error) {
  const tri_gpu_vendor *vendor = context->vendor;
  if (vendor->is_lasting != NULL && vendor->is_lasting(error)) tri_gpu_error_keep(context, call, error);
  return tri_gpu_driver_failed(context->driver, context->label, call, error);
}

tri_status tri_gpu_use(tri_gpu_context *context) {
  tri_gpu_enum error = atomic_load(&context->lasting);
  if (error != 0)
    return tri_gpu_driver_failed(context->driver, context->label, atomic_load(&context->lasting_at), error);
  error = context->vendor->use(context);
  return error == 0 ? TRI_OK : tri_gpu_call_failed(context, context->vendor->use_name, error);
}

int tri_gpu_attribute(const tri_gpu_context *context, tri_gpu_enum which) {
  int value = 0;
  return context->calls->device_attribute(&value, which, context->device) == 0 && value > 0 ? value : 0;
}

tri_status tri_gpu_full_at_first(const tri_gpu_context *context) {
  return tri_fail(TRI_OUT_OF_MEMORY,
                  "%s has no free memory at the start: other processes use it (`%s` shows which). Wait for them, end "
                  "them, or use another GPU",
                  context->label, context->driver->processes_tool);
}

tri_status tri_gpu_shared_check(const tri_gpu_context *context, const tri_gpu_launch_call *call) {
  const size_t most = (size_t)tri_gpu_attribute(context, context->vendor->attributes.shared_bytes);
  if (call->shared_bytes <= most) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s gives a block %zu bytes of shared memory, and kernel `%s` asks for %zu",
                  context->label, most, call->name, call->shared_bytes);
}
