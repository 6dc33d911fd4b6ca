/* Compiled modules. A module is read from the cache, or compiled by the vendor's compiler and added to the cache. */
#ifndef TRI_DEVICE_GPU_IMAGE_H
#define TRI_DEVICE_GPU_IMAGE_H

#include "device/gpu/internal.h"

/* Loads a module for the GPU's chip, from the cache or after compiling it. If the compiler is missing, uses a module in
 * the cache that was compiled by any version of the compiler. A cache that cannot be read or written is ignored, and a
 * cached module that the driver rejects is compiled again. On the emulator, whose kernels are not compiled, loads the
 * module without an image. Fails with TRI_UNSUPPORTED if the module is not in the cache and cannot be compiled. */
tri_status tri_gpu_image_load(const tri_gpu *gpu, const char *module, tri_dtype type, tri_gpu_module **out);

/* Compiles a module for a chip, which this machine need not have, and writes it to `folder`. A machine without a
 * compiler finds it there if TRIREME_CACHE is this folder. *log is the compiler's output, with the resources of each
 * kernel; release it with tri_free. Fails with TRI_UNSUPPORTED if there is no compiler, with TRI_IO_FAILED if the
 * folder cannot be written. */
tri_status tri_gpu_image_compile_ahead(const char *folder, const char *architecture, const char *module, tri_dtype type,
                                       char **log);

#endif
