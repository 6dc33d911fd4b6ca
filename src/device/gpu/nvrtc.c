/* NVIDIA's run-time compiler, with prototypes of our own (nvrtc.h of the CUDA toolkit says the same:
 * tests/gpu/prototypes_cuda.c compares). */
#include "base/memory.h"
#include "device/gpu/compiler.h"
#include "device/gpu/library.h"
#include "device/gpu/nvrtc_calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARCHITECTURES = 64, MOST_OPTIONS = 8, LOG_IN_MESSAGE = 1500 };

#define HOW_TO_GET                                                                                                     \
  "It comes with the CUDA toolkit (put its lib64 into LD_LIBRARY_PATH, or set CUDA_HOME) or with `pip install "        \
  "nvidia-cuda-nvrtc`"

/* ---- the library, opened once in a process ----------------------------------------------------------------------- */

typedef struct nvrtc_library {
  tri_nvrtc_calls calls;
  const char *path;
  char version[32];
  int major;
  int architectures[MOST_ARCHITECTURES], num_architectures; /* 90, 100, ... */
  char chips[MOST_ARCHITECTURES * 16];                      /* "sm_89 sm_90a": from 9.0 on as cuda.c names them */
  tri_saved_error fault;
} nvrtc_library;

/* All that a process ever knows of it: written once, by open_once. */
static nvrtc_library library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The compiler opens its builtins by name when it first compiles, and might find those of another version elsewhere:
 * once they are open, it gets these. If there are none beside it, it searches by itself. */
static void open_builtins(int major, int minor) {
  char path[4096];
  const char *slash = strrchr(library.path, '/');
  int folder = slash == NULL ? 0 : (int)(slash - library.path) + 1;
  int written = snprintf(path, sizeof path, "%.*slibnvrtc-builtins.so.%d.%d", folder, library.path, major, minor);
  if (folder > 0 && written < (int)sizeof path) (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static tri_status find_library(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
  static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-1[23]*/lib64", NULL};
  static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", NULL};
  static const tri_gpu_symbol symbols[] = {
#define SYMBOL(field, symbol) TRI_GPU_SYMBOL(tri_nvrtc_calls, field, #symbol),
      TRI_NVRTC_CALLS(SYMBOL){NULL, 0, false}};
#undef SYMBOL
  static const tri_gpu_library what = {.what = "NVIDIA's run-time compiler (NVRTC)",
                                       .how = HOW_TO_GET,
                                       .names = names,
                                       .folders = folders,
                                       .wheels = wheels,
                                       .symbols = symbols};
  return tri_gpu_library_open(&what, &library.calls, &library.path);
}

static tri_status ask_library(void) {
  int major = 0, minor = 0, count = 0;
  if (library.calls.version(&major, &minor) != 0 || (major != 12 && major != 13)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is version %d.%d of NVIDIA's run-time compiler; this program knows 12 and 13. %s", library.path,
                    major, minor, HOW_TO_GET);
  }
  library.major = major;
  snprintf(library.version, sizeof library.version, "%d.%d", major, minor);
  if (library.calls.num_architectures(&count) != 0 || count < 1 || count > MOST_ARCHITECTURES ||
      library.calls.architectures(library.architectures) != 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s (NVRTC %s) does not say for which chips it compiles. %s", library.path,
                    library.version, HOW_TO_GET);
  }
  library.num_architectures = count;
  for (int i = 0, used = 0; i < count; i++) {
    const int chip = library.architectures[i];
    used += snprintf(library.chips + used, sizeof library.chips - (size_t)used, "%ssm_%d%s", i == 0 ? "" : " ", chip,
                     chip >= 90 ? "a" : "");
  }
  open_builtins(major, minor);
  return TRI_OK;
}

static void open_once(void) {
  tri_status status = find_library();
  if (status == TRI_OK) status = ask_library();
  tri_error_save(&library.fault, status);
}

static tri_status nvrtc_open(void) {
  pthread_once(&once, open_once);
  return tri_saved_error_restore(&library.fault);
}

static const char *nvrtc_version(void) { return library.version; }
static const char *nvrtc_path(void) { return library.path; }
static const char *nvrtc_chips(void) { return library.chips; }

/* ---- what to compile for ----------------------------------------------------------------------------------------- */

/* The number of "sm_90a", 90; 0 for other names. */
static int chip_of(const char *architecture, const char **suffix) {
  char *end = NULL;
  if (strncmp(architecture, "sm_", 3) != 0) return 0;
  long chip = strtol(architecture + 3, &end, 10);
  if (chip < 10 || chip > 9999 || strlen(end) > 1) return 0;
  *suffix = end;
  return (int)chip;
}

static bool nvrtc_takes(const char *architecture) {
  const char *suffix = "";
  return chip_of(architecture, &suffix) != 0;
}

