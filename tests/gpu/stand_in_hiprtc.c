/* A stand-in for hipRTC and comgr (stand_in.h): it accepts the arguments of real ones, and makes code objects that have
 * a note of the kernels, but no code. Like Debian's, it ends the process if a chip is requested that comgr does not
 * list.
 *
 *   hiprtc_fails=CODE     compiling fails with CODE; hiprtc_says=0: and has no message
 *   hiprtc_warp=32        the warp size in its notes
 *   hiprtc_chip=gfx908    the chip that it compiles for, whatever the request is */
#include "device/gpu/kernel_list.h"
#include "device/gpu/rtc_calls.h"
#include "stand_in.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>

enum { INVALID_INPUT = 3, INVALID_OPTION = 5, MOST_BYTES = 16384 };

static const char *const known[] = {"gfx908", "gfx90a", "gfx1030"};
enum { NUM_KNOWN = sizeof known / sizeof known[0] };

struct tri_gpu_rtc_program_object {
  stand_in_image image;
  char chip[32], log[256];
  unsigned char code[MOST_BYTES];
  size_t bytes;
};

#define DECLARE_COMMON(field, nvrtc, hiprtc)                                                                           \
  STAND_IN_EXPORT extern __typeof__(*((tri_gpu_rtc_calls *)NULL)->field) hiprtc;
TRI_GPU_RTC_CALLS(DECLARE_COMMON)
#define DECLARE(field, name) STAND_IN_EXPORT extern __typeof__(*((tri_comgr_calls *)NULL)->field) name;
TRI_COMGR_CALLS(DECLARE)

/* ---- comgr ------------------------------------------------------------------------------------------------------- */

void amd_comgr_get_version(size_t *major, size_t *minor) {
  *major = 3;
  *minor = 0;
}

tri_gpu_rtc_enum amd_comgr_get_isa_count(size_t *out) {
  *out = NUM_KNOWN;
  return 0;
}

tri_gpu_rtc_enum amd_comgr_get_isa_name(size_t index, const char **name) {
  static char text[NUM_KNOWN][64];
  if (index >= NUM_KNOWN) return 1;
  snprintf(text[index], sizeof text[index], "amdgcn-amd-amdhsa--%s", known[index]);
  *name = text[index];
  return 0;
}

/* ---- a code object ----------------------------------------------------------------------------------------------- */

static void put(tri_gpu_rtc_program program, const void *bytes, size_t count) {
  if (count > sizeof program->code - program->bytes) abort();
  memcpy(program->code + program->bytes, bytes, count);
  program->bytes += count;
}

static void write_byte(tri_gpu_rtc_program program, unsigned byte) {
  const unsigned char one = (unsigned char)byte;
  put(program, &one, 1);
}

/* MessagePack: texts below 32 bytes, numbers of 32 bits. */
static void write_text(tri_gpu_rtc_program program, const char *text) {
  write_byte(program, 0xa0 | (unsigned)strlen(text));
  put(program, text, strlen(text));
}

static void write_entry(tri_gpu_rtc_program program, const char *key, uint32_t number) {
  write_text(program, key);
  write_byte(program, 0xce);
  for (int shift = 24; shift >= 0; shift -= 8) write_byte(program, number >> shift & 255);
}

static void write_kernel(tri_gpu_rtc_program program, const char *name, uint32_t threads) {
  write_byte(program, 0x85);
  write_text(program, ".name");
  write_text(program, name);
  write_entry(program, ".vgpr_count", 1);
  write_entry(program, ".wavefront_size", (uint32_t)stand_in_number("hiprtc_warp", 64));
  write_entry(program, ".max_flat_workgroup_size", threads);
  write_entry(program, ".private_segment_fixed_size", 0);
}

/* Writes the note of the kernels of all modules, since the difference does not matter here. */
static void write_note(tri_gpu_rtc_program program) {
  write_byte(program, 0x81);
  write_text(program, "amdhsa.kernels");
  write_byte(program, 0xdc);
  write_byte(program, TRI_GPU_NUM_KERNELS >> 8);
  write_byte(program, TRI_GPU_NUM_KERNELS & 255);
#define PUT(name, threads) write_kernel(program, #name, threads);
  TRI_GPU_KERNELS(PUT)
}

