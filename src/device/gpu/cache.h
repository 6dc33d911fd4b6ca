/* A folder of compiled kernels. A file is created atomically, and contains its own name and a checksum. So ranks
 * need not agree on which of them writes, and damage by a crash or by another program is detected. */
#ifndef TRI_DEVICE_GPU_CACHE_H
#define TRI_DEVICE_GPU_CACHE_H

#include "files/file.h"

enum { TRI_GPU_CACHE_NAME_BYTES = 224 };

/* Sets *out to the image in a file, and *bytes to its length; release *out with tri_free. Returns false if the file
 * does not exist or is not valid. */
bool tri_gpu_cache_read(const char *folder, const char *name, void **out, size_t *bytes);
/* Reads the file whose name is `beginning`, more characters, and ".image". If several files are valid, reads the one
 * that sorts last by version (strverscmp). Release *out with tri_free. Returns false if there is no valid one. */
bool tri_gpu_cache_find(const char *folder, const char *beginning, void **out, size_t *bytes);
/* Writes a file, creates the folder if it is missing, and replaces an existing file of this name. Fails with
 * TRI_IO_FAILED if the file cannot be written. */
tri_status tri_gpu_cache_write(const char *folder, const char *name, const void *image, size_t bytes);

#endif