/* A chip that is newer than the compiler takes the text (PTX) for the newest that the compiler knows, which its driver
 * translates: then *is_text. */
static tri_status choose_architecture(const char *architecture, char option[64], bool *is_text) {
  const char *suffix = "";
  const int chip = chip_of(architecture, &suffix);
  int below = 0, least = library.architectures[0];
  for (int i = 0; i < library.num_architectures; i++) {
    const int known = library.architectures[i];
    if (known <= chip && known > below) below = known;
    if (known < least) least = known;
  }
  if (chip == 0) return tri_fail(TRI_UNSUPPORTED, "`%s` is not a chip of NVIDIA's", architecture);
  if (below == 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "NVRTC %s (%s) compiles for sm_%d and newer, not for %s: this GPU needs an older compiler%s",
                    library.version, library.path, least, architecture,
                    library.major > 12 ? ", as `pip install nvidia-cuda-nvrtc-cu12` gives one" : "");
  }
  *is_text = below != chip;
  if (*is_text) {
    snprintf(option, 64, "--gpu-architecture=compute_%d", below);
  } else {
    snprintf(option, 64, "--gpu-architecture=sm_%d%s", chip, suffix);
  }
  return TRI_OK;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

/* What kernels need of the C library's header: there is none if a program compiles as it runs. */
#define STDINT_TEXT                                                                                                    \
  "#ifndef TRI_STDINT_H\n"                                                                                             \
  "#define TRI_STDINT_H\n"                                                                                             \
  "typedef signed char int8_t;\n"                                                                                      \
  "typedef unsigned char uint8_t;\n"                                                                                   \
  "typedef short int16_t;\n"                                                                                           \
  "typedef unsigned short uint16_t;\n"                                                                                 \
  "typedef int int32_t;\n"                                                                                             \
  "typedef unsigned int uint32_t;\n"                                                                                   \
  "typedef long int64_t;\n"                                                                                            \
  "typedef unsigned long uint64_t;\n"                                                                                  \
  "typedef long intptr_t;\n"                                                                                           \
  "typedef unsigned long uintptr_t;\n"                                                                                 \
  "#define INT32_MAX 2147483647\n"                                                                                     \
  "#define INT32_MIN (-2147483647 - 1)\n"                                                                              \
  "#define UINT32_MAX 4294967295u\n"                                                                                   \
  "#define INT64_MAX 9223372036854775807l\n"                                                                           \
  "#define INT64_MIN (-9223372036854775807l - 1)\n"                                                                    \
  "#define UINT64_MAX 18446744073709551615ul\n"                                                                        \
  "#define INT64_C(x) x##l\n"                                                                                          \
  "#define UINT64_C(x) x##ul\n"                                                                                        \
  "#endif\n"

static tri_status refused(const char *what, int error) {
  return tri_fail(TRI_UNSUPPORTED, "NVRTC %s (%s) does not %s: %s%s", library.version, library.path, what,
                  library.calls.error_text(error),
                  error == TRI_NVRTC_BUILTINS
                      ? "; the libnvrtc-builtins of its version, which belongs beside it, is missing or damaged"
                      : "");
}

static tri_status create_program(const char *name, tri_nvrtc_program *out) {
  tri_gpu_texts all;
  TRI_TRY(tri_gpu_texts_gather(name, STDINT_TEXT, &all));
  int error = library.calls.create(out, all.own, name, all.count, all.texts, all.names);
  return error == 0 ? TRI_OK : refused("begin", error);
}

static tri_status take_log(tri_nvrtc_program program, char **out) {
  size_t bytes = 0;
  if (library.calls.log_bytes(program, &bytes) != 0) bytes = 0;
  TRI_TRY(tri_alloc("a compiler's messages", bytes + 1, 1, out));
  if (bytes > 0 && library.calls.log(program, *out) != 0) (*out)[0] = '\0';
  return TRI_OK;
}

/* ---- what a kernel needs ------------------------------------------------------------------------------------------
 */

typedef struct resources {
  char kernel[64];
  int registers;
  size_t shared_bytes, own_bytes;
  bool of_kernel; /* what follows is about the kernel, and not about a function that it calls */
} resources;

/* The number in front of " bytes smem" and such; 0 if there is none. */
static size_t number_before(const char *line, const char *what) {
  const char *at = strstr(line, what);
  if (at == NULL) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return strtoull(at, NULL, 10);
}

/* Reads a line of the assembler's; true if it is the last about a kernel. */
static bool read_resources(const char *line, resources *r) {
  char name[64];
  const char *used = strstr(line, ": Used ");
  if (strstr(line, "Compiling entry function '") != NULL) {
    *r = (resources){.kernel = ""};
    (void)sscanf(strchr(line, '\''), "'%63[^']", r->kernel);
  } else if (sscanf(line, "ptxas info : Function properties for %63s", name) == 1) {
    r->of_kernel = strcmp(name, r->kernel) == 0;
  } else if (r->of_kernel && strstr(line, " bytes stack frame") != NULL) {
    r->own_bytes = number_before(line, " bytes stack frame");
  } else if (used != NULL && r->kernel[0] != '\0') {
    r->registers = atoi(used + strlen(": Used "));
    r->shared_bytes = number_before(line, " bytes smem");
    return true;
  }
  return false;
}

