/* AMD's run-time compiler, with prototypes of our own (tests/gpu/prototypes_hip.c compares).
 *
 * Old versions of it end the process where they are asked for a chip that they do not know. So its code object manager
 * is asked first, which has a list of them. */
#include "base/file.h"
#include "base/memory.h"
#include "device/gpu/code_object.h"
#include "device/gpu/compiler.h"
#include "device/gpu/hip_library.h"
#include "device/gpu/hiprtc_calls.h"
#include "device/gpu/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_OPTIONS = 10, LOG_IN_MESSAGE = 1500, VERSION_BYTES = 192, CHIP_BYTES = 32 };

#define HOW_TO_GET                                                                                                     \
  "It comes with ROCm (put its lib into LD_LIBRARY_PATH, or set ROCM_PATH); Debian has it in libamdhip64-5 and "       \
  "libhiprtc-builtins5"

/* ---- the libraries, opened once in a process --------------------------------------------------------------------- */

typedef struct hiprtc_library {
  tri_hiprtc_calls calls;
  tri_comgr_calls manager;
  const char *path, *manager_path;
  char version[VERSION_BYTES];
  char chips[2048]; /* all that it compiles for: "gfx900 gfx906" */
  tri_saved_error fault;
} hiprtc_library;

/* All that a process ever knows of it: written once, by open_once. */
static hiprtc_library library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tri_status find_compiler(void) {
  /* A library of its own since ROCm 5.4, before that a part of the run-time library. */
  static const char *const names[] = {"libhiprtc.so.7", "libhiprtc.so.6",   "libhiprtc.so.5",
                                      "libhiprtc.so",   "libamdhip64.so.5", NULL};
#define SYMBOL(field, function) TRI_GPU_SYMBOL(tri_hiprtc_calls, field, #function),
  static const tri_gpu_symbol symbols[] = {TRI_HIPRTC_CALLS(SYMBOL){NULL, 0, false}};
#undef SYMBOL
  static const tri_gpu_library what = {.what = "AMD's run-time compiler (hipRTC)",
                                       .how = HOW_TO_GET,
                                       .names = names,
                                       .folders = tri_hip_folders,
                                       .wheels = tri_hip_wheels,
                                       .symbols = symbols};
  return tri_gpu_library_open(&what, &library.calls, &library.path);
}

/* The file `name` in the folder of the compiler, into path; or "" if it is missing. */
static const char *beside(const char *name, char path[TRI_PATH_BYTES]) {
  const char *slash = strrchr(library.path, '/');
  int written =
      snprintf(path, TRI_PATH_BYTES, "%.*s%s", slash == NULL ? 0 : (int)(slash + 1 - library.path), library.path, name);
  if (slash == NULL || written >= TRI_PATH_BYTES || access(path, F_OK) != 0) path[0] = '\0';
  return path;
}

/* The compiler opens these by name when it first compiles, and might find those of another version elsewhere: once they
 * are open, it gets these. */
static void open_builtins(void) {
  static const char *const names[] = {"libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6", "libhiprtc-builtins.so.5",
                                      "libhiprtc-builtins.so", NULL};
  char path[TRI_PATH_BYTES];
  for (const char *const *name = names; *name != NULL; name++) {
    if (beside(*name, path)[0] != '\0' && dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL) return;
  }
}

/* That of the compiler's own folder, if there is one. */
static tri_status find_manager(void) {
  static const char *const usual[] = {"libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so", NULL};
#define SYMBOL(field, function) TRI_GPU_SYMBOL(tri_comgr_calls, field, #function),
  static const tri_gpu_symbol symbols[] = {TRI_COMGR_CALLS(SYMBOL){NULL, 0, false}};
#undef SYMBOL
  const char *names[5] = {NULL};
  char path[TRI_PATH_BYTES] = "";
  int count = 0;
  for (int i = 0; usual[i] != NULL && path[0] == '\0'; i++) names[0] = beside(usual[i], path);
  if (path[0] != '\0') count = 1;
  for (int i = 0; usual[i] != NULL; i++) names[count++] = usual[i];
  const tri_gpu_library what = {.what = "AMD's code object manager (comgr), which hipRTC works with,",
                                .how = "It comes with ROCm, beside hipRTC; Debian has it in libamd-comgr2",
                                .names = names,
                                .folders = tri_hip_folders,
                                .wheels = tri_hip_wheels,
                                .symbols = symbols};
  return tri_gpu_library_open(&what, &library.manager, &library.manager_path);
}

