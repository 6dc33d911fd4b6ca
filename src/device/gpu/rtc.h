/* The common part of NVRTC and hipRTC: a program is created from texts, compiled with options, and its output
 * retrieved. nvrtc.c and hiprtc.c have the differences: where the library is, which chips it supports, its options, and
 * how it reports a kernel's resources. */
#ifndef TRI_DEVICE_GPU_RTC_H
#define TRI_DEVICE_GPU_RTC_H

#include "device/gpu/compiler.h"
#include "device/gpu/rtc_calls.h"
#include "files/file.h"

enum { TRI_GPU_RTC_MOST_OPTIONS = 8 };

/* One compilation, as `choose` sets it up. */
typedef struct tri_gpu_rtc_options {
  char doing[256]; /* for messages: "compile NAME for gfx90a and 32 bits" */
  char chip[32];   /* hipRTC only: the chip's name without the features that a driver adds */
  char architecture[64], type[32], warp[32];
  const char *list[TRI_GPU_RTC_MOST_OPTIONS];
  int count;
  /* The calls that retrieve the output. */
  tri_gpu_rtc_enum (*output_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*output)(tri_gpu_rtc_program program, char *out);
} tri_gpu_rtc_options;

/* A compiler: its own part, and the facts that are known after it is opened. */
typedef struct tri_gpu_rtc {
  const char *name; /* "NVRTC" */
  const char *stdint_text;
  const char *without_builtins; /* addition to the error message if its builtins cannot be opened */
  const char *without_log;      /* addition to the error message if compiling fails without a log; NULL: none */
  tri_status (*choose)(const tri_gpu_compilation *what, tri_gpu_rtc_options *out);
  /* Examines the output, and adds to the log if what->show_resources. */
  tri_status (*examine)(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                        size_t bytes, char **log);

  tri_gpu_rtc_calls calls;
  const char *path;
  char version[192];
  char chips[2048]; /* all chips that it compiles for: "sm_89 sm_90a" */
  tri_saved_error fault;
} tri_gpu_rtc;

tri_status tri_gpu_rtc_compile(const tri_gpu_rtc *rtc, const tri_gpu_compilation *what, void **out, size_t *bytes,
                               char **log);

/* Opens a library in the compiler's folder; false if it does not exist. The compiler opens its builtins by name when it
 * first compiles, and might find those of another version elsewhere: if they are already open, it uses these. */
bool tri_gpu_rtc_open_beside(const tri_gpu_rtc *rtc, const char *name);
/* Writes the path of the file `name` in the compiler's folder to `path`, or "" if it is missing. Returns path. */
const char *tri_gpu_rtc_beside(const tri_gpu_rtc *rtc, const char *name, char path[TRI_PATH_BYTES]);

/* The part of the C library's header that kernels need; the header itself is not available at run time. LONG is the
 * 64-bit type and L the suffix of its literals. */
#define TRI_GPU_RTC_STDINT_TEXT(LONG, L)                                                                               \
  "#ifndef TRI_STDINT_H\n"                                                                                             \
  "#define TRI_STDINT_H\n"                                                                                             \
  "typedef signed char int8_t;\n"                                                                                      \
  "typedef unsigned char uint8_t;\n"                                                                                   \
  "typedef short int16_t;\n"                                                                                           \
  "typedef unsigned short uint16_t;\n"                                                                                 \
  "typedef int int32_t;\n"                                                                                             \
  "typedef unsigned int uint32_t;\n"                                                                                   \
  "typedef " LONG                                                                                                      \
  " int64_t;\n"                                                                                                        \
  "typedef unsigned " LONG                                                                                             \
  " uint64_t;\n"                                                                                                       \
  "typedef " LONG                                                                                                      \
  " intptr_t;\n"                                                                                                       \
  "typedef unsigned " LONG                                                                                             \
  " uintptr_t;\n"                                                                                                      \
  "#define INT32_MAX 2147483647\n"                                                                                     \
  "#define INT32_MIN (-2147483647 - 1)\n"                                                                              \
  "#define UINT32_MAX 4294967295u\n"                                                                                   \
  "#define INT64_MAX 9223372036854775807" L                                                                            \
  "\n"                                                                                                                 \
  "#define INT64_MIN (-9223372036854775807" L                                                                          \
  " - 1)\n"                                                                                                            \
  "#define UINT64_MAX 18446744073709551615u" L                                                                         \
  "\n"                                                                                                                 \
  "#define INT64_C(x) x##" L                                                                                           \
  "\n"                                                                                                                 \
  "#define UINT64_C(x) x##u" L                                                                                         \
  "\n"                                                                                                                 \
  "#endif\n"

enum { TRI_GPU_MOST_TEXTS = 128 };

/* The source to compile, and all other sources of this program as its headers, and a <stdint.h>: the C library's is not
 * available at run time. */
typedef struct tri_gpu_texts {
  const char *own;
  int count;
  const char *names[TRI_GPU_MOST_TEXTS], *texts[TRI_GPU_MOST_TEXTS];
} tri_gpu_texts;

tri_status tri_gpu_texts_gather(const char *name, const char *stdint_text, tri_gpu_texts *out);

/* Returns whether `chip` is in a list as returned by tri_gpu_compiler.chips. */
bool tri_gpu_chip_is_listed(const char *chips, const char *chip);

#endif
