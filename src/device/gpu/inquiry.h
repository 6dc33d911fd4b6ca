/* The GPUs and the libraries that they need, for `trireme doctor`, and the compilation of kernels ahead of a run. */
#ifndef TRI_DEVICE_GPU_INQUIRY_H
#define TRI_DEVICE_GPU_INQUIRY_H

#include "device/gpu/runtime.h"

typedef struct tri_gpu_seen {
  const char *runtime; /* "CUDA" */
  int number;          /* number of the GPU, as in `device: gpu:NUMBER` */
  tri_gpu_facts facts;
  size_t free_bytes;
  char fault[1024]; /* why the GPU cannot be used, or "" */
} tri_gpu_seen;

/* Lists the GPUs that this process sees; a GPU that fails is listed with its error message (fault). Release *out with
 * tri_free. Writes a text to `why` that has the libraries and GPUs that were found (tri_gpu_count). */
tri_status tri_gpu_look(tri_gpu_seen **out, int *count, char *why, size_t why_bytes);

typedef struct tri_gpu_tool {
  const char *name, *path; /* path: "" if the tool was not found */
  char version[192]; /* version of the tool; "" if it was not found, or if it reports its version only with a GPU */
  bool wanted;       /* whether one of the GPUs needs the tool */
  char fault[1024];  /* why the tool cannot be used, such as the places that were searched, and how to get it; "" if it
                        can be used */
} tri_gpu_tool;

enum { TRI_GPU_NUM_COMPILERS = 2, TRI_GPU_NUM_PRODUCT_LIBRARIES = 2 };

/* Look for the vendors' compilers and GEMM libraries. `gpus`[count] are the GPUs that may need them. */
void tri_gpu_look_for_compilers(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_COMPILERS]);
void tri_gpu_find_gemms(const tri_gpu_seen *gpus, int count, tri_gpu_tool out[TRI_GPU_NUM_PRODUCT_LIBRARIES]);

/* Prints the GEMM library of a GPU device, "cuBLASLt 13.1.0", or "kernels of this program"; "" for other devices. Call
 * it after the first GEMM, which opens the library. Returns text. */
const char *tri_gpu_gemms_text(const tri_device *device, char *text, size_t text_bytes);

/* Checks that a compiler for this chip is available, before minutes of compiling. Fails with TRI_UNSUPPORTED
 * otherwise. */
tri_status tri_gpu_compile_check(const char *architecture);

/* Compiles all kernels for a chip, which this machine need not have, and writes them to `folder`. A machine without a
 * compiler finds them there if TRIREME_CACHE is this folder. Calls `tell` for each module and type, with the compiler's
 * output, which ends with a line for each kernel. */
typedef void tri_gpu_log_compiled(void *to, const char *architecture, const char *module, tri_dtype type,
                                  const char *log);
tri_status tri_gpu_compile_all(const char *architecture, const char *folder, tri_gpu_log_compiled *tell, void *to);

#endif
