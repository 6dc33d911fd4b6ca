/* Finds a vendor's library, opens it and resolves functions: with dlopen, so that no vendor's package is needed to
 * build or to start this program. */
#ifndef TRI_DEVICE_GPU_LIBRARY_H
#define TRI_DEVICE_GPU_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A requested function: its name, and the offset of its pointer in the caller's struct. */
typedef struct tri_gpu_symbol {
  const char *name;
  size_t offset;
  bool optional; /* whether the library may lack the function, whose pointer then stays NULL */
} tri_gpu_symbol;

#define TRI_GPU_SYMBOL(table, field, name)                                                                             \
  { name, offsetof(table, field), false }
#define TRI_GPU_SYMBOL_IF_ANY(table, field, name)                                                                      \
  { name, offsetof(table, field), true }

typedef struct tri_gpu_library {
  const char *what; /* for messages: "NVIDIA's run-time compiler (NVRTC)" */
  const char *how; /* how to get it, a sentence: "It comes with the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`" */
  /* Names of the file, the preferred one first, NULL at the end: "libnvrtc.so.13", "libnvrtc.so.12". A name without a
   * version matches any version. */
  const char *const *names;
  /* Folders of toolkits, in addition to the usual places: glob(7) patterns; the newest version that matches is tried
   * first: "/usr/local/cuda/lib64", "/usr/local/cuda-1?.?/lib64". NULL at the end; may be NULL. */
  const char *const *folders;
  /* Folders below a Python environment's site-packages, also patterns: "nvidia/cu13/lib", ...; NULL at the end; may be
   * NULL. */
  const char *const *wheels;
  const tri_gpu_symbol *symbols; /* ends with a NULL name */
} tri_gpu_library;

/* Opens the library and fills `table`. The search order: the loader's own search (LD_LIBRARY_PATH, environment
 * modules), the toolkit's folders (CUDA_HOME, CUDA_PATH, ROCM_PATH, HIP_PATH and `folders`), and, if `wheels` is not
 * NULL, the user's Python environment: site-packages of VIRTUAL_ENV and CONDA_PREFIX, with their folders lib, and the
 * folders that python3 searches. Sets *path to the opened file; the text is valid until the program ends, since the
 * library is never closed. Fails with TRI_UNSUPPORTED if no file can be used: the message has the names and folders of
 * the search and how to get the library, or why an existing file cannot be used, such as a missing function. */
tri_status tri_gpu_library_open(const tri_gpu_library *what, void *table, const char **path);

#endif
