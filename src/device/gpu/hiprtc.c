/* AMD's run-time compiler. Old versions abort the process if they are asked for an unknown chip. So its code object
 * manager, which lists the known chips, is asked first. */
#include "base/memory.h"
#include "device/gpu/code_object.h"
#include "device/gpu/hip_library.h"
#include "device/gpu/library.h"
#include "device/gpu/rtc.h"
#include "files/file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOW_TO_GET                                                                                                     \
  "It comes with ROCm (put its lib into LD_LIBRARY_PATH, or set ROCM_PATH); Debian has it in libamdhip64-5 and "       \
  "libhiprtc-builtins5"

/* Multiplications and additions are not contracted automatically, as on the CPU: kernels fuse them explicitly. */
#define OPTIMISED "-O3"
#define NO_FUSING "-ffp-contract=off"
#define WARNINGS "-Wall", "-Wextra"
/* Versions before 7 define these types already; later ones do not. */
#define STDINT_TEXT TRI_GPU_RTC_STDINT_TEXT("long long", "ll")

/* ---- the libraries, opened once in a process --------------------------------------------------------------------- */

typedef struct hiprtc_library {
  tri_gpu_rtc rtc;
  tri_comgr_calls manager;
  const char *manager_path;
} hiprtc_library;

static tri_status hiprtc_choose(const tri_gpu_compilation *what, tri_gpu_rtc_options *out);
static tri_status hiprtc_examine(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                                 size_t bytes, char **log);

/* State of the compiler in this process: written once, by open_once. comgr gives no error text if the folder for its
 * temporary files is not writable. */
static hiprtc_library library = {
    .rtc = {.name = "hipRTC",
            .stdint_text = STDINT_TEXT,
            .without_builtins = "; libhiprtc-builtins of its version is missing or damaged (Debian has it in "
                                "libhiprtc-builtins5)",
            .without_log = " and does not say why. It writes temporary files: is there room in /tmp (or TMPDIR, where "
                           "that is set), and may it be written?",
            .choose = hiprtc_choose,
            .examine = hiprtc_examine}};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tri_status find_compiler(void) {
  /* A library of its own since ROCm 5.4; a part of the run-time library before. */
  static const char *const names[] = {"libhiprtc.so.7", "libhiprtc.so.6",   "libhiprtc.so.5",
                                      "libhiprtc.so",   "libamdhip64.so.5", NULL};
#define COMMON(field, nvrtc, hiprtc) TRI_GPU_SYMBOL(tri_gpu_rtc_calls, field, #hiprtc),
  static const tri_gpu_symbol symbols[] = {TRI_GPU_RTC_CALLS(COMMON){0}};
  static const tri_gpu_library what = {.what = "AMD's run-time compiler (hipRTC)",
                                       .how = HOW_TO_GET,
                                       .names = names,
                                       .folders = tri_hip_folders,
                                       .wheels = tri_hip_wheels,
                                       .symbols = symbols};
  return tri_gpu_library_open(&what, &library.rtc.calls, &library.rtc.path);
}

static void open_builtins(void) {
  static const char *const names[] = {"libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6", "libhiprtc-builtins.so.5",
                                      "libhiprtc-builtins.so", NULL};
  for (const char *const *name = names; *name != NULL; name++) {
    if (tri_gpu_rtc_open_beside(&library.rtc, *name)) return;
  }
}

/* Opens the code object manager, preferably that in the compiler's folder. */
static tri_status find_manager(void) {
  static const char *const usual[] = {"libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so", NULL};
#define MANAGER(field, function) TRI_GPU_SYMBOL(tri_comgr_calls, field, #function),
  static const tri_gpu_symbol symbols[] = {TRI_COMGR_CALLS(MANAGER){0}};
  const char *names[5] = {NULL};
  char path[TRI_PATH_BYTES] = "";
  int count = 0;
  for (int i = 0; usual[i] != NULL && path[0] == '\0'; i++) names[0] = tri_gpu_rtc_beside(&library.rtc, usual[i], path);
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

/* Derives the version from the file name after resolving links: "5.2.21153" from "/usr/lib/libamdhip64.so.5.2.21153";
 * for a file without such a name its size, which differs between versions. */
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
  version_of_file(library.rtc.path, compiler, sizeof compiler);
  version_of_file(library.manager_path, manager, sizeof manager);
  snprintf(library.rtc.version, sizeof library.rtc.version, "%s, comgr %zu.%zu (%s)", compiler, major, minor, manager);
  if (library.manager.num_chips(&count) != 0) count = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = NULL, *chip = NULL;
    if (library.manager.chip(i, &name) != 0 || (chip = strstr(name, "--gfx")) == NULL) continue;
    used += (size_t)snprintf(library.rtc.chips + used, sizeof library.rtc.chips - used, "%s%s", used == 0 ? "" : " ",
                             chip + 2);
    if (used >= sizeof library.rtc.chips) break;
  }
  if (library.rtc.chips[0] != '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s (AMD's code object manager) does not say for which chips it compiles. %s",
                  library.manager_path, HOW_TO_GET);
}

