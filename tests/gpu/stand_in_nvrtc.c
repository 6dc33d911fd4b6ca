/* A stand-in for NVRTC (stand_in.h): it accepts the arguments of a real one, and compiles nothing. */
#include "device/gpu/rtc_calls.h"
#include "stand_in.h"

#include <stdbool.h>

enum { INVALID_INPUT = 3, INVALID_OPTION = 5 };

struct tri_gpu_rtc_program_object {
  stand_in_image image;
  char text[256], log[256];
};

static const int chips[] = {75, 80, 86, 89, 90, 100, 103, 110, 120, 121};
enum { NUM_CHIPS = sizeof chips / sizeof chips[0] };

#define DECLARE_COMMON(field, nvrtc, hiprtc)                                                                           \
  STAND_IN_EXPORT extern __typeof__(*((tri_gpu_rtc_calls *)NULL)->field) nvrtc;
TRI_GPU_RTC_CALLS(DECLARE_COMMON)
#define DECLARE(field, name) STAND_IN_EXPORT extern __typeof__(*((tri_nvrtc_calls *)NULL)->field) name;
TRI_NVRTC_CALLS(DECLARE)

const char *nvrtcGetErrorString(tri_gpu_rtc_enum error) {
  switch (error) {
    case TRI_GPU_RTC_COMPILATION: return "NVRTC_ERROR_COMPILATION";
    case TRI_GPU_RTC_BUILTINS: return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default: return "NVRTC_ERROR unknown";
  }
}

tri_gpu_rtc_enum nvrtcVersion(int *major, int *minor) {
  const int version = stand_in_version("nvrtc", 130);
  *major = version / 10;
  *minor = version % 10;
  return 0;
}

tri_gpu_rtc_enum nvrtcGetNumSupportedArchs(int *count) {
  *count = NUM_CHIPS;
  return 0;
}

tri_gpu_rtc_enum nvrtcGetSupportedArchs(int *out) {
  memcpy(out, chips, sizeof chips);
  return 0;
}

tri_gpu_rtc_enum nvrtcCreateProgram(tri_gpu_rtc_program *out, const char *text, const char *name, int num_headers,
                                    const char *const *texts, const char *const *names) {
  tri_gpu_rtc_program program = calloc(1, sizeof *program);
  if (program == NULL) return 1;
  if (sscanf(name, "device/gpu/kernels/%31[a-z].c", program->image.module) != 1 || strstr(text, "KERNEL(") == NULL ||
      !stand_in_headers(text, num_headers, texts, names, 0)) {
    free(program);
    return INVALID_INPUT;
  }
  *out = program;
  return 0;
}

tri_gpu_rtc_enum nvrtcDestroyProgram(tri_gpu_rtc_program *program) {
  free(*program);
  *program = NULL;
  return 0;
}

static bool knows(int chip) {
  for (int i = 0; i < NUM_CHIPS; i++) {
    if (chips[i] == chip) return true;
  }
  return false;
}

tri_gpu_rtc_enum nvrtcCompileProgram(tri_gpu_rtc_program program, int num_options, const char *const *options) {
  stand_in_image *image = &program->image;
  const int fails = (int)stand_in_number("nvrtc_fails", 0);
  for (int i = 0; i < num_options; i++) {
    if (sscanf(options[i], "-DTRI_GPU_TYPE=%d", &image->bits) == 1) continue;
    if (sscanf(options[i], "--gpu-architecture=compute_%d", &image->chip) == 1) continue;
    if (sscanf(options[i], "--gpu-architecture=sm_%d", &image->chip) == 1) image->binary = 1;
  }
  if (!knows(image->chip) || (image->bits != 64 && image->bits != 32 && image->bits != 16)) return INVALID_OPTION;
  if (fails != 0) {
    snprintf(program->log, sizeof program->log, "%s.c(1): error: told to fail", image->module);
    return fails;
  }
  const int chip = (int)stand_in_number("nvrtc_chip", image->chip);
  snprintf(program->text, sizeof program->text, STAND_IN_IMAGE, image->module, image->bits, chip, image->binary,
           stand_in_version("nvrtc", 130));
  return 0;
}

tri_gpu_rtc_enum nvrtcGetPTXSize(tri_gpu_rtc_program program, size_t *out) {
  *out = strlen(program->text) + 1;
  return 0;
}

tri_gpu_rtc_enum nvrtcGetPTX(tri_gpu_rtc_program program, char *out) {
  memcpy(out, program->text, strlen(program->text) + 1);
  return 0;
}

/* Returns 0 if the program was compiled to text. */
tri_gpu_rtc_enum nvrtcGetCUBINSize(tri_gpu_rtc_program program, size_t *out) {
  *out = program->image.binary ? strlen(program->text) + 1 : 0;
  return 0;
}

tri_gpu_rtc_enum nvrtcGetCUBIN(tri_gpu_rtc_program program, char *out) { return nvrtcGetPTX(program, out); }

tri_gpu_rtc_enum nvrtcGetProgramLogSize(tri_gpu_rtc_program program, size_t *out) {
  *out = strlen(program->log) + 1;
  return 0;
}

tri_gpu_rtc_enum nvrtcGetProgramLog(tri_gpu_rtc_program program, char *out) {
  memcpy(out, program->log, strlen(program->log) + 1);
  return 0;
}