/* "5.2.21153" of "/usr/lib/libamdhip64.so.5.2.21153", wherever `path` leads; of a file without such a name, its size,
 * so that another version is told from it. */
static void version_of_file(const char *path, char *out, size_t out_bytes) {
  char real[TRI_PATH_BYTES];
  struct stat facts;
  const char *file = realpath(path, real) == NULL ? path : real;
  const char *end = strstr(strrchr(file, '/') == NULL ? file : strrchr(file, '/'), ".so.");
  if (end != NULL && strchr(end + 4, '.') != NULL) {
    snprintf(out, out_bytes, "%s", end + 4);
  } else {
    snprintf(out, out_bytes, "of %lld bytes", stat(file, &facts) == 0 ? (long long)facts.st_size : 0LL);
  }
}

static tri_status ask_manager(void) {
  size_t major = 0, minor = 0, count = 0, used = 0;
  char compiler[64], manager[64];
  library.manager.version(&major, &minor);
  version_of_file(library.path, compiler, sizeof compiler);
  version_of_file(library.manager_path, manager, sizeof manager);
  snprintf(library.version, sizeof library.version, "%s, comgr %zu.%zu (%s)", compiler, major, minor, manager);
  if (library.manager.num_chips(&count) != 0) count = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = NULL, *chip = NULL;
    if (library.manager.chip(i, &name) != 0 || (chip = strstr(name, "--gfx")) == NULL) continue;
    used += (size_t)snprintf(library.chips + used, sizeof library.chips - used, "%s%s", used == 0 ? "" : " ", chip + 2);
    if (used >= sizeof library.chips) break;
  }
  if (library.chips[0] != '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s (AMD's code object manager) does not say for which chips it compiles. %s",
                  library.manager_path, HOW_TO_GET);
}

static void open_once(void) {
  tri_status status = find_compiler();
  if (status == TRI_OK) open_builtins();
  if (status == TRI_OK) status = find_manager();
  if (status == TRI_OK) status = ask_manager();
  tri_error_save(&library.fault, status);
}

static tri_status hiprtc_open(void) {
  pthread_once(&once, open_once);
  return tri_saved_error_restore(&library.fault);
}

static const char *hiprtc_version(void) { return library.version; }
static const char *hiprtc_path(void) { return library.path; }
static const char *hiprtc_chips(void) { return library.chips; }

/* ---- what to compile for ----------------------------------------------------------------------------------------- */

static bool hiprtc_takes(const char *architecture) { return strncmp(architecture, "gfx", 3) == 0; }

/* Threads of a wavefront by the chip's family, the digits before the last two: 64 to gfx9, 32 from gfx10 on. */
static int warp_of(const char *chip) {
  const size_t family = strlen(chip) < 5 ? 0 : strlen(chip) - 5;
  return family == 1 ? 64 : 32;
}

/* Chip without the features that a driver adds to its name: "gfx90a" of "gfx90a:sramecc+:xnack-". Without them the
 * compiled kernels run whatever they are. */
static tri_status choose_chip(const char *architecture, char chip[CHIP_BYTES]) {
  snprintf(chip, CHIP_BYTES, "%.*s", (int)strcspn(architecture, ":"), architecture);
  if (tri_gpu_chip_is_listed(library.chips, chip)) return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "hipRTC %s (%s) does not compile for %s; it knows %s. If this is a newer chip, a newer ROCm "
                  "compiles for it: put its lib into LD_LIBRARY_PATH, or set ROCM_PATH",
                  library.version, library.path, chip, library.chips);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* What kernels need of the C library's header. These are the types that versions before 7 have already; later ones have
 * none. */
