/* What there is of GPUs and of what they need, for people who ask (`trireme doctor`). */
#ifndef TRI_DEVICE_GPU_INQUIRY_H
#define TRI_DEVICE_GPU_INQUIRY_H

#include "device/gpu/runtime.h"

typedef struct tri_gpu_seen {
  const char *runtime; /* "CUDA" */
  int number;          /* as `device: gpu:NUMBER` has it */
  tri_gpu_facts facts;
  size_t free_bytes;
  char fault[1024]; /* why it cannot be used, or "" */
} tri_gpu_seen;

/* The GPUs that this process sees, *out of tri_alloc; *why says what each driver found. */
tri_status tri_gpu_look(tri_gpu_seen **out, int *count, char *why, size_t why_bytes);

typedef struct tri_gpu_tool {
  const char *name, *path; /* path "" if it is not to be had */
  char version[192];       /* "" also where it does not say that without a GPU */
  bool wanted;             /* by a GPU among those */
  char fault[1024];        /* where it was looked for, and how to get it */
} tri_gpu_tool;

enum { TRI_GPU_NUM_COMPILERS = 2, TRI_GPU_NUM_PRODUCT_LIBRARIES = 2 };

/* The vendors' compilers and their libraries of matrix products, beside `count` GPUs. */
void tri_gpu_look_for_compilers(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_COMPILERS]);
void tri_gpu_look_for_products(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_PRODUCT_LIBRARIES]);

/* "cuBLASLt 13.1.0", what makes the matrix products of a device that is a GPU; "" of any other. */
const char *tri_gpu_products_text(const tri_device *device, char *text, size_t text_bytes);

/* Whether a compiler of this chip is here; before minutes of compiling. */
tri_status tri_gpu_compile_check(const char *architecture);

/* Compiles all kernels for a chip that need not be here and puts them into a folder, for TRIREME_CACHE on machines
 * without a compiler. `tell` gets what the compiler said of each module, a line a kernel. */
typedef void tri_gpu_tell(void *to, const char *architecture, const char *module, tri_dtype type, const char *log);
tri_status tri_gpu_compile_all(const char *architecture, const char *folder, tri_gpu_tell *tell, void *to);

#endif
