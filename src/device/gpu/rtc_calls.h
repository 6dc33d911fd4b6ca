/* The functions and numbers of the vendors' run-time compilers that this program uses, as in nvrtc.h of a CUDA toolkit,
 * hip/hiprtc.h and amd_comgr.h, declared here (tests/gpu/prototypes_cuda.c and prototypes_hip.c compare). */
#ifndef TRI_DEVICE_GPU_RTC_CALLS_H
#define TRI_DEVICE_GPU_RTC_CALLS_H

#include <stddef.h>

typedef struct tri_gpu_rtc_program_object *tri_gpu_rtc_program;

typedef unsigned tri_gpu_rtc_enum; /* an enum of the compilers; no value is below 0 */

/* Return values of the functions, in addition to 0 for success and other errors. */
enum { TRI_GPU_RTC_COMPILATION = 6, TRI_GPU_RTC_BUILTINS = 7 };

/* The functions that both compilers have. Some versions of hipRTC declare lists of texts with one `const` less. */
typedef struct tri_gpu_rtc_calls {
  const char *(*error_text)(tri_gpu_rtc_enum error);
  tri_gpu_rtc_enum (*create)(tri_gpu_rtc_program *out, const char *text, const char *name, int num_headers,
                             const char *const *texts, const char *const *names);
  tri_gpu_rtc_enum (*destroy)(tri_gpu_rtc_program *program);
  tri_gpu_rtc_enum (*compile)(tri_gpu_rtc_program program, int num_options, const char *const *options);
  tri_gpu_rtc_enum (*binary_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*binary)(tri_gpu_rtc_program program, char *out);
  tri_gpu_rtc_enum (*log_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*log)(tri_gpu_rtc_program program, char *out);
} tri_gpu_rtc_calls;

/* Expands to C(FIELD, NVRTC, HIPRTC) for each function, with its names in both libraries. hiprtcVersion is not used: it
 * returns 9.0 in all versions. */
#define TRI_GPU_RTC_CALLS(C)                                                                                           \
  C(error_text, nvrtcGetErrorString, hiprtcGetErrorString)                                                             \
  C(create, nvrtcCreateProgram, hiprtcCreateProgram)                                                                   \
  C(destroy, nvrtcDestroyProgram, hiprtcDestroyProgram)                                                                \
  C(compile, nvrtcCompileProgram, hiprtcCompileProgram)                                                                \
  C(binary_bytes, nvrtcGetCUBINSize, hiprtcGetCodeSize)                                                                \
  C(binary, nvrtcGetCUBIN, hiprtcGetCode)                                                                              \
  C(log_bytes, nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)                                                        \
  C(log, nvrtcGetProgramLog, hiprtcGetProgramLog)

/* The functions that only NVRTC has. */
typedef struct tri_nvrtc_calls {
  tri_gpu_rtc_enum (*version)(int *major, int *minor);
  tri_gpu_rtc_enum (*num_architectures)(int *count);
  tri_gpu_rtc_enum (*architectures)(int *out);
  tri_gpu_rtc_enum (*text_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*text)(tri_gpu_rtc_program program, char *out);
} tri_nvrtc_calls;

#define TRI_NVRTC_CALLS(C)                                                                                             \
  C(version, nvrtcVersion)                                                                                             \
  C(num_architectures, nvrtcGetNumSupportedArchs)                                                                      \
  C(architectures, nvrtcGetSupportedArchs)                                                                             \
  C(text_bytes, nvrtcGetPTXSize)                                                                                       \
  C(text, nvrtcGetPTX)

/* The code object manager (comgr), which hipRTC uses. */
typedef struct tri_comgr_calls {
  void (*version)(size_t *major, size_t *minor);
  tri_gpu_rtc_enum (*num_chips)(size_t *out);
  tri_gpu_rtc_enum (*chip)(size_t index, const char **name); /* "amdgcn-amd-amdhsa--gfx90a" */
} tri_comgr_calls;

#define TRI_COMGR_CALLS(C)                                                                                             \
  C(version, amd_comgr_get_version)                                                                                    \
  C(num_chips, amd_comgr_get_isa_count)                                                                                \
  C(chip, amd_comgr_get_isa_name)

#endif
