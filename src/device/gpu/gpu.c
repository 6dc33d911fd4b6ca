/* Devices of the kind `gpu`: fills in the device's driver, its kernels and its description. A device has one GPU of a
 * runtime (CUDA, HIP or the emulator), with its modules of kernels and its GEMM library. */
#include "device/gpu/gpu.h"

#include "base/format.h"
#include "base/memory.h"
#include "device/gpu/choice.h"
#include "device/gpu/gemm.h"
#include "device/gpu/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- the driver's functions -------------------------------------------------------------------------------------- */

static tri_status gpu_memory_create(tri_device *device, size_t bytes, void **out) {
  const tri_gpu *gpu = device->state;
  return gpu->runtime->memory_create(gpu->context, bytes, out);
}

static void gpu_memory_destroy(tri_device *device, void *memory, size_t bytes) {
  (void)bytes;
  const tri_gpu *gpu = device->state;
  gpu->runtime->memory_destroy(gpu->context, memory);
}

static tri_status gpu_memory_free(tri_device *device, size_t *bytes) {
  const tri_gpu *gpu = device->state;
  return gpu->runtime->memory_free(gpu->context, bytes);
}

static void *gpu_peer_address(tri_device *device, void *memory) {
  const tri_gpu *gpu = device->state;
  return gpu->runtime->peer_address(gpu->context, memory);
}

static tri_status gpu_host_create(tri_device *device, size_t bytes, void **out) {
  const tri_gpu *gpu = device->state;
  return gpu->runtime->host_create(gpu->context, bytes, out);
}

static void gpu_host_destroy(tri_device *device, void *memory, size_t bytes) {
  (void)bytes;
  const tri_gpu *gpu = device->state;
  gpu->runtime->host_destroy(gpu->context, memory);
}

static void gpu_release(tri_gpu *gpu) {
  tri_gpu_gemms_destroy(gpu->products);
  tri_gpu_modules_destroy(gpu->modules);
  if (gpu->context != NULL) gpu->runtime->close(gpu->context);
  tri_free(gpu);
}

static void gpu_destroy(tri_device *device) { gpu_release(device->state); }

static const tri_device_driver driver = {
    .memory_create = gpu_memory_create,
    .memory_destroy = gpu_memory_destroy,
    .memory_free = gpu_memory_free,
    .peer_address = gpu_peer_address,
    .host_create = gpu_host_create,
    .host_destroy = gpu_host_destroy,
    .copy = tri_gpu_queue_copy,
    .undefine = tri_gpu_queue_undefine,
    .queue_create = tri_gpu_queue_create,
    .queue_destroy = tri_gpu_queue_destroy,
    .mark = tri_gpu_queue_mark,
    .wait = tri_gpu_queue_wait,
    .event_wait = tri_gpu_queue_event_wait,
    .event_passed = tri_gpu_queue_event_passed,
    .time = tri_gpu_queue_time,
    .allow_tf32 = tri_gpu_allow_tf32,
    .chooser = tri_gpu_chooser,
    .gemms_asked = tri_gpu_gemms_asked,
    .gemms_choose = tri_gpu_gemms_choose,
    .gemms_read = tri_gpu_gemms_read,
    .destroy = gpu_destroy,
};

static void fill_kernels(tri_device_kernels *out) {
  *out = (tri_device_kernels){.fill_zero = tri_gpu_queue_fill_zero};
#define FILL(name) tri_gpu_fill_##name(out);
  TRI_GPU_MODULES(FILL)
#undef FILL
}

/* ---- description ------------------------------------------------------------------------------------------------- */

/* Appends a fact to a text, after ", " unless the text is empty. The text is cut at text_bytes - 1 characters. */
TRI_PRINTF(3, 4) static void add_fact(char *text, size_t text_bytes, const char *format, ...) {
  size_t used = strlen(text);
  va_list arguments;
  if (used > 0 && used + 2 < text_bytes) used += (size_t)snprintf(text + used, text_bytes - used, ", ");
  va_start(arguments, format);
  vsnprintf(text + used, text_bytes - used, format, arguments);
  va_end(arguments);
}

