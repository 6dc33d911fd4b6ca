/* A folder of compiled kernels. A file of it is put there whole or not at all, says what it is and carries a checksum,
 * so that ranks need not agree on who writes, and what a crash or somebody else has left there is found out. */
#ifndef TRI_DEVICE_GPU_CACHE_H
#define TRI_DEVICE_GPU_CACHE_H

#include "base/file.h"

enum { TRI_GPU_CACHE_NAME_BYTES = 224 };

/* *out is released with tri_free. False where there is no such file, or it is not what it should be. */
bool tri_gpu_cache_read(const char *folder, const char *name, void **out, size_t *bytes);
/* The same of the file whose name begins so; of several the one that sorts last by versions. */
bool tri_gpu_cache_find(const char *folder, const char *beginning, void **out, size_t *bytes);
/* Makes the folder where it is missing. What is there under this name is replaced. */
tri_status tri_gpu_cache_write(const char *folder, const char *name, const void *image, size_t bytes);

#endif
