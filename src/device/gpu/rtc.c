/* The vendors' run-time compilers: NVIDIA's NVRTC and AMD's hipRTC. Both have the same calls to create a program from
 * texts, to compile it with options and to retrieve the output. Struct tri_gpu_rtc has the differences: where the
 * library is, which chips it supports, its options, and how it reports a kernel's resources. */
#include "base/memory.h"
#include "device/gpu/code_object.h"
#include "device/gpu/compiler.h"
#include "device/gpu/hip_library.h"
#include "device/gpu/library.h"
#include "device/gpu/ptxas.h"
#include "device/gpu/rtc_calls.h"
#include "files/file.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ARCHITECTURES = 64, MOST_TEXTS = 128, MOST_OPTIONS = 8, LOG_IN_MESSAGE = 1500 };

/* The options and output calls of one compilation; `choose` sets all except `type`. */
typedef struct rtc_options {
  char doing[256]; /* for messages: "compile NAME for gfx90a and 32 bits" */
  char chip[32];   /* hipRTC only: the chip's name without the features that a driver adds */
  char architecture[64], type[32], warp[32];
  const char *list[MOST_OPTIONS];
  int count;
  /* The calls that retrieve the output. */
  tri_gpu_rtc_enum (*output_bytes)(tri_gpu_rtc_program program, size_t *out);
  tri_gpu_rtc_enum (*output)(tri_gpu_rtc_program program, char *out);
} rtc_options;

/* State of a compiler in this process: its libraries and their facts. Written once, by tri_gpu_compiler_open. */
typedef struct rtc_library {
  bool tried;
  tri_saved_error fault;
  tri_gpu_compiler_facts facts;
  tri_gpu_rtc_calls calls;
  tri_nvrtc_calls own; /* NVRTC only, like `major` and `architectures` */
  int major;
  int architectures[MOST_ARCHITECTURES], num_architectures; /* 90, 100, ... */
  tri_comgr_calls manager;                                  /* hipRTC only, like the path of the manager */
  const char *manager_path;
} rtc_library;

struct tri_gpu_rtc {
  rtc_library *library;
  const tri_gpu_library *file;
  const char *stdint_text;
  const char *without_builtins; /* end of the error message if the compiler cannot open its builtins */
  const char *without_log;      /* end of the error message if compiling fails with an empty log; NULL: none */
  tri_status (*ask)(void);      /* sets `facts`; called once, after the library is opened */
  tri_status (*choose)(const tri_gpu_compilation *what, rtc_options *out);
  /* Checks the output. If what->show_resources is set, adds the kernels' resources to the log. */
  tri_status (*examine)(const tri_gpu_compilation *what, const rtc_options *options, const void *image, size_t bytes,
                        char **log);
};

/* The part of <stdint.h> that kernels need; the C library's file is not available at run time. LONG is the 64-bit type
 * and L the suffix of its literals. */
#define STDINT_TEXT(LONG, L)                                                                                           \
  "#ifndef TRI_STDINT_H\n#define TRI_STDINT_H\n"                                                                       \
  "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"                                                      \
  "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"                                                         \
  "typedef int int32_t;\ntypedef unsigned int uint32_t;\n"                                                             \
  "typedef " LONG " int64_t;\ntypedef unsigned " LONG                                                                  \
  " uint64_t;\n"                                                                                                       \
  "typedef " LONG " intptr_t;\ntypedef unsigned " LONG                                                                 \
  " uintptr_t;\n"                                                                                                      \
  "#define INT32_MAX 2147483647\n#define INT32_MIN (-2147483647 - 1)\n#define UINT32_MAX 4294967295u\n"                \
  "#define INT64_MAX 9223372036854775807" L "\n#define INT64_MIN (-9223372036854775807" L                              \
  " - 1)\n"                                                                                                            \
  "#define UINT64_MAX 18446744073709551615u" L                                                                         \
  "\n"                                                                                                                 \
  "#define INT64_C(x) x##" L "\n#define UINT64_C(x) x##u" L                                                            \
  "\n"                                                                                                                 \
  "#endif\n"

