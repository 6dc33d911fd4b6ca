#include "device/device.h"

#include "base/log.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/reference/reference.h"

#include <string.h>

tri_status tri_device_create(const char *name, int threads, tri_device **out) {
  tri_device *device = NULL;
  TRI_TRY(tri_alloc("a device", 1, sizeof *device, &device));
  tri_status status = TRI_OK;
  if (strcmp(name, "reference") == 0) {
    status = tri_reference_create(device);
  } else if (strcmp(name, "auto") == 0 || strcmp(name, "cpu") == 0) {
    status = tri_cpu_create("", threads, device);
  } else if (strncmp(name, "cpu:", 4) == 0) {
    status = tri_cpu_create(name + 4, threads, device);
  } else {
    status = tri_fail(TRI_BAD_CONFIG,
                      "`%s` is not a device; there are auto, cpu (cpu:avx2, ... for one vector unit) "
                      "and reference",
                      name);
  }
  if (status != TRI_OK) {
    tri_free(device);
    return status;
  }
  *out = device;
  return TRI_OK;
}

void tri_device_destroy(tri_device *device) {
  if (device == NULL) return;
  if (device->memory_bytes != 0) {
    tri_warn("%zu bytes of the device's memory were still held when it was given up: a mistake of this program's",
             device->memory_bytes);
  }
  if (device->destroy != NULL) device->destroy(device);
  tri_free(device);
}

tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out) {
  TRI_TRY(device->kernels->memory_create(device, bytes, out));
  device->memory_bytes += bytes;
  if (device->memory_bytes > device->memory_peak_bytes) device->memory_peak_bytes = device->memory_bytes;
  return TRI_OK;
}

void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  device->kernels->memory_destroy(device, memory, bytes);
  device->memory_bytes -= bytes;
}

tri_status tri_device_supports(const tri_device *device, tri_dtype activations) {
  bool reference = strcmp(device->name, "reference") == 0;
  bool runs = false;
  switch (activations) {
    case TRI_FP32: runs = true; break;
    case TRI_BF16: runs = !reference; break;
    case TRI_FP64: runs = reference; break;
    case TRI_INT32: break; /* no activations */
  }
  if (!runs) {
    return tri_fail(TRI_UNSUPPORTED, "the device %s does not run precision %s; it runs %s", device->name,
                    tri_dtype_name(activations), reference ? "fp64 and fp32" : "fp32 and bf16");
  }
  return TRI_OK;
}
