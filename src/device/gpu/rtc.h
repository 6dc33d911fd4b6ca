/* What NVRTC and hipRTC have in common: a program of texts is created, compiled with options, and handed out. nvrtc.c
 * and hiprtc.c have what they differ in: where the library is, which chips it knows, its options, and how it tells what
 * a kernel needs. */
#ifndef TRI_DEVICE_GPU_RTC_H
#define TRI_DEVICE_GPU_RTC_H

#include "base/file.h"
#include "device/gpu/compiler.h"
#include "device/gpu/rtc_calls.h"

enum { TRI_GPU_RTC_MOST_OPTIONS = 8 };

/* One compilation, as `choose` sets it up. */
typedef struct tri_gpu_rtc_options {
  char doing[256]; /* for messages: "compile NAME for gfx90a and 32 bits" */
  char chip[32];   /* hipRTC's own: without the features that a driver adds to its name */
  char architecture[64], type[32], warp[32];
  const char *list[TRI_GPU_RTC_MOST_OPTIONS];
  int count;
  /* The calls that hand out what was compiled. */
  tri_gpu_rtc_enum (*output_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*output)(tri_gpu_rtc_program program, char *out);
} tri_gpu_rtc_options;

/* A compiler: what it has of its own, and what is known of it once it is open. */
typedef struct tri_gpu_rtc {
  const char *name; /* "NVRTC" */
  const char *stdint_text;
  const char *without_builtins; /* what a message adds where its builtins cannot be opened */
  const char *without_log;      /* and where compiling fails without a word; NULL: nothing of its own */
  tri_status (*choose)(const tri_gpu_compilation *what, tri_gpu_rtc_options *out);
  /* Looks at what was compiled, and adds to the log where what->show_resources. */
  tri_status (*examine)(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                        size_t bytes, char **log);

  tri_gpu_rtc_calls calls;
  const char *path;
  char version[192];
  char chips[2048]; /* all that it compiles for: "sm_89 sm_90a" */
  tri_saved_error fault;
} tri_gpu_rtc;

tri_status tri_gpu_rtc_compile(const tri_gpu_rtc *rtc, const tri_gpu_compilation *what, void **out, size_t *bytes,
                               char **log);

/* Opens a library that lies in the compiler's folder; false if there is none. The compiler opens its builtins by name
 * when it first compiles, and might find those of another version elsewhere: once they are open, it gets these. */
bool tri_gpu_rtc_open_beside(const tri_gpu_rtc *rtc, const char *name);
/* The file `name` in the compiler's folder, into path; or "" if it is missing. Returns path. */
const char *tri_gpu_rtc_beside(const tri_gpu_rtc *rtc, const char *name, char path[TRI_PATH_BYTES]);

/* What kernels need of the C library's header: there is none if a program compiles as it runs. LONG is the type of 64
 * bits and L the suffix of its numbers. */
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

#endif