static void open_once(void) {
  tri_status status = find_compiler();
  if (status == TRI_OK) open_builtins();
  if (status == TRI_OK) status = find_manager();
  if (status == TRI_OK) status = ask_manager();
  tri_error_save(&library.rtc.fault, status);
}

static tri_status hiprtc_open(void) {
  pthread_once(&once, open_once);
  return tri_saved_error_restore(&library.rtc.fault);
}

static const char *hiprtc_version(void) { return library.rtc.version; }
static const char *hiprtc_path(void) { return library.rtc.path; }
static const char *hiprtc_chips(void) { return library.rtc.chips; }

/* ---- the target -------------------------------------------------------------------------------------------------- */

static bool hiprtc_takes(const char *architecture) { return strncmp(architecture, "gfx", 3) == 0; }

/* Returns the threads of a wavefront from the chip's family, the digits before the last two: 64 up to gfx9, 32 from
 * gfx10 on. */
static int warp_of(const char *chip) {
  const size_t family = strlen(chip) < 5 ? 0 : strlen(chip) - 5;
  return family == 1 ? 64 : 32;
}

/* The options omit the features that a driver adds to a chip's name ("gfx90a:sramecc+:xnack-" becomes "gfx90a"), so
 * that the compiled kernels run with any setting of them. */
static tri_status hiprtc_choose(const tri_gpu_compilation *what, tri_gpu_rtc_options *out) {
  const char *chip = out->chip;
  snprintf(out->chip, sizeof out->chip, "%.*s", (int)strcspn(what->architecture, ":"), what->architecture);
  if (!tri_gpu_chip_is_listed(library.rtc.chips, chip)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s (%s) does not compile for %s; it knows %s. If this is a newer chip, a newer ROCm "
                    "compiles for it: put its lib into LD_LIBRARY_PATH, or set ROCM_PATH",
                    library.rtc.version, library.rtc.path, chip, library.rtc.chips);
  }
  snprintf(out->doing, sizeof out->doing, "compile %s for %s and %d bits", what->source, chip, what->type_bits);
  snprintf(out->architecture, sizeof out->architecture, "--offload-arch=%s", chip);
  snprintf(out->warp, sizeof out->warp, "-DTRI_GPU_WARP=%d", warp_of(chip));
  const char *options[] = {out->architecture, out->type, out->warp, OPTIMISED, NO_FUSING, WARNINGS};
  memcpy(out->list, options, sizeof options);
  out->count = 7;
  out->output_bytes = library.rtc.calls.binary_bytes;
  out->output = library.rtc.calls.binary;
  return TRI_OK;
}

/* ---- the result -------------------------------------------------------------------------------------------------- */

/* Checks the wavefront size of compiled kernels: a kernel that assumes another size than the compiler would give wrong
 * results. */
static tri_status check_warps(const char *chip, const tri_gpu_code_kernel *kernels, int count) {
  for (int i = 0; i < count; i++) {
    if (kernels[i].warp == warp_of(chip)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s compiled kernel `%s` for %d threads in step, where this program takes %s to have %d: "
                    "this program does not know the chip",
                    library.rtc.version, kernels[i].name, kernels[i].warp, chip, warp_of(chip));
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

static tri_status hiprtc_examine(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                                 size_t bytes, char **log) {
  tri_gpu_code_kernel *kernels = NULL;
  int count = 0;
  TRI_TRY(tri_gpu_code_kernels(image, bytes, &kernels, &count));
  tri_status status = check_warps(options->chip, kernels, count);
  if (status == TRI_OK && what->show_resources) status = add_resources(kernels, count, log);
  tri_free(kernels);
  return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static tri_status hiprtc_compile(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log) {
  TRI_TRY(hiprtc_open());
  return tri_gpu_rtc_compile(&library.rtc, what, out, bytes, log);
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
