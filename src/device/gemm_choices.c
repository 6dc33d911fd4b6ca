#include "device/gemm_choices.h"

#include "base/memory.h"

void tri_device_allow_tf32(tri_device *device) {
  if (device->driver->allow_tf32 != NULL) device->driver->allow_tf32(device);
}

void tri_device_gemm_library(tri_device *device, char out[TRI_DEVICE_GEMM_LIBRARY_BYTES]) {
  out[0] = '\0';
  if (device->driver->chooser != NULL) device->driver->chooser(device, out);
}

tri_status tri_device_gemms_asked(tri_device *device, char **out) {
  if (device->driver->gemms_asked == NULL) return tri_strdup("", out);
  return device->driver->gemms_asked(device, out);
}

tri_status tri_device_gemms_choose(tri_device *device, const char *products, bool timed, char **choices) {
  if (device->driver->gemms_choose == NULL) return tri_strdup("", choices);
  return device->driver->gemms_choose(device, products, timed, choices);
}

tri_status tri_device_gemms_use(tri_device *device, const char *choices) {
  return device->driver->gemms_read == NULL ? TRI_OK : device->driver->gemms_read(device, choices);
}