const char *tri_gpu_describe_chip(const tri_gpu_facts *f, char *text, size_t text_bytes) {
  char l2[32];
  text[0] = '\0';
  if (f->architecture[0] != '\0') add_fact(text, text_bytes, "%s", f->architecture);
  if (f->clock_hz > 0) {
    add_fact(text, text_bytes, "%d processors at %.2f GHz", f->processors, f->clock_hz * 1e-9);
  } else {
    add_fact(text, text_bytes, "%d processors", f->processors);
  }
  if (f->l2_bytes > 0) {
    add_fact(text, text_bytes, "%s of L2 cache", tri_format_bytes((double)f->l2_bytes, l2, sizeof l2));
  }
  if (f->memory_clock_hz > 0 && f->memory_bus_bits > 0) {
    add_fact(text, text_bytes, "memory at %.2f GHz over %d bits", f->memory_clock_hz * 1e-9, f->memory_bus_bits);
  }
  return text;
}

/* ---- creation ---------------------------------------------------------------------------------------------------- */

/* Opens the GPU. Loads one kernel, so that this call and not the first step fails if kernels cannot be compiled or
 * loaded. */
static tri_status open_gpu(tri_gpu *gpu, const tri_gpu_choice *choice) {
  tri_gpu_function *any = NULL;
  TRI_TRY(gpu->runtime->open(choice->ordinal, choice->options, &gpu->context));
  TRI_TRY(gpu->runtime->facts(gpu->context, &gpu->facts));
  TRI_TRY(tri_gpu_modules_create(gpu, &gpu->modules));
  TRI_TRY(tri_gpu_gemms_create(gpu, &gpu->products));
  return tri_gpu_function_of(gpu->modules, TRI_GPU_KERNEL_convert, TRI_FP32, &any);
}

static tri_status create(const tri_gpu_choice *choice, tri_device *out) {
  tri_gpu *gpu = NULL;
  TRI_TRY(tri_alloc("a GPU", 1, sizeof *gpu, &gpu));
  gpu->runtime = choice->runtime;
  gpu->blocking = choice->blocking;
  fill_kernels(&gpu->kernels);
  tri_status status = open_gpu(gpu, choice);
  if (status != TRI_OK) {
    gpu_release(gpu);
    return status;
  }
  unsigned types = out->info.types;
  out->info = (tri_device_info){.ordinal = choice->number,
                                .memory_bytes = gpu->facts.memory_bytes,
                                .total_bytes = gpu->facts.memory_bytes,
                                .peer = gpu->facts.peer,
                                .types = types};
  snprintf(out->info.name, sizeof out->info.name, "%s", gpu->facts.name);
  tri_gpu_describe_chip(&gpu->facts, out->info.chip, sizeof out->info.chip);
  snprintf(out->info.place, sizeof out->info.place, "%s", gpu->facts.bus);
  out->driver = &driver;
  out->kernels = &gpu->kernels;
  out->description = tri_description_accelerator;
  out->description.queue_bytes = TRI_GPU_SCRATCH_BYTES;
  out->description.facts = gpu->products;
  out->description.matmul_workspace = tri_gpu_matmul_workspace;
  out->state = gpu;
  return TRI_OK;
}

bool tri_gpu_is_visible(void) {
  int count = 0;
  return tri_gpu_count(tri_gpu_runtimes, &count, NULL, 0) == TRI_OK && count > 0;
}

tri_status tri_gpu_check(const char *options) { return tri_gpu_choice_check("gpu", tri_gpu_runtimes, options); }

tri_status tri_gpu_create_from(const char *kind, const tri_gpu_runtime *const *runtimes, const char *options, int place,
                               tri_device *out) {
  tri_gpu_choice choice;
  TRI_TRY(tri_gpu_choose(kind, runtimes, options, place, &choice));
  return create(&choice, out);
}

tri_status tri_gpu_create(const char *options, const tri_device_request *request, tri_device *out) {
  return tri_gpu_create_from("gpu", tri_gpu_runtimes, options, request->place, out);
}
