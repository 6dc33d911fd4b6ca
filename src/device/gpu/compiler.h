/* A vendor's run-time compiler: a table with two fillings, nvrtc.c and hiprtc.c (what they share: rtc.c). It needs no
 * driver and no GPU, so that kernels can be compiled for any chip anywhere. */
#ifndef TRI_DEVICE_GPU_COMPILER_H
#define TRI_DEVICE_GPU_COMPILER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* A file of source that is part of this program. */
typedef struct tri_gpu_source {
  const char *name; /* as an include says it: "device/gpu/kernels/norm.c" */
  const char *text;
} tri_gpu_source;

/* All of them, in a fixed order; a NULL name ends the list. */
extern const tri_gpu_source tri_gpu_sources[];

typedef struct tri_gpu_compilation {
  const char *source;       /* name of the file to compile; it may include all others */
  const char *architecture; /* "sm_90a", "gfx90a" */
  int type_bits;            /* TRI_GPU_TYPE: 64, 32 or 16 */
  /* The log ends with a line for each kernel, in the order of the compiler's output:
   * "kernel NAME: R registers, S bytes of shared memory, P bytes spilled", R of 32 bits a thread (AMD: vector
   * registers, accumulators included), S declared by the kernel, P of a thread's own memory (a stack's included). No
   * such lines where the output is text that the driver compiles. */
  bool show_resources;
} tri_gpu_compilation;

typedef struct tri_gpu_compiler {
  const char *name;    /* "NVRTC", "hipRTC" */
  const char *options; /* what all compilations have in common: options, headers of its own. Goes into cache keys */
  /* Whether it compiles for this architecture's name at all ("sm_..." or "gfx..."). */
  bool (*takes)(const char *architecture);
  /* Opens the library once; fails, saying where it was looked for and how to get it, where it cannot be had. */
  tri_status (*open)(void);
  /* After open: its version, a part of every cache key, and the file it was found in; live as long as the program. */
  const char *(*version)(void);
  const char *(*path)(void);
  /* After open: the chips that it makes code for, by the names that runtimes give their GPUs, a blank between two. */
  const char *(*chips)(void);
  /* *out is an image for the runtime's module_load, *log what the compiler said ("" if nothing); both are the caller's,
   * tri_free. A failure's message holds the beginning of the log. Where the compiler does not know the architecture, it
   * compiles for the nearest older one that the chip's driver can still take, or fails saying what it knows. */
  tri_status (*compile)(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log);
} tri_gpu_compiler;

extern const tri_gpu_compiler tri_gpu_nvrtc, tri_gpu_hiprtc;

/* The one for an architecture; NULL for "" and for what no compiler supports. */
const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture);

/* Whether `chip` is the name of a chip that a compiler here makes code for. If not, TRI_UNSUPPORTED says which there
 * are and which was probably meant, or where the compiler was looked for. */
tri_status tri_gpu_chip_check(const char *chip);
/* Whether it stands in a list as tri_gpu_compiler.chips gives one. */
bool tri_gpu_chip_is_listed(const char *chips, const char *chip);

/* ---- for compilers ----------------------------------------------------------------------------------------------- */

enum { TRI_GPU_MOST_TEXTS = 128 };

/* What is compiled, and all other texts of this program as its headers, beside a <stdint.h>: there is none of the C
 * library's where a program compiles as it runs. */
typedef struct tri_gpu_texts {
  const char *own;
  int count;
  const char *names[TRI_GPU_MOST_TEXTS], *texts[TRI_GPU_MOST_TEXTS];
} tri_gpu_texts;

tri_status tri_gpu_texts_gather(const char *name, const char *stdint_text, tri_gpu_texts *out);

#endif
