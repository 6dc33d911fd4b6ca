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

static const char *advice(const tri_gpu_driver *driver, tri_gpu_enum error, char *text, size_t text_bytes) {
  if (error == TRI_GPU_OUT_OF_MEMORY) {
    snprintf(text, text_bytes, "other processes may use its memory (`%s` shows which)", driver->vendor->processes_tool);
    return text;
  }
  if (error >= TRI_GPU_CAPTURE_FIRST && error <= TRI_GPU_CAPTURE_LAST)
    return "work was recorded that cannot be: a mistake of this program's";
  return driver->vendor->advice(error);
}

tri_status tri_gpu_driver_failed(const tri_gpu_driver *driver, const char *of, const char *call, tri_gpu_enum error) {
  const char *name = driver->calls.error_name(error), *text = driver->calls.error_text(error);
  char room[128];
  return tri_fail(error == TRI_GPU_OUT_OF_MEMORY ? TRI_OUT_OF_MEMORY : TRI_DEVICE_FAILED,
                  "%s: %s returned %s (%u, %s): %s", of, call, name == NULL ? "an error without a name" : name, error,
                  text == NULL ? "no further information" : text, advice(driver, error, room, sizeof room));
}
