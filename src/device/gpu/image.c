#include "device/gpu/image.h"

#include "base/memory.h"
#include "device/gpu/compiler.h"

#include <stdio.h>
#include <string.h>

tri_status tri_gpu_image_create(const tri_gpu *gpu, const char *module, tri_dtype type, tri_gpu_image *out) {
  *out = (tri_gpu_image){.module = module, .type = type};
  if (gpu->facts.architecture[0] == '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "nobody compiles kernels for %s", gpu->facts.architecture);
}

void tri_gpu_image_release(tri_gpu_image *image) {
  tri_free((void *)(uintptr_t)image->image);
  *image = (tri_gpu_image){0};
}