/* ---- opening ----------------------------------------------------------------------------------------------------- */

tri_status tri_gpu_compiler_open(const tri_gpu_compiler *compiler) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  rtc_library *library = compiler->rtc->library;
  pthread_mutex_lock(&lock);
  if (!library->tried) {
    tri_status status = tri_gpu_library_open(compiler->rtc->file, library, &library->facts.path);
    tri_error_save(&library->fault, status == TRI_OK ? compiler->rtc->ask() : status);
    library->tried = true;
  }
  pthread_mutex_unlock(&lock);
  return tri_saved_error_restore(&library->fault);
}

/* Writes the path of file `name` in the compiler's folder to `path`, or "" if there is no such file. Returns path. */
static const char *beside(const rtc_library *library, const char *name, char path[TRI_PATH_BYTES]) {
  const char *own = library->facts.path, *slash = strrchr(own, '/');
  int written = snprintf(path, TRI_PATH_BYTES, "%.*s%s", slash == NULL ? 0 : (int)(slash + 1 - own), own, name);
  if (slash == NULL || written >= TRI_PATH_BYTES || access(path, F_OK) != 0) path[0] = '\0';
  return path;
}

/* Opens a library in the compiler's folder; returns false if that fails. Used for the compiler's builtins. The
 * compiler opens this library by name when it first compiles, and may find another version first. If the right version
 * is already open in the process, the compiler uses that one. */
static bool open_beside(const rtc_library *library, const char *name) {
  char path[TRI_PATH_BYTES];
  return beside(library, name, path)[0] != '\0' && dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL;
}

bool tri_gpu_chip_is_listed(const char *chips, const char *chip) {
  const size_t length = strlen(chip);
  while (*chips != '\0') {
    const size_t listed = strcspn(chips, " ");
    if (listed == length && memcmp(chips, chip, length) == 0) return true;
    chips += listed + (chips[listed] == ' ');
  }
  return false;
}

/* ---- NVIDIA's NVRTC ---------------------------------------------------------------------------------------------- */

#define NVRTC_HOW                                                                                                      \
  "It comes with the CUDA toolkit (put its lib64 into LD_LIBRARY_PATH, or set CUDA_HOME) or with `pip install "        \
  "nvidia-cuda-nvrtc`"

/* As on the CPU, the compiler must not fuse multiplications and additions by itself: kernels fuse them explicitly. */
#define NVRTC_LANGUAGE "--std=c++17"
#define NVRTC_NO_FUSING "--fmad=false"

static rtc_library nvrtc;

/* Reads the version and the list of chips, and opens the builtins. Fails with TRI_UNSUPPORTED for other versions than
 * 12 and 13, or if there is no list. */
static tri_status nvrtc_ask(void) {
  int major = 0, minor = 0, count = 0;
  char builtins[64];
  if (nvrtc.own.version(&major, &minor) != 0 || (major != 12 && major != 13)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is version %d.%d of NVIDIA's run-time compiler; this program knows 12 and 13. %s",
                    nvrtc.facts.path, major, minor, NVRTC_HOW);
  }
  nvrtc.major = major;
  snprintf(nvrtc.facts.version, sizeof nvrtc.facts.version, "%d.%d", major, minor);
  if (nvrtc.own.num_architectures(&count) != 0 || count < 1 || count > MOST_ARCHITECTURES ||
      nvrtc.own.architectures(nvrtc.architectures) != 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s (NVRTC %s) does not say for which chips it compiles. %s", nvrtc.facts.path,
                    nvrtc.facts.version, NVRTC_HOW);
  }
  nvrtc.num_architectures = count;
  for (int i = 0, used = 0; i < count; i++) {
    const int chip = nvrtc.architectures[i];
    used += snprintf(nvrtc.facts.chips + used, sizeof nvrtc.facts.chips - (size_t)used, "%ssm_%d%s", i == 0 ? "" : " ",
                     chip, chip >= 90 ? "a" : "");
  }
  snprintf(builtins, sizeof builtins, "libnvrtc-builtins.so.%d.%d", major, minor);
  (void)open_beside(&nvrtc, builtins);
  return TRI_OK;
}

