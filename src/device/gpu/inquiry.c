/* Lists the GPUs, compilers and GEMM libraries for `trireme doctor`, and compiles kernels ahead. A GPU or library that
 * fails is listed with its error message. */
#include "device/gpu/inquiry.h"

#include "base/memory.h"
#include "device/gpu/choice.h"
#include "device/gpu/compiler.h"
#include "device/gpu/gemm.h"
#include "device/gpu/image.h"

#include <stdio.h>
#include <string.h>

/* Opens a GPU, reads its facts and its free memory, and closes it. */
static tri_status query_gpu(const tri_gpu_runtime *runtime, int ordinal, tri_gpu_seen *out) {
  tri_gpu_context *context = NULL;
  TRI_TRY(runtime->open(ordinal, "", &context));
  tri_status status = runtime->facts(context, &out->facts);
  if (status == TRI_OK) status = runtime->memory_free(context, &out->free_bytes);
  runtime->close(context);
  return status;
}

tri_status tri_gpu_look(tri_gpu_seen **out, int *count, char *why, size_t why_bytes) {
  tri_gpu_seen *seen = NULL;
  int all = 0, next = 0;
  TRI_TRY(tri_gpu_count(tri_gpu_runtimes, &all, why, why_bytes));
  TRI_TRY(tri_alloc("the GPUs that are seen", (size_t)all + 1, sizeof *seen, &seen));
  for (const tri_gpu_runtime *const *r = tri_gpu_runtimes; *r != NULL; r++) {
    const tri_gpu_runtime *const one[] = {*r, NULL};
    int own = 0;
    (void)tri_gpu_count(one, &own, NULL, 0);
    for (int i = 0; i < own && next < all; i++, next++) {
      seen[next] = (tri_gpu_seen){.runtime = (*r)->name, .number = next};
      if (query_gpu(*r, i, &seen[next]) == TRI_OK) continue;
      snprintf(seen[next].fault, sizeof seen[next].fault, "%s", tri_status_message());
    }
  }
  *out = seen;
  *count = next;
  return TRI_OK;
}

/* Returns whether any of the GPUs needs the compiler. */
static bool is_wanted(const tri_gpu_compiler *compiler, const tri_gpu_seen *gpus, int count) {
  for (int i = 0; i < count; i++) {
    if (compiler->takes(gpus[i].facts.architecture)) return true;
  }
  return false;
}

void tri_gpu_look_for_compilers(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_COMPILERS]) {
  static const tri_gpu_compiler *const all[] = {&tri_gpu_nvrtc, &tri_gpu_hiprtc};
  for (int i = 0; i < TRI_GPU_NUM_COMPILERS; i++) {
    out[i] = (tri_gpu_tool){.name = all[i]->name, .path = "", .wanted = is_wanted(all[i], gpus, count)};
    if (tri_gpu_compiler_open(all[i]) == TRI_OK) {
      snprintf(out[i].version, sizeof out[i].version, "%s", all[i]->facts->version);
      out[i].path = all[i]->facts->path;
    } else {
      snprintf(out[i].fault, sizeof out[i].fault, "%s", tri_status_message());
    }
  }
}

void tri_gpu_find_gemms(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_PRODUCT_LIBRARIES]) {
  for (int i = 0; i < TRI_GPU_NUM_PRODUCT_LIBRARIES && tri_gpu_runtimes[i] != NULL; i++) {
    const tri_gpu_runtime *runtime = tri_gpu_runtimes[i];
    tri_gpu_tool *tool = &out[i];
    *tool = (tri_gpu_tool){.name = runtime->products->name, .path = ""};
    for (int g = 0; g < count; g++) tool->wanted = tool->wanted || strcmp(gpus[g].runtime, runtime->name) == 0;
    if (runtime->products->look(runtime->products, tool->version, &tool->path) == TRI_OK) continue;
    snprintf(tool->fault, sizeof tool->fault, "%s", tri_status_message());
  }
}

const char *tri_gpu_gemms_text(const tri_device *device, char *text, size_t text_bytes) {
  text[0] = '\0';
  if (device->info.place[0] == '\0') return text;
  const tri_gpu *gpu = device->state;
  const tri_gpu_gemms *products = gpu->products;
  char version[TRI_GPU_GEMM_VERSION_BYTES] = "";
  if (products->vendor != NULL) products->vendor->version(products->state, version);
  snprintf(text, text_bytes, "%s%s%s", products->vendor == NULL ? "kernels of this program" : products->vendor->name,
           version[0] == '\0' ? "" : " ", version);
  return text;
}

tri_status tri_gpu_compile_check(const char *architecture) { return tri_gpu_chip_check(architecture); }

tri_status tri_gpu_compile_all(const char *architecture, const char *folder, tri_gpu_log_compiled *tell, void *to) {
  static const tri_dtype types[TRI_GPU_NUM_TYPES] = {TRI_FP64, TRI_FP32, TRI_BF16};
  for (int m = 0; m < TRI_GPU_NUM_MODULES; m++) {
    for (int t = 0; t < TRI_GPU_NUM_TYPES; t++) {
      char *log = NULL;
      const char *module = tri_gpu_module_text((tri_gpu_module_name)m);
      TRI_TRY(tri_gpu_image_compile_ahead(folder, architecture, module, types[t], &log));
      tell(to, architecture, module, types[t], log);
      tri_free(log);
    }
  }
  return TRI_OK;
}