#define STDINT_TEXT                                                                                                    \
  "#ifndef TRI_STDINT_H\n"                                                                                             \
  "#define TRI_STDINT_H\n"                                                                                             \
  "typedef signed char int8_t;\n"                                                                                      \
  "typedef unsigned char uint8_t;\n"                                                                                   \
  "typedef short int16_t;\n"                                                                                           \
  "typedef unsigned short uint16_t;\n"                                                                                 \
  "typedef int int32_t;\n"                                                                                             \
  "typedef unsigned int uint32_t;\n"                                                                                   \
  "typedef long long int64_t;\n"                                                                                       \
  "typedef unsigned long long uint64_t;\n"                                                                             \
  "typedef long long intptr_t;\n"                                                                                      \
  "typedef unsigned long long uintptr_t;\n"                                                                            \
  "#define INT32_MAX 2147483647\n"                                                                                     \
  "#define INT32_MIN (-2147483647 - 1)\n"                                                                              \
  "#define UINT32_MAX 4294967295u\n"                                                                                   \
  "#define INT64_MAX 9223372036854775807ll\n"                                                                          \
  "#define INT64_MIN (-9223372036854775807ll - 1)\n"                                                                   \
  "#define UINT64_MAX 18446744073709551615ull\n"                                                                       \
  "#define INT64_C(x) x##ll\n"                                                                                         \
  "#define UINT64_C(x) x##ull\n"                                                                                       \
  "#endif\n"

static tri_status refused(const char *what, tri_hiprtc_enum error) {
  return tri_fail(
      TRI_UNSUPPORTED, "hipRTC %s (%s) does not %s: %s%s", library.version, library.path, what,
      library.calls.error_text(error),
      error == TRI_HIPRTC_BUILTINS
          ? "; libhiprtc-builtins of its version is missing or damaged (Debian has it in libhiprtc-builtins5)"
          : "");
}

static tri_status create_program(const char *name, tri_hiprtc_program *out) {
  tri_gpu_texts all;
  TRI_TRY(tri_gpu_texts_gather(name, STDINT_TEXT, &all));
  const tri_hiprtc_enum error = library.calls.create(out, all.own, name, all.count, all.texts, all.names);
  return error == 0 ? TRI_OK : refused("begin", error);
}

static tri_status take_log(tri_hiprtc_program program, char **out) {
  size_t bytes = 0;
  if (library.calls.log_bytes(program, &bytes) != 0) bytes = 0;
  TRI_TRY(tri_alloc("a compiler's messages", bytes + 1, 1, out));
  if (bytes > 0 && library.calls.log(program, *out) != 0) (*out)[0] = '\0';
  return TRI_OK;
}

/* What comgr says where the folder for its temporary files cannot be written is nothing at all. */
static tri_status failed(const tri_gpu_compilation *what, const char *chip, tri_hiprtc_enum error, const char *log) {
  char text[256];
  snprintf(text, sizeof text, "compile %s for %s and %d bits", what->source, chip, what->type_bits);
  if (error != TRI_HIPRTC_COMPILATION) return refused(text, error);
  if (log[0] == '\0') {
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s (%s) does not %s and does not say why. It writes temporary files: is there room in /tmp "
                    "(or TMPDIR, where that is set), and may it be written?",
                    library.version, library.path, text);
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "hipRTC %s (%s) does not %s: a mistake of this program's, or of that version: another version of the "
                  "compiler may help. It says: %.*s",
                  library.version, library.path, text, LOG_IN_MESSAGE, log);
}

/* Sums and products are not fused by themselves, as on the CPU: kernels say where they want that. */
#define OPTIMISED "-O3"
#define NO_FUSING "-ffp-contract=off"
#define WARNINGS "-Wall", "-Wextra"

static tri_status compile_program(tri_hiprtc_program program, const tri_gpu_compilation *what, const char *chip,
                                  char **log) {
  char architecture[64], type[32], warp[32];
  const char *options[MOST_OPTIONS] = {architecture, type, warp, OPTIMISED, NO_FUSING, WARNINGS};
  snprintf(architecture, sizeof architecture, "--offload-arch=%s", chip);
  snprintf(type, sizeof type, "-DTRI_GPU_TYPE=%d", what->type_bits);
  snprintf(warp, sizeof warp, "-DTRI_GPU_WARP=%d", warp_of(chip));
  const tri_hiprtc_enum error = library.calls.compile(program, 7, options);
  TRI_TRY(take_log(program, log));
  return error == 0 ? TRI_OK : failed(what, chip, error, *log);
}