/* Returns the number in a name such as "sm_90a", 90, and sets *suffix to the rest, "a". Returns 0 for other names. */
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

/* Chooses the option for an architecture. For a chip that the compiler does not know, the option is to generate text
 * (PTX) for the newest older chip that it knows, and *is_text is set; the chip's driver translates the text. Fails with
 * TRI_UNSUPPORTED if the name is not that of an NVIDIA chip, or the compiler knows only newer chips. */
static tri_status choose_architecture(const char *architecture, char option[64], bool *is_text) {
  const char *suffix = "";
  const int chip = chip_of(architecture, &suffix);
  int below = 0, least = nvrtc.architectures[0];
  for (int i = 0; i < nvrtc.num_architectures; i++) {
    const int known = nvrtc.architectures[i];
    if (known <= chip && known > below) below = known;
    if (known < least) least = known;
  }
  if (chip == 0) return tri_fail(TRI_UNSUPPORTED, "`%s` is not a chip of NVIDIA's", architecture);
  if (below == 0) {
    return tri_fail(TRI_UNSUPPORTED,
                    "NVRTC %s (%s) compiles for sm_%d and newer, not for %s: this GPU needs an older compiler%s",
                    nvrtc.facts.version, nvrtc.facts.path, least, architecture,
                    nvrtc.major > 12 ? ", as `pip install nvidia-cuda-nvrtc-cu12` gives one" : "");
  }
  *is_text = below != chip;
  if (*is_text) {
    snprintf(option, 64, "--gpu-architecture=compute_%d", below);
  } else {
    snprintf(option, 64, "--gpu-architecture=sm_%d%s", chip, suffix);
  }
  return TRI_OK;
}

/* Sets the options. The output is code for the chip, or text for an older chip. */
static tri_status nvrtc_choose(const tri_gpu_compilation *what, rtc_options *out) {
  bool is_text = false;
  TRI_TRY(choose_architecture(what->architecture, out->architecture, &is_text));
  snprintf(out->doing, sizeof out->doing, "compile %s with %s for %d bits", what->source, out->architecture,
           what->type_bits);
  const char *options[] = {out->architecture, out->type, NVRTC_LANGUAGE, NVRTC_NO_FUSING, "--ptxas-options=-v"};
  memcpy(out->list, options, sizeof options);
  out->count = what->show_resources ? 5 : 4;
  out->output_bytes = is_text ? nvrtc.own.text_bytes : nvrtc.calls.binary_bytes;
  out->output = is_text ? nvrtc.own.text : nvrtc.calls.binary;
  return TRI_OK;
}

static tri_status nvrtc_examine(const tri_gpu_compilation *what, const rtc_options *options, const void *image,
                                size_t bytes, char **log) {
  (void)options, (void)image, (void)bytes;
  return what->show_resources ? tri_gpu_ptxas_shorten(log) : TRI_OK;
}

#define NVRTC_STDINT STDINT_TEXT("long", "l")
#define NVRTC_CALL(field, nvrtc, hiprtc) TRI_GPU_SYMBOL(rtc_library, calls.field, #nvrtc),
#define NVRTC_OWN(field, name) TRI_GPU_SYMBOL(rtc_library, own.field, #name),

static const tri_gpu_library nvrtc_file = {
    .what = "NVIDIA's run-time compiler (NVRTC)",
    .how = NVRTC_HOW,
    .names = (const char *const[]){"libnvrtc.so.13", "libnvrtc.so.12", NULL},
    .folders = (const char *const[]){"/usr/local/cuda/lib64", "/usr/local/cuda-1[23]*/lib64", NULL},
    .wheels = (const char *const[]){"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", NULL},
    .symbols = (const tri_gpu_symbol[]){TRI_GPU_RTC_CALLS(NVRTC_CALL) TRI_NVRTC_CALLS(NVRTC_OWN){0}},
};

