/* NVIDIA's run-time compiler. */
#include "base/memory.h"
#include "device/gpu/library.h"
#include "device/gpu/rtc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARCHITECTURES = 64 };

#define HOW_TO_GET                                                                                                     \
  "It comes with the CUDA toolkit (put its lib64 into LD_LIBRARY_PATH, or set CUDA_HOME) or with `pip install "        \
  "nvidia-cuda-nvrtc`"

/* Multiplications and additions are not contracted automatically, as on the CPU: kernels fuse them explicitly. */
#define LANGUAGE "--std=c++17"
#define NO_FUSING "--fmad=false"
#define STDINT_TEXT TRI_GPU_RTC_STDINT_TEXT("long", "l")

/* ---- the library, opened once in a process ----------------------------------------------------------------------- */

typedef struct nvrtc_library {
  tri_gpu_rtc rtc;
  tri_nvrtc_calls own;
  int major;
  int architectures[MOST_ARCHITECTURES], num_architectures; /* 90, 100, ... */
} nvrtc_library;

static tri_status nvrtc_choose(const tri_gpu_compilation *what, tri_gpu_rtc_options *out);
static tri_status nvrtc_examine(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                                size_t bytes, char **log);

/* State of the compiler in this process: written once, by open_once. */
static nvrtc_library library = {
    .rtc = {.name = "NVRTC",
            .stdint_text = STDINT_TEXT,
            .without_builtins =
                "; the libnvrtc-builtins of its version, which belongs in the same folder, is missing or damaged",
            .choose = nvrtc_choose,
            .examine = nvrtc_examine}};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tri_status find_library(void) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
  static const char *const folders[] = {"/usr/local/cuda/lib64", "/usr/local/cuda-1[23]*/lib64", NULL};
  static const char *const wheels[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", NULL};
  static const tri_gpu_symbol symbols[] = {
#define COMMON(field, nvrtc, hiprtc) TRI_GPU_SYMBOL(nvrtc_library, rtc.calls.field, #nvrtc),
#define OWN(field, name) TRI_GPU_SYMBOL(nvrtc_library, own.field, #name),
      TRI_GPU_RTC_CALLS(COMMON) TRI_NVRTC_CALLS(OWN){0}};
  static const tri_gpu_library what = {.what = "NVIDIA's run-time compiler (NVRTC)",
                                       .how = HOW_TO_GET,
                                       .names = names,
                                       .folders = folders,
                                       .wheels = wheels,
                                       .symbols = symbols};
  return tri_gpu_library_open(&what, &library, &library.rtc.path);
}

static tri_status ask_library(void) {
  int major = 0, minor = 0, count = 0;
  char builtins[64];
  if (library.own.version(&major, &minor) != 0 || (major != 12 && major != 13)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is version %d.%d of NVIDIA's run-time compiler; this program knows 12 and 13. %s",
                    library.rtc.path, major, minor, HOW_TO_GET);
  }
  library.major = major;
  snprintf(library.rtc.version, sizeof library.rtc.version, "%d.%d", major, minor);
  if (library.own.num_architectures(&count) != 0 || count < 1 || count > MOST_ARCHITECTURES ||
      library.own.architectures(library.architectures) != 0) {
    return tri_fail(TRI_UNSUPPORTED, "%s (NVRTC %s) does not say for which chips it compiles. %s", library.rtc.path,
                    library.rtc.version, HOW_TO_GET);
  }
  library.num_architectures = count;
  for (int i = 0, used = 0; i < count; i++) {
    const int chip = library.architectures[i];
    used += snprintf(library.rtc.chips + used, sizeof library.rtc.chips - (size_t)used, "%ssm_%d%s", i == 0 ? "" : " ",
                     chip, chip >= 90 ? "a" : "");
  }
  snprintf(builtins, sizeof builtins, "libnvrtc-builtins.so.%d.%d", major, minor);
  (void)tri_gpu_rtc_open_beside(&library.rtc, builtins);
  return TRI_OK;
}

static void open_once(void) {
  tri_status status = find_library();
  if (status == TRI_OK) status = ask_library();
  tri_error_save(&library.rtc.fault, status);
}

static tri_status nvrtc_open(void) {
  pthread_once(&once, open_once);
  return tri_saved_error_restore(&library.rtc.fault);
}

static const char *nvrtc_version(void) { return library.rtc.version; }
static const char *nvrtc_path(void) { return library.rtc.path; }
static const char *nvrtc_chips(void) { return library.rtc.chips; }

/* ---- the target -------------------------------------------------------------------------------------------------- */

/* Returns the number in a name such as "sm_90a", 90; 0 for other names. */
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

/* Chooses the option for an architecture. A chip that is newer than the compiler loads the text (PTX) for the newest
 * chip that the compiler knows, which its driver translates: then *is_text. */
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
                    library.rtc.version, library.rtc.path, least, architecture,
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

static tri_status nvrtc_choose(const tri_gpu_compilation *what, tri_gpu_rtc_options *out) {
  bool is_text = false;
  TRI_TRY(choose_architecture(what->architecture, out->architecture, &is_text));
  snprintf(out->doing, sizeof out->doing, "compile %s with %s for %d bits", what->source, out->architecture,
           what->type_bits);
  const char *options[] = {out->architecture, out->type, LANGUAGE, NO_FUSING, "--ptxas-options=-v"};
  memcpy(out->list, options, sizeof options);
  out->count = what->show_resources ? 5 : 4;
  out->output_bytes = is_text ? library.own.text_bytes : library.rtc.calls.binary_bytes;
  out->output = is_text ? library.own.text : library.rtc.calls.binary;
  return TRI_OK;
}

/* ---- resources of a kernel
 * ----------------------------------------------------------------------------------------- */

typedef struct resources {
  char kernel[64];
  int registers;
  size_t shared_bytes, own_bytes;
  bool of_kernel; /* the following lines are about the kernel, not about a function that it calls */
} resources;

/* Returns the number before a text such as " bytes smem"; 0 if the text is absent. */
static size_t number_before(const char *line, const char *what) {
  const char *at = strstr(line, what);
  if (at == NULL) return 0;
  while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
  return strtoull(at, NULL, 10);
}

/* Reads a line of the assembler; true if it is the last line about a kernel. */
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

/* Rewrites *log: the assembler reports each kernel's resources in several lines, which differ by version; they become
 * one line for each kernel, after all other lines. */
static tri_status shorten_resources(char **log) {
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

static tri_status nvrtc_examine(const tri_gpu_compilation *what, const tri_gpu_rtc_options *options, const void *image,
                                size_t bytes, char **log) {
  (void)options, (void)image, (void)bytes;
  return what->show_resources ? shorten_resources(log) : TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static tri_status nvrtc_compile(const tri_gpu_compilation *what, void **out, size_t *bytes, char **log) {
  TRI_TRY(nvrtc_open());
  return tri_gpu_rtc_compile(&library.rtc, what, out, bytes, log);
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