static tri_status take_image(tri_hiprtc_program program, void **out, size_t *out_bytes) {
  size_t bytes = 0;
  void *image = NULL;
  tri_hiprtc_enum error = library.calls.binary_bytes(program, &bytes);
  if (error != 0 || bytes == 0) return refused("say how large its output is", error);
  TRI_TRY(tri_alloc("compiled kernels", bytes, 1, &image));
  error = library.calls.binary(program, image);
  if (error != 0) {
    tri_free(image);
    return refused("hand out what it compiled", error);
  }
  *out = image;
  *out_bytes = bytes;
  return TRI_OK;
}

/* ---- what became of it ------------------------------------------------------------------------------------------- */

/* Kernels that go by another number of threads in step than the compiler would compute nonsense. */
static tri_status check_warps(const char *chip, const tri_gpu_code_kernel *kernels, int count) {
  for (int i = 0; i < count; i++) {
    if (kernels[i].warp == warp_of(chip)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s compiled kernel `%s` for %d threads in step, where this program takes %s to have %d: "
                    "this program does not know the chip",
                    library.version, kernels[i].name, kernels[i].warp, chip, warp_of(chip));
  }
  return TRI_OK;
}

static tri_status add_resources(const tri_gpu_code_kernel *kernels, int count, char **log) {
  size_t used = strlen(*log);
  const size_t bytes = used + (size_t)count * 256 + 2;
  TRI_TRY(tri_realloc("a compiler's messages", bytes, 1, log));
  for (int i = 0; i < count; i++) {
    const char *line_end = used == 0 || (*log)[used - 1] == '\n' ? "" : "\n";
    used += (size_t)snprintf(*log + used, bytes - used,
                             "%skernel %s: %d registers, %zu bytes of shared memory, %zu bytes spilled\n", line_end,
                             kernels[i].name, kernels[i].registers, kernels[i].shared_bytes, kernels[i].private_bytes);
  }
  return TRI_OK;
}

static tri_status examine(const tri_gpu_compilation *what, const char *chip, const void *image, size_t bytes,
                          char **log) {
  tri_gpu_code_kernel *kernels = NULL;
  int count = 0;
  TRI_TRY(tri_gpu_code_kernels(image, bytes, &kernels, &count));
  tri_status status = check_warps(chip, kernels, count);
  if (status == TRI_OK && what->show_resources) status = add_resources(kernels, count, log);
  tri_free(kernels);
  return status;
}

static tri_status compile_and_take(tri_hiprtc_program program, const tri_gpu_compilation *what, const char *chip,
                                   void **out, size_t *bytes, char **log) {
  void *image = NULL;
  TRI_TRY(compile_program(program, what, chip, log));
  TRI_TRY(take_image(program, &image, bytes));
  tri_status status = examine(what, chip, image, *bytes, log);
  if (status != TRI_OK) {
    tri_free(image);
    return status;
  }
  *out = image;
  return TRI_OK;
}

static tri_status hiprtc_compile(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log) {
  tri_hiprtc_program program = NULL;
  char chip[CHIP_BYTES], *said = NULL;
  TRI_TRY(hiprtc_open());
  TRI_TRY(choose_chip(what->architecture, chip));
  TRI_TRY(create_program(what->source, &program));
  tri_status status = compile_and_take(program, what, chip, out, bytes, &said);
  (void)library.calls.destroy(&program);
  if (status != TRI_OK) {
    tri_free(said);
    return status;
  }
  *log = said;
  return TRI_OK;
}

const tri_gpu_compiler tri_gpu_hiprtc = {
    .name = "hipRTC",
    .options = OPTIMISED " " NO_FUSING "\n" STDINT_TEXT,
    .takes = hiprtc_takes,
    .open = hiprtc_open,
    .version = hiprtc_version,
    .path = hiprtc_path,
    .chips = hiprtc_chips,
    .compile = hiprtc_compile,
};