static const tri_gpu_rtc nvrtc_rtc = {
    .library = &nvrtc,
    .file = &nvrtc_file,
    .stdint_text = NVRTC_STDINT,
    .without_builtins =
        "; the libnvrtc-builtins of its version, which belongs in the same folder, is missing or damaged",
    .ask = nvrtc_ask,
    .choose = nvrtc_choose,
    .examine = nvrtc_examine,
};

const tri_gpu_compiler tri_gpu_nvrtc = {
    .name = "NVRTC",
    .options = NVRTC_LANGUAGE " " NVRTC_NO_FUSING "\n" NVRTC_STDINT,
    .takes = nvrtc_takes,
    .facts = &nvrtc.facts,
    .rtc = &nvrtc_rtc,
};

/* ---- AMD's hipRTC ------------------------------------------------------------------------------------------------ */

#define HIPRTC_HOW                                                                                                     \
  "It comes with ROCm (put its lib into LD_LIBRARY_PATH, or set ROCM_PATH); Debian has it in libamdhip64-5 and "       \
  "libhiprtc-builtins5"

#define HIPRTC_OPTIMISED "-O3"
#define HIPRTC_NO_FUSING "-ffp-contract=off"
#define HIPRTC_WARNINGS "-Wall", "-Wextra"

static rtc_library hiprtc;

static void open_builtins(void) {
  static const char *const names[] = {"libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6", "libhiprtc-builtins.so.5",
                                      "libhiprtc-builtins.so", NULL};
  for (const char *const *name = names; *name != NULL; name++) {
    if (open_beside(&hiprtc, *name)) return;
  }
}

/* Opens the code object manager (comgr), if possible the one in the compiler's folder. It lists the chips that the
 * compiler knows; old versions of hipRTC abort the process when they compile for another chip. */
static tri_status find_manager(void) {
  static const char *const usual[] = {"libamd_comgr.so.3", "libamd_comgr.so.2", "libamd_comgr.so", NULL};
#define MANAGER(field, function) TRI_GPU_SYMBOL(tri_comgr_calls, field, #function),
  static const tri_gpu_symbol symbols[] = {TRI_COMGR_CALLS(MANAGER){0}};
  const char *names[5] = {NULL};
  char path[TRI_PATH_BYTES] = "";
  int count = 0;
  for (int i = 0; usual[i] != NULL && path[0] == '\0'; i++) names[0] = beside(&hiprtc, usual[i], path);
  if (path[0] != '\0') count = 1;
  for (int i = 0; usual[i] != NULL; i++) names[count++] = usual[i];
  const tri_gpu_library what = {.what = "AMD's code object manager (comgr), which hipRTC works with,",
                                .how = "It comes with ROCm, beside hipRTC; Debian has it in libamd-comgr2",
                                .names = names,
                                .folders = tri_hip_folders,
                                .wheels = tri_hip_wheels,
                                .symbols = symbols};
  return tri_gpu_library_open(&what, &hiprtc.manager, &hiprtc.manager_path);
}

/* Writes the version in a file's name after resolving links: "5.2.21153" for "/usr/lib/libamdhip64.so.5.2.21153". If
 * the name has no version, writes the file's size, which differs between versions. */
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
  hiprtc.manager.version(&major, &minor);
  version_of_file(hiprtc.facts.path, compiler, sizeof compiler);
  version_of_file(hiprtc.manager_path, manager, sizeof manager);
  snprintf(hiprtc.facts.version, sizeof hiprtc.facts.version, "%s, comgr %zu.%zu (%s)", compiler, major, minor,
           manager);
  if (hiprtc.manager.num_chips(&count) != 0) count = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = NULL, *chip = NULL;
    if (hiprtc.manager.chip(i, &name) != 0 || (chip = strstr(name, "--gfx")) == NULL) continue;
    used += (size_t)snprintf(hiprtc.facts.chips + used, sizeof hiprtc.facts.chips - used, "%s%s", used == 0 ? "" : " ",
                             chip + 2);
    if (used >= sizeof hiprtc.facts.chips) break;
  }
  if (hiprtc.facts.chips[0] != '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED, "%s (AMD's code object manager) does not say for which chips it compiles. %s",
                  hiprtc.manager_path, HIPRTC_HOW);
}

