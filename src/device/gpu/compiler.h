/* A vendor's run-time compiler: a table with two implementations, nvrtc.c and hiprtc.c (the common part: rtc.c). It
 * needs neither a driver nor a GPU, so that kernels can be compiled for any chip anywhere. */
#ifndef TRI_DEVICE_GPU_COMPILER_H
#define TRI_DEVICE_GPU_COMPILER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A source file that is embedded in this program. */
typedef struct tri_gpu_source {
  const char *name; /* path as in an include: "device/gpu/kernels/norm.c" */
  const char *text;
} tri_gpu_source;

/* All sources, in a fixed order; a NULL name ends the list. */
extern const tri_gpu_source tri_gpu_sources[];

typedef struct tri_gpu_compilation {
  const char *source;       /* name of the file to compile; it may include all others */
  const char *architecture; /* "sm_90a", "gfx90a" */
  int type_bits;            /* TRI_GPU_TYPE: 64, 32 or 16 */
  /* If set, the log ends with a line for each kernel, in the order of the compiler's output: "kernel NAME: R registers,
   * S bytes of shared memory, P bytes spilled". R: registers of 32 bits per thread (AMD: vector registers, accumulators
   * included); S: declared by the kernel; P: private memory of a thread (including a stack). No such lines if the
   * output is text that the driver compiles. */
  bool show_resources;
} tri_gpu_compilation;

typedef struct tri_gpu_compiler {
  const char *name;    /* "NVRTC", "hipRTC" */
  const char *options; /* options and built-in headers of all compilations; a part of every cache key */
  /* Returns whether it supports this kind of architecture name ("sm_..." or "gfx..."). */
  bool (*takes)(const char *architecture);
  /* Opens the library once. If it is not available, the error message says where it was looked for and how to get
   * it. */
  tri_status (*open)(void);
  /* After open: return its version, a part of every cache key, and the path of the opened file. Both strings are valid
   * until the program ends. */
  const char *(*version)(void);
  const char *(*path)(void);
  /* After open: returns the chips that it generates code for, by the names that runtimes give their GPUs, separated by
   * blanks. */
  const char *(*chips)(void);
  /* Compiles. *out is an image for the runtime's module_load, *log the compiler's output ("" if none); the caller
   * releases both with tri_free. An error message contains the beginning of the log. If the compiler does not know the
   * architecture, it compiles for the nearest older one that the chip's driver can still load, or fails and lists what
   * it supports. */
  tri_status (*compile)(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log);
} tri_gpu_compiler;

extern const tri_gpu_compiler tri_gpu_nvrtc, tri_gpu_hiprtc;

/* Returns the compiler for an architecture; NULL for "" and for one that no compiler supports. */
const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture);

/* Checks that `chip` is the name of a chip that an available compiler generates code for. If not, the TRI_UNSUPPORTED
 * message lists the supported chips and the nearest name, or says where the compiler was looked for. */
tri_status tri_gpu_chip_check(const char *chip);
/* ---- for compilers ----------------------------------------------------------------------------------------------- */

#endif