static void make_code(tri_gpu_rtc_program program) {
  Elf64_Ehdr file = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64}, .e_phoff = sizeof file};
  Elf64_Phdr part = {.p_type = PT_NOTE, .p_offset = sizeof file + sizeof part};
  Elf64_Nhdr note = {.n_namesz = sizeof "AMDGPU", .n_type = 32};
  char text[256], chip[32];
  const char *other = stand_in_word("hiprtc_chip");
  snprintf(chip, sizeof chip, "%.*s", other == NULL ? 31 : (int)strcspn(other, ","),
           other == NULL ? program->chip : other);
  file.e_phentsize = sizeof part;
  file.e_phnum = 1;
  program->bytes = part.p_offset + sizeof note + 8;
  write_note(program);
  note.n_descsz = (uint32_t)(program->bytes - part.p_offset - sizeof note - 8);
  part.p_filesz = program->bytes - part.p_offset;
  file.e_entry = program->bytes;
  put(program, chip, strlen(chip) + 1);
  snprintf(text, sizeof text, STAND_IN_IMAGE, program->image.module, program->image.bits, 90, 1, 130);
  put(program, text, strlen(text) + 1);
  memcpy(program->code, &file, sizeof file);
  memcpy(program->code + sizeof file, &part, sizeof part);
  memcpy(program->code + part.p_offset, &note, sizeof note);
  memcpy(program->code + part.p_offset + sizeof note, "AMDGPU", 7);
}

/* ---- hipRTC ------------------------------------------------------------------------------------------------------ */

const char *hiprtcGetErrorString(tri_gpu_rtc_enum error) {
  switch (error) {
    case TRI_GPU_RTC_COMPILATION: return "HIPRTC_ERROR_COMPILATION";
    case TRI_GPU_RTC_BUILTINS: return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default: return "HIPRTC_ERROR unknown";
  }
}

tri_gpu_rtc_enum hiprtcCreateProgram(tri_gpu_rtc_program *out, const char *text, const char *name, int num_headers,
                                     const char *const *texts, const char *const *names) {
  tri_gpu_rtc_program program = calloc(1, sizeof *program);
  if (program == NULL) return 1;
  if (sscanf(name, "device/gpu/kernels/%31[a-z].c", program->image.module) != 1 || strstr(text, "KERNEL(") == NULL ||
      !stand_in_headers(text, num_headers, (const char *const *)texts, (const char *const *)names, 0)) {
    free(program);
    return INVALID_INPUT;
  }
  *out = program;
  return 0;
}

tri_gpu_rtc_enum hiprtcDestroyProgram(tri_gpu_rtc_program *program) {
  free(*program);
  *program = NULL;
  return 0;
}

static bool knows(const char *chip) {
  for (int i = 0; i < NUM_KNOWN; i++) {
    if (strcmp(known[i], chip) == 0) return true;
  }
  return false;
}

tri_gpu_rtc_enum hiprtcCompileProgram(tri_gpu_rtc_program program, int num_options, const char *const *options) {
  stand_in_image *image = &program->image;
  const int fails = (int)stand_in_number("hiprtc_fails", 0);
  int warp = 0;
  for (int i = 0; i < num_options; i++) {
    (void)sscanf(options[i], "-DTRI_GPU_TYPE=%d", &image->bits);
    (void)sscanf(options[i], "-DTRI_GPU_WARP=%d", &warp);
    (void)sscanf(options[i], "--offload-arch=%31s", program->chip);
  }
  if (!knows(program->chip)) abort();
  if (warp != (strcmp(program->chip, "gfx1030") == 0 ? 32 : 64) ||
      (image->bits != 64 && image->bits != 32 && image->bits != 16)) {
    return INVALID_OPTION;
  }
  if (fails == 0) {
    make_code(program);
  } else if (stand_in_number("hiprtc_says", 1) != 0) {
    snprintf(program->log, sizeof program->log, "%s.c:1: error: told to fail", image->module);
  }
  return fails;
}

tri_gpu_rtc_enum hiprtcGetCodeSize(tri_gpu_rtc_program program, size_t *out) {
  *out = program->bytes;
  return 0;
}

tri_gpu_rtc_enum hiprtcGetCode(tri_gpu_rtc_program program, char *out) {
  memcpy(out, program->code, program->bytes);
  return 0;
}

tri_gpu_rtc_enum hiprtcGetProgramLogSize(tri_gpu_rtc_program program, size_t *out) {
  *out = strlen(program->log) + 1;
  return 0;
}

tri_gpu_rtc_enum hiprtcGetProgramLog(tri_gpu_rtc_program program, char *out) {
  memcpy(out, program->log, strlen(program->log) + 1);
  return 0;
}