static tri_status hiprtc_ask(void) {
  open_builtins();
  TRI_TRY(find_manager());
  return ask_manager();
}

static bool hiprtc_takes(const char *architecture) { return strncmp(architecture, "gfx", 3) == 0; }

/* Returns the threads of a wavefront from the chip's family, the digits before the last two: 64 up to gfx9, 32 from
 * gfx10 on. */
static int warp_of(const char *chip) {
  const size_t family = strlen(chip) < 5 ? 0 : strlen(chip) - 5;
  return family == 1 ? 64 : 32;
}

/* Sets the options. They name the chip without the features that a driver adds ("gfx90a" for "gfx90a:sramecc+:xnack-"),
 * so that the compiled kernels run with any setting of these features. Fails with TRI_UNSUPPORTED if the compiler does
 * not know the chip. */
static tri_status hiprtc_choose(const tri_gpu_compilation *what, rtc_options *out) {
  const char *chip = out->chip;
  snprintf(out->chip, sizeof out->chip, "%.*s", (int)strcspn(what->architecture, ":"), what->architecture);
  if (!tri_gpu_chip_is_listed(hiprtc.facts.chips, chip)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s (%s) does not compile for %s; it knows %s. If this is a newer chip, a newer ROCm "
                    "compiles for it: put its lib into LD_LIBRARY_PATH, or set ROCM_PATH",
                    hiprtc.facts.version, hiprtc.facts.path, chip, hiprtc.facts.chips);
  }
  snprintf(out->doing, sizeof out->doing, "compile %s for %s and %d bits", what->source, chip, what->type_bits);
  snprintf(out->architecture, sizeof out->architecture, "--offload-arch=%s", chip);
  snprintf(out->warp, sizeof out->warp, "-DTRI_GPU_WARP=%d", warp_of(chip));
  const char *options[] = {out->architecture, out->type,        out->warp,
                           HIPRTC_OPTIMISED,  HIPRTC_NO_FUSING, HIPRTC_WARNINGS};
  memcpy(out->list, options, sizeof options);
  out->count = 7;
  out->output_bytes = hiprtc.calls.binary_bytes;
  out->output = hiprtc.calls.binary;
  return TRI_OK;
}

/* Fails with TRI_UNSUPPORTED if the compiler used another wavefront size than TRI_GPU_WARP for a kernel: results would
 * be wrong. */
static tri_status check_warps(const char *chip, const tri_gpu_code_kernel *kernels, int count) {
  for (int i = 0; i < count; i++) {
    if (kernels[i].warp == warp_of(chip)) continue;
    return tri_fail(TRI_UNSUPPORTED,
                    "hipRTC %s compiled kernel `%s` for %d threads in step, where this program takes %s to have %d: "
                    "this program does not know the chip",
                    hiprtc.facts.version, kernels[i].name, kernels[i].warp, chip, warp_of(chip));
  }
  return TRI_OK;
}

static tri_status add_resources(const tri_gpu_code_kernel *kernels, int count, char **log) {
  size_t used = strlen(*log);
  const size_t bytes = used + (size_t)count * 256 + 2;
  TRI_TRY(tri_realloc("a compiler's messages", bytes, 1, log));
  if (count > 0 && used > 0 && (*log)[used - 1] != '\n') (*log)[used++] = '\n';
  for (int i = 0; i < count; i++) used += tri_gpu_code_kernel_print(&kernels[i], *log + used, bytes - used);
  return TRI_OK;
}

