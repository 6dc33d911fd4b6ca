/* Finds a vendor's library where it is, opens it and takes functions out of it: with dlopen, so that nothing of a
 * vendor's is needed to build or to start this program. */
#ifndef TRI_DEVICE_GPU_LIBRARY_H
#define TRI_DEVICE_GPU_LIBRARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A function that is wanted: its name, and where in the caller's struct of function pointers its address goes. */
typedef struct tri_gpu_symbol {
  const char *name;
  size_t offset;
  bool optional; /* stays NULL if the library has none */
} tri_gpu_symbol;

#define TRI_GPU_SYMBOL(table, field, name)                                                                             \
  { name, offsetof(table, field), false }
#define TRI_GPU_SYMBOL_IF_ANY(table, field, name)                                                                      \
  { name, offsetof(table, field), true }

typedef struct tri_gpu_library {
  const char *what; /* for messages: "NVIDIA's run-time compiler (NVRTC)" */
  const char *how;  /* to get it, a sentence: "It comes with the CUDA toolkit, or `pip install nvidia-cuda-nvrtc`" */
  /* Best first, NULL at the end: "libnvrtc.so.13", "libnvrtc.so.12". Names without a version would find any. */
  const char *const *names;
  /* Where toolkits put it, beside the usual places: patterns of glob(7), of which the newest version comes first:
   * "/usr/local/cuda/lib64", "/usr/local/cuda-*" "/lib64". NULL at the end; may be NULL. */
  const char *const *folders;
  /* Below a Python environment's site-packages, patterns too: "nvidia/cu13/lib", ...; NULL at the end; may be NULL. */
  const char *const *wheels;
  const tri_gpu_symbol *symbols; /* a NULL name ends them */
} tri_gpu_library;

/* Fills `table`. Looks in this order: where the loader looks by itself (LD_LIBRARY_PATH, modules), the toolkit's
 * folders (CUDA_HOME, ROCM_PATH and `folders`), the site-packages of the Python environment in front of the user
 * (VIRTUAL_ENV, CONDA_PREFIX, python3's own). *path is the file that was opened; it stays open for good, and *path as
 * long. TRI_UNSUPPORTED says what was looked for, where, and how to get it; or, of a library that is there and lacks a
 * function, which. */
tri_status tri_gpu_library_open(const tri_gpu_library *what, void *table, const char **path);

#endif
