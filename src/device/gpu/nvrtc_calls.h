/* NVRTC's functions and numbers that are used here: what nvrtc.h of a CUDA toolkit says, in words of our own. */
#ifndef TRI_DEVICE_GPU_NVRTC_CALLS_H
#define TRI_DEVICE_GPU_NVRTC_CALLS_H

#include <stddef.h>

typedef struct tri_nvrtc_program_object *tri_nvrtc_program;

typedef unsigned tri_nvrtc_enum; /* one of theirs, without values below 0 */

/* Every function returns one of these numbers, 0 for success. */
enum { TRI_NVRTC_COMPILATION = 6, TRI_NVRTC_BUILTINS = 7 };

typedef struct tri_nvrtc_calls {
  const char *(*error_text)(tri_nvrtc_enum error);
  tri_nvrtc_enum (*version)(int *major, int *minor);
  tri_nvrtc_enum (*num_architectures)(int *count);
  tri_nvrtc_enum (*architectures)(int *out);
  tri_nvrtc_enum (*create)(tri_nvrtc_program *out, const char *text, const char *name, int num_headers,
                           const char *const *texts, const char *const *names);
  tri_nvrtc_enum (*destroy)(tri_nvrtc_program *program);
  tri_nvrtc_enum (*compile)(tri_nvrtc_program program, int num_options, const char *const *options);
  tri_nvrtc_enum (*text_bytes)(tri_nvrtc_program program, size_t *out);
  tri_nvrtc_enum (*text)(tri_nvrtc_program program, char *out);
  tri_nvrtc_enum (*binary_bytes)(tri_nvrtc_program program, size_t *out);
  tri_nvrtc_enum (*binary)(tri_nvrtc_program program, char *out);
  tri_nvrtc_enum (*log_bytes)(tri_nvrtc_program program, size_t *out);
  tri_nvrtc_enum (*log)(tri_nvrtc_program program, char *out);
} tri_nvrtc_calls;

/* C(FIELD, NAME) for each: the library's own name. */
#define TRI_NVRTC_CALLS(C)                                                                                             \
  C(error_text, nvrtcGetErrorString)                                                                                   \
  C(version, nvrtcVersion)                                                                                             \
  C(num_architectures, nvrtcGetNumSupportedArchs)                                                                      \
  C(architectures, nvrtcGetSupportedArchs)                                                                             \
  C(create, nvrtcCreateProgram)                                                                                        \
  C(destroy, nvrtcDestroyProgram)                                                                                      \
  C(compile, nvrtcCompileProgram)                                                                                      \
  C(text_bytes, nvrtcGetPTXSize)                                                                                       \
  C(text, nvrtcGetPTX)                                                                                                 \
  C(binary_bytes, nvrtcGetCUBINSize)                                                                                   \
  C(binary, nvrtcGetCUBIN)                                                                                             \
  C(log_bytes, nvrtcGetProgramLogSize)                                                                                 \
  C(log, nvrtcGetProgramLog)

#endif