static tri_status hiprtc_examine(const tri_gpu_compilation *what, const rtc_options *options, const void *image,
                                 size_t bytes, char **log) {
  tri_gpu_code_kernel *kernels = NULL;
  int count = 0;
  TRI_TRY(tri_gpu_code_kernels(image, bytes, &kernels, &count));
  tri_status status = check_warps(options->chip, kernels, count);
  if (status == TRI_OK && what->show_resources) status = add_resources(kernels, count, log);
  tri_free(kernels);
  return status;
}

/* hipRTC before version 7 defines the same types without a header; later versions do not. */
#define HIPRTC_STDINT STDINT_TEXT("long long", "ll")
#define HIPRTC_CALL(field, nvrtc, hiprtc) TRI_GPU_SYMBOL(rtc_library, calls.field, #hiprtc),

static const tri_gpu_library hiprtc_file = {
    .what = "AMD's run-time compiler (hipRTC)",
    .how = HIPRTC_HOW,
    /* hipRTC is a separate library since ROCm 5.4; before, it was a part of the run-time library (libamdhip64). */
    .names = (const char *const[]){"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so",
                                   "libamdhip64.so.5", NULL},
    .folders = tri_hip_folders,
    .wheels = tri_hip_wheels,
    .symbols = (const tri_gpu_symbol[]){TRI_GPU_RTC_CALLS(HIPRTC_CALL){0}},
};

/* without_log: comgr gives no error text if it cannot write to the folder for its temporary files. */
static const tri_gpu_rtc hiprtc_rtc = {
    .library = &hiprtc,
    .file = &hiprtc_file,
    .stdint_text = HIPRTC_STDINT,
    .without_builtins =
        "; libhiprtc-builtins of its version is missing or damaged (Debian has it in "
        "libhiprtc-builtins5)",
    .without_log =
        " and does not say why. It writes temporary files: is there room in /tmp (or TMPDIR, where "
        "that is set), and may it be written?",
    .ask = hiprtc_ask,
    .choose = hiprtc_choose,
    .examine = hiprtc_examine,
};

const tri_gpu_compiler tri_gpu_hiprtc = {
    .name = "hipRTC",
    .options = HIPRTC_OPTIMISED " " HIPRTC_NO_FUSING "\n" HIPRTC_STDINT,
    .takes = hiprtc_takes,
    .facts = &hiprtc.facts,
    .rtc = &hiprtc_rtc,
};

/* ---- compiling --------------------------------------------------------------------------------------------------- */

/* The source to compile, and its headers: all other embedded sources (tri_gpu_sources), and <stdint.h>
 * (STDINT_TEXT). */
typedef struct texts {
  const char *own;
  int count;
  const char *names[MOST_TEXTS], *texts[MOST_TEXTS];
} texts;

static tri_status texts_gather(const char *name, const char *stdint_text, texts *out) {
  *out = (texts){.count = 1, .names = {"stdint.h"}, .texts = {stdint_text}};
  for (const tri_gpu_source *source = tri_gpu_sources; source->name != NULL; source++) {
    if (strcmp(source->name, name) == 0) {
      out->own = source->text;
      continue;
    }
    if (out->count == MOST_TEXTS) {
      return tri_fail_internal("there are more than %d texts of kernels", MOST_TEXTS);
    }
    out->names[out->count] = source->name;
    out->texts[out->count++] = source->text;
  }
  if (out->own == NULL) return tri_fail_internal("this program has no text `%s`", name);
  return TRI_OK;
}

static tri_status refused(const tri_gpu_compiler *compiler, const char *what, tri_gpu_rtc_enum error) {
  return tri_fail(TRI_UNSUPPORTED, "%s %s (%s) does not %s: %s%s", compiler->name, compiler->facts->version,
                  compiler->facts->path, what, compiler->rtc->library->calls.error_text(error),
                  error == TRI_GPU_RTC_BUILTINS ? compiler->rtc->without_builtins : "");
}

