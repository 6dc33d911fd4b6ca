/* Compiled modules: from the cache, or from the vendor's compiler and then into the cache. */
#ifndef TRI_DEVICE_GPU_IMAGE_H
#define TRI_DEVICE_GPU_IMAGE_H

#include "device/gpu/internal.h"

/* For the GPU's chip. *out is released with tri_gpu_image_release. For a runtime that compiles nothing (architecture
 * "") it has no image. */
tri_status tri_gpu_image_create(const tri_gpu *gpu, const char *module, tri_dtype type, tri_gpu_image *out);
void tri_gpu_image_release(tri_gpu_image *image);

#endif
