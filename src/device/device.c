#include "device/device.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/system.h"
#include "device/cpu/cpu.h"
#include "device/gpu/gpu.h"
#include "device/guarded/guarded.h"
#include "device/queue.h"
#include "device/reference/reference.h"

#include <stdio.h>
#include <string.h>

/* The kinds of devices; the first is `auto`. A name is a kind's own, or that, a colon and what the kind knows about. */
typedef struct kind {
  const char *name;
  unsigned types; /* as in tri_device_info */
  bool for_tests; /* known, and recommended to nobody */
  tri_status (*fill)(const char *rest, int threads, tri_device *out);
} kind;

static const kind kinds[] = {
    {"cpu", 1u << TRI_FP32 | 1u << TRI_BF16, false, tri_cpu_create},
    {"reference", 1u << TRI_FP64 | 1u << TRI_FP32, false, tri_reference_create},
    {"guarded", 1u << TRI_FP64 | 1u << TRI_FP32, true, tri_guarded_create},
    {"emulated", 1u << TRI_FP64 | 1u << TRI_FP32 | 1u << TRI_BF16, true, tri_gpu_create_emulated},
};
enum { NUM_KINDS = sizeof kinds / sizeof kinds[0] };

/* *rest: what stands behind the colon. NULL for an unknown name. */
static const kind *find_kind(const char *name, const char **rest) {
  *rest = "";
  if (strcmp(name, "auto") == 0) return &kinds[0];
  for (int i = 0; i < NUM_KINDS; i++) {
    size_t length = strlen(kinds[i].name);
    if (strncmp(name, kinds[i].name, length) != 0 || (name[length] != '\0' && name[length] != ':')) continue;
    if (name[length] == ':') *rest = name + length + 1;
    return &kinds[i];
  }
  return NULL;
}

static tri_status fill(const char *name, int threads, tri_device *device) {
  const char *rest;
  const kind *found = find_kind(name, &rest);
  if (found != NULL) {
    device->info.types = found->types;
    return found->fill(rest, threads, device);
  }
  return tri_fail(
      TRI_BAD_CONFIG,
      "`%s` is not a device; there are auto, cpu (cpu:avx2, ... for one vector unit), reference and guarded "
      "(guarded:seed=7, ... for tests)",
      name);
}

tri_status tri_device_check_name(const char *name, tri_dtype activations) {
  const char *rest;
  const kind *found = find_kind(name, &rest);
  char others[128] = "";
  if (found == NULL || (found->types >> (unsigned)activations & 1u) != 0) return TRI_OK;
  for (int i = 0; i < NUM_KINDS; i++) {
    size_t used = strlen(others);
    if (kinds[i].for_tests || (kinds[i].types >> (unsigned)activations & 1u) == 0) continue;
    snprintf(others + used, sizeof others - used, "%s`device: %s`", used == 0 ? "" : " or ", kinds[i].name);
  }
  return tri_fail(TRI_BAD_CONFIG, "`precision` %s needs %s, not `device: %s`", tri_dtype_name(activations), others,
                  name);
}

tri_status tri_device_create(const char *name, int threads, tri_device **out) {
  tri_device *device = NULL;
  TRI_TRY(tri_alloc("a device", 1, sizeof *device, &device));
  tri_status status = fill(name, threads, device);
  if (status != TRI_OK) {
    tri_free(device);
    return status;
  }
  status = tri_queue_create(device, &device->queue);
  if (status != TRI_OK) {
    tri_device_destroy(device);
    return status;
  }
  *out = device;
  return TRI_OK;
}

void tri_device_destroy(tri_device *device) {
  if (device == NULL) return;
  tri_queue_destroy(device->queue);
  if (device->memory_bytes != 0 || device->host_bytes != 0) {
    tri_warn("%zu bytes of the device's memory were still held when it was given up: a mistake of this program's",
             device->memory_bytes + device->host_bytes);
  }
  if (device->driver->destroy != NULL) device->driver->destroy(device);
  tri_free(device);
}

void tri_device_limit_memory(tri_device *device, size_t bytes) {
  size_t *has = &device->info.memory_bytes;
  if (bytes != 0 && (*has == 0 || bytes < *has)) *has = bytes;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void count(size_t bytes, size_t *held, size_t *peak) {
  *held += bytes;
  if (*held > *peak) *peak = *held;
}

tri_status tri_device_memory_create(tri_device *device, size_t bytes, void **out) {
  size_t limit = device->info.memory_bytes;
  if (limit != 0 && (device->memory_bytes > limit || bytes > limit - device->memory_bytes)) {
    char wanted[32], has[32], taken[32];
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "the device %s has %s of memory, of which %s are taken; %zu bytes (%s) do not fit",
                    device->info.name, tri_format_bytes((double)limit, has, sizeof has),
                    tri_format_bytes((double)device->memory_bytes, taken, sizeof taken), bytes,
                    tri_format_bytes((double)bytes, wanted, sizeof wanted));
  }
  TRI_TRY(device->driver->memory_create(device, bytes, out));
  count(bytes, &device->memory_bytes, &device->memory_peak_bytes);
  return TRI_OK;
}

void tri_device_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  device->driver->memory_destroy(device, memory, bytes);
  device->memory_bytes -= bytes;
}

tri_status tri_device_host_create(tri_device *device, size_t bytes, void **out) {
  if (device->driver->host_create == NULL) {
    TRI_TRY(tri_alloc("host memory", bytes, 1, out));
  } else {
    TRI_TRY(device->driver->host_create(device, bytes, out));
  }
  count(bytes, &device->host_bytes, &device->host_peak_bytes);
  return TRI_OK;
}

void tri_device_host_destroy(tri_device *device, void *memory, size_t bytes) {
  if (memory == NULL) return;
  if (device->driver->host_destroy == NULL) {
    tri_free(memory);
  } else {
    device->driver->host_destroy(device, memory, bytes);
  }
  device->host_bytes -= bytes;
}

/* ---- what it runs ------------------------------------------------------------------------------------------------ */

static bool runs(const tri_device *device, tri_dtype type) { return (device->info.types >> (unsigned)type & 1u) != 0; }

tri_status tri_device_supports(const tri_device *device, tri_dtype activations) {
  static const tri_dtype all[] = {TRI_FP64, TRI_FP32, TRI_BF16};
  char known[64] = "";
  if (runs(device, activations)) return TRI_OK;
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!runs(device, all[i])) continue;
    size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, "%s%s", used == 0 ? "" : " and ", tri_dtype_name(all[i]));
  }
  return tri_fail(TRI_UNSUPPORTED, "the device %s does not run precision %s; it runs %s", device->info.name,
                  tri_dtype_name(activations), known);
}
