/* hipRTC's functions and numbers that are used here, and those of the code object manager (comgr) that it works with:
 * what hip/hiprtc.h and amd_comgr.h say, in words of our own. */
#ifndef TRI_DEVICE_GPU_HIPRTC_CALLS_H
#define TRI_DEVICE_GPU_HIPRTC_CALLS_H

#include <stddef.h>

typedef struct tri_hiprtc_program_object *tri_hiprtc_program;

/* Their enums are unsigned numbers to a C compiler. */
typedef unsigned tri_hiprtc_enum;

/* Every function returns one of these numbers, 0 for success. */
enum { TRI_HIPRTC_BUILTINS = 7, TRI_HIPRTC_COMPILATION = 6 };

typedef struct tri_hiprtc_calls {
  const char *(*error_text)(tri_hiprtc_enum error);
  tri_hiprtc_enum (*create)(tri_hiprtc_program *out, const char *text, const char *name, int num_headers,
                            const char **texts, const char **names);
  tri_hiprtc_enum (*destroy)(tri_hiprtc_program *program);
  tri_hiprtc_enum (*compile)(tri_hiprtc_program program, int num_options, const char **options);
  tri_hiprtc_enum (*binary_bytes)(tri_hiprtc_program program, size_t *out);
  tri_hiprtc_enum (*binary)(tri_hiprtc_program program, char *out);
  tri_hiprtc_enum (*log_bytes)(tri_hiprtc_program program, size_t *out);
  tri_hiprtc_enum (*log)(tri_hiprtc_program program, char *out);
} tri_hiprtc_calls;

/* C(FIELD, FUNCTION) for each: the library's own name. hiprtcVersion is not among them: it says 9.0 in all versions. */
#define TRI_HIPRTC_CALLS(C)                                                                                            \
  C(error_text, hiprtcGetErrorString)                                                                                  \
  C(create, hiprtcCreateProgram)                                                                                       \
  C(destroy, hiprtcDestroyProgram)                                                                                     \
  C(compile, hiprtcCompileProgram)                                                                                     \
  C(binary_bytes, hiprtcGetCodeSize)                                                                                   \
  C(binary, hiprtcGetCode)                                                                                             \
  C(log_bytes, hiprtcGetProgramLogSize)                                                                                \
  C(log, hiprtcGetProgramLog)

typedef struct tri_comgr_calls {
  void (*version)(size_t *major, size_t *minor);
  tri_hiprtc_enum (*num_chips)(size_t *out);
  tri_hiprtc_enum (*chip)(size_t index, const char **name); /* "amdgcn-amd-amdhsa--gfx90a" */
} tri_comgr_calls;

#define TRI_COMGR_CALLS(C)                                                                                             \
  C(version, amd_comgr_get_version)                                                                                    \
  C(num_chips, amd_comgr_get_isa_count)                                                                                \
  C(chip, amd_comgr_get_isa_name)

#endif
