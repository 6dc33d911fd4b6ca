/* Compiled modules: from the cache, or from the vendor's compiler and then into the cache. */
#ifndef TRI_DEVICE_GPU_IMAGE_H
#define TRI_DEVICE_GPU_IMAGE_H

#include "device/gpu/internal.h"

/* A module for the GPU's chip, loaded. Where the compiler is missing, what any version of it has put into the cache
 * serves. A cache that cannot be read or written is not used; what the driver refuses of it is compiled again. */
tri_status tri_gpu_image_load(const tri_gpu *gpu, const char *module, tri_dtype type, tri_gpu_module **out);

/* Compiles a module for a chip that need not be here and puts it into a folder, for TRIREME_CACHE on machines without a
 * compiler. *log is what the compiler said, with the resources of each kernel; released with tri_free. */
tri_status tri_gpu_image_compile_ahead(const char *folder, const char *architecture, const char *module, tri_dtype type,
                                       char **log);

#endif