/* The assembler tells each kernel's resources in several lines, in words that differ by version: *log becomes all other
 * lines, and one for each kernel. */
static tri_status tell_resources(char **log) {
  const size_t room = 2 * strlen(*log) + 1; /* a kernel's own lines are longer */
  char *out = NULL, *rest = *log;
  size_t used = 0;
  resources r = {.kernel = ""};
  TRI_TRY(tri_alloc("a compiler's messages", room, 1, &out));
  for (char *line = strtok_r(*log, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
    int put = 0;
    if (read_resources(line, &r)) {
      put =
          snprintf(out + used, room - used, "kernel %s: %d registers, %zu bytes of shared memory, %zu bytes spilled\n",
                   r.kernel, r.registers, r.shared_bytes, r.own_bytes);
    } else if (strncmp(line, "ptxas info", 10) != 0 && strstr(line, " bytes stack frame") == NULL) {
      put = snprintf(out + used, room - used, "%s\n", line);
    }
    used += (size_t)put;
    if (used >= room) used = room - 1;
  }
  tri_free(*log);
  *log = out;
  return TRI_OK;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

static tri_status take_image(tri_nvrtc_program program, bool is_text, void **out, size_t *out_bytes) {
  size_t bytes = 0;
  void *image = NULL;
  int error = is_text ? library.calls.text_bytes(program, &bytes) : library.calls.binary_bytes(program, &bytes);
  if (error != 0 || bytes == 0) return refused("say how large its output is", error);
  TRI_TRY(tri_alloc("compiled kernels", bytes, 1, &image));
  error = is_text ? library.calls.text(program, image) : library.calls.binary(program, image);
  if (error != 0) {
    tri_free(image);
    return refused("hand out what it compiled", error);
  }
  *out = image;
  *out_bytes = bytes;
  return TRI_OK;
}

/* Sums and products are not fused by themselves, as on the CPU: kernels say where they want that. */
#define LANGUAGE "--std=c++17"
#define NO_FUSING "--fmad=false"

static tri_status compile_program(tri_nvrtc_program program, const tri_gpu_compilation *what, const char *architecture,
                                  char **log) {
  char type[32];
  const char *options[MOST_OPTIONS] = {architecture, type, LANGUAGE, NO_FUSING};
  int count = 4;
  snprintf(type, sizeof type, "-DTRI_GPU_TYPE=%d", what->type_bits);
  if (what->show_resources) options[count++] = "--ptxas-options=-v";
  const int error = library.calls.compile(program, count, options);
  TRI_TRY(take_log(program, log));
  if (error == 0) return TRI_OK;
  char text[256];
  snprintf(text, sizeof text, "compile %s with %s for %d bits", what->source, architecture, what->type_bits);
  if (error != TRI_NVRTC_COMPILATION) return refused(text, error);
  return tri_fail(TRI_UNSUPPORTED,
                  "NVRTC %s (%s) does not %s: a mistake of this program's, or of that version: another version of the "
                  "compiler may help. It says: %.*s",
                  library.version, library.path, text, LOG_IN_MESSAGE, *log);
}

static tri_status compile_and_take(tri_nvrtc_program program, const tri_gpu_compilation *what, void **out,
                                   size_t *bytes, char **log) {
  char architecture[64];
  bool is_text = false;
  TRI_TRY(choose_architecture(what->architecture, architecture, &is_text));
  TRI_TRY(compile_program(program, what, architecture, log));
  if (what->show_resources) TRI_TRY(tell_resources(log));
  return take_image(program, is_text, out, bytes);
}

static tri_status nvrtc_compile(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log) {
  tri_nvrtc_program program = NULL;
  char *said = NULL;
  TRI_TRY(nvrtc_open());
  TRI_TRY(create_program(what->source, &program));
  tri_status status = compile_and_take(program, what, out, bytes, &said);
  (void)library.calls.destroy(&program);
  if (status != TRI_OK) {
    tri_free(said);
    return status;
  }
  *log = said;
  return TRI_OK;
}

const tri_gpu_compiler tri_gpu_nvrtc = {
    .name = "NVRTC",
    .options = LANGUAGE " " NO_FUSING "\n" STDINT_TEXT,
    .takes = nvrtc_takes,
    .open = nvrtc_open,
    .version = nvrtc_version,
    .path = nvrtc_path,
    .chips = nvrtc_chips,
    .compile = nvrtc_compile,
};
