/* The vendors' run-time compilers. They need neither a driver nor a GPU, so that kernels can be compiled for any chip
 * anywhere. */
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
   * S bytes of shared memory, P bytes spilled". R: 32-bit registers of a thread (AMD: vector registers, accumulators
   * included). S: shared memory that the kernel declares. P: private memory of a thread, its stack included. There are
   * no such lines if the output is text that the driver compiles. */
  bool show_resources;
} tri_gpu_compilation;

/* Facts about an opened compiler. The strings are valid until the program ends. */
typedef struct tri_gpu_compiler_facts {
  const char *path;  /* path of the opened file */
  char version[192]; /* a part of every cache key */
  char chips[2048];  /* chips for which the compiler generates code, separated by spaces, named as in
                        tri_gpu_facts.architecture: "sm_89 sm_90a" */
} tri_gpu_compiler_facts;

typedef struct tri_gpu_rtc tri_gpu_rtc;

typedef struct tri_gpu_compiler {
  const char *name;    /* "NVRTC", "hipRTC" */
  const char *options; /* options and text of <stdint.h> of all compilations; a part of every cache key */
  /* Returns whether the name of an architecture is of this compiler's vendor ("sm_..." or "gfx..."). */
  bool (*takes)(const char *architecture);
  const tri_gpu_compiler_facts *facts; /* valid after tri_gpu_compiler_open */
  const tri_gpu_rtc *rtc;              /* the differences between the compilers: rtc.c */
} tri_gpu_compiler;

extern const tri_gpu_compiler tri_gpu_nvrtc, tri_gpu_hiprtc;

/* Opens the library once. Fails with TRI_UNSUPPORTED, each time with the same error, if the library is not available or
 * not usable; the message then says where it was looked for and how to get it. */
tri_status tri_gpu_compiler_open(const tri_gpu_compiler *compiler);

/* Compiles a source. *out is an image for the runtime's module_load, *log the compiler's messages ("" if it has none);
 * the caller releases both with tri_free. An error message contains the beginning of the log. If the compiler does not
 * know the architecture, it compiles for the nearest older one that the chip's driver can still load, or fails and
 * names the architectures that it supports. */
tri_status tri_gpu_compiler_compile(const tri_gpu_compiler *compiler, const tri_gpu_compilation *what, void **out,
                                    size_t *bytes, char **log);

/* Returns the compiler of an architecture's vendor; NULL for "" and for names that belong to neither vendor. */
const tri_gpu_compiler *tri_gpu_compiler_for(const char *architecture);

/* Checks that `chip` is the name of a chip that an available compiler generates code for. If not, the TRI_UNSUPPORTED
 * message lists the supported chips and the nearest name, or says where the compiler was looked for. */
tri_status tri_gpu_chip_check(const char *chip);

/* Returns whether `chip` is in a list such as tri_gpu_compiler_facts.chips. */
bool tri_gpu_chip_is_listed(const char *chips, const char *chip);

#endif