static tri_status create_program(const tri_gpu_compiler *compiler, const char *name, tri_gpu_rtc_program *out) {
  texts all;
  TRI_TRY(texts_gather(name, compiler->rtc->stdint_text, &all));
  const tri_gpu_rtc_enum error =
      compiler->rtc->library->calls.create(out, all.own, name, all.count, all.texts, all.names);
  return error == 0 ? TRI_OK : refused(compiler, "begin", error);
}

static tri_status copy_log(const tri_gpu_compiler *compiler, tri_gpu_rtc_program program, char **out) {
  size_t bytes = 0;
  if (compiler->rtc->library->calls.log_bytes(program, &bytes) != 0) bytes = 0;
  TRI_TRY(tri_alloc("a compiler's messages", bytes + 1, 1, out));
  if (bytes > 0 && compiler->rtc->library->calls.log(program, *out) != 0) (*out)[0] = '\0';
  return TRI_OK;
}

static tri_status compile_program(const tri_gpu_compiler *compiler, tri_gpu_rtc_program program,
                                  const rtc_options *options, char **log) {
  const tri_gpu_rtc_enum error = compiler->rtc->library->calls.compile(program, options->count, options->list);
  TRI_TRY(copy_log(compiler, program, log));
  if (error == 0) return TRI_OK;
  if (error != TRI_GPU_RTC_COMPILATION) return refused(compiler, options->doing, error);
  if ((*log)[0] == '\0' && compiler->rtc->without_log != NULL) {
    return tri_fail(TRI_UNSUPPORTED, "%s %s (%s) does not %s%s", compiler->name, compiler->facts->version,
                    compiler->facts->path, options->doing, compiler->rtc->without_log);
  }
  return tri_fail(TRI_UNSUPPORTED,
                  "%s %s (%s) does not %s: a mistake of this program's, or of that version: another version of the "
                  "compiler may help. It says: %.*s",
                  compiler->name, compiler->facts->version, compiler->facts->path, options->doing, LOG_IN_MESSAGE,
                  *log);
}

static tri_status copy_image(const tri_gpu_compiler *compiler, tri_gpu_rtc_program program, const rtc_options *options,
                             void **out, size_t *out_bytes) {
  size_t bytes = 0;
  void *image = NULL;
  tri_gpu_rtc_enum error = options->output_bytes(program, &bytes);
  if (error != 0 || bytes == 0) return refused(compiler, "say how large its output is", error);
  TRI_TRY(tri_alloc("compiled kernels", bytes, 1, &image));
  error = options->output(program, image);
  if (error != 0) {
    tri_free(image);
    return refused(compiler, "hand out what it compiled", error);
  }
  *out = image;
  *out_bytes = bytes;
  return TRI_OK;
}

static tri_status compile_and_take(const tri_gpu_compiler *compiler, tri_gpu_rtc_program program,
                                   const tri_gpu_compilation *what, const rtc_options *options, void **out,
                                   size_t *bytes, char **log) {
  void *image = NULL;
  TRI_TRY(compile_program(compiler, program, options, log));
  TRI_TRY(copy_image(compiler, program, options, &image, bytes));
  tri_status status = compiler->rtc->examine(what, options, image, *bytes, log);
  if (status == TRI_OK) *out = image;
  if (status != TRI_OK) tri_free(image);
  return status;
}

tri_status tri_gpu_compiler_compile(const tri_gpu_compiler *compiler, const tri_gpu_compilation *what, void **out,
                                    size_t *bytes, char **log) {
  tri_gpu_rtc_program program = NULL;
  rtc_options options = {0};
  char *said = NULL;
  snprintf(options.type, sizeof options.type, "-DTRI_GPU_TYPE=%d", what->type_bits);
  TRI_TRY(tri_gpu_compiler_open(compiler));
  TRI_TRY(compiler->rtc->choose(what, &options));
  TRI_TRY(create_program(compiler, what->source, &program));
  tri_status status = compile_and_take(compiler, program, what, &options, out, bytes, &said);
  (void)compiler->rtc->library->calls.destroy(&program);
  if (status == TRI_OK) *log = said;
  if (status != TRI_OK) tri_free(said);
  return status;
}
