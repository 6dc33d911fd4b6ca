/* AMD's run-time library: its functions, which are resolved once in a process, its version and the number of its GPUs,
 * and advice for its errors. hip.c has the calls for one GPU. */
#include "device/gpu/hip_driver.h"

#include "base/memory.h"
#include "device/gpu/hip_library.h"
#include "files/file.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

#define SEE_LOG "`rocm-smi` and the kernel's log (`dmesg | grep -i amdgpu`) may say more. "

/* Returns what the user can do about an error. */
static const char *hip_advice(tri_gpu_enum error) {
  switch (error) {
    case TRI_HIP_ECC:
      return "the GPU's memory is faulty: " SEE_LOG
             "A training run resumes from its last checkpoint: start it on another GPU, and let the administrator "
             "reset or replace this one";
    case TRI_HIP_ILLEGAL_STATE:
    case TRI_HIP_ILLEGAL_ADDRESS:
    case TRI_HIP_ASSERT:
    case TRI_HIP_LAUNCH_FAILED:
      return "a kernel went wrong, or the GPU was reset or fell off the bus: " SEE_LOG
             "A training run resumes from its last checkpoint; if it happens on other GPUs, too, it is a bug in this "
             "program, and `device: gpu:blocking` shows which kernel it is";
    case TRI_HIP_LAUNCH_TIMEOUT:
      return "a kernel took longer than this GPU's driver allows: it serves a screen; take another GPU";
    case TRI_HIP_OLD_DRIVER:
      return "the kernel's driver (amdgpu) is older than this ROCm takes: update it, or take an older ROCm";
    case TRI_HIP_NOT_INITIALIZED:
    case TRI_GPU_NO_DEVICE:
    case TRI_HIP_INVALID_DEVICE:
      return "the GPU that was there is gone, or was never free to be used: `rocminfo` shows what there is. " SEE_LOG;
    case TRI_HIP_UNKNOWN:
    case TRI_HIP_RUNTIME_MEMORY:
    case TRI_HIP_RUNTIME_OTHER: return SEE_LOG "After a GPU was reset, or its driver was updated, a reboot is needed";
    default: break; /* no specific advice for the other errors: AMD has about a hundred, and adds new ones */
  }
  return SEE_LOG "If it persists, it is a bug in this program or a fault of ROCm's";
}

bool tri_hip_is_lasting(tri_gpu_enum error) {
  switch (error) {
    case TRI_HIP_ECC:
    case TRI_HIP_ILLEGAL_STATE:
    case TRI_HIP_ILLEGAL_ADDRESS:
    case TRI_HIP_LAUNCH_TIMEOUT:
    case TRI_HIP_ASSERT:
    case TRI_HIP_LAUNCH_FAILED:
    case TRI_GPU_NO_DEVICE:
    case TRI_HIP_UNKNOWN:
    case TRI_HIP_RUNTIME_OTHER: return true;
    default: return false;
  }
}

/* ---- why no GPU is visible --------------------------------------------------------------------------------------- */

#define IN_CONTAINER "in a container: start it with --device /dev/kfd --device /dev/dri"

/* Return whether this process may use a device file, or any file that matches a pattern. */
static bool may_use(const char *path) { return access(path, R_OK | W_OK) == 0; }

static bool may_use_any(const char *pattern) {
  glob_t found;
  bool any = false;
  if (glob(pattern, 0, NULL, &found) != 0) return false;
  for (size_t i = 0; i < found.gl_pathc; i++) any = any || may_use(found.gl_pathv[i]);
  globfree(&found);
  return any;
}

const char *tri_hip_absence(const char *kfd, const char *nodes, char *out, size_t out_bytes) {
  out[0] = '\0';
  if (access(kfd, F_OK) != 0) {
    snprintf(out, out_bytes,
             "there is no %s: this machine has no GPU of AMD's, or its kernel has not loaded the driver amdgpu "
             "(" IN_CONTAINER ")",
             kfd);
  } else if (!may_use(kfd) || !may_use_any(nodes)) {
    snprintf(out, out_bytes,
             "this user may not use %s: let the administrator add them to the groups render and video (`sudo usermod "
             "-a -G render,video NAME`), and log in again (" IN_CONTAINER
             " and --group-add with the numbers of these groups)",
             may_use(kfd) ? nodes : kfd);
  }
  return out;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

#define HOW_TO_GET                                                                                                     \
  "It comes with ROCm, version 5 or newer (put its lib into LD_LIBRARY_PATH, or set ROCM_PATH); Debian has it in "     \
  "libamdhip64-5"

enum { OLDEST_MAJOR = 5, NEWEST_MAJOR = 7, OF_MAJOR = 10000000, OF_MINOR = 100000 };

/* State of the library in this process: written once, by open_once. */
static tri_hip_driver driver = {.is.processes_tool = "rocm-smi --showpids", .is.advice = hip_advice};
static tri_saved_error fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *const library_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                            "libamdhip64.so", NULL};

#define COMMON(field, cuda, hip) TRI_GPU_SYMBOL(tri_hip_driver, is.calls.field, #hip),
#define OWN(field, name) TRI_GPU_SYMBOL(tri_hip_driver, own.field, #name),
#define OWN_IF_ANY(field, name) TRI_GPU_SYMBOL_IF_ANY(tri_hip_driver, own.field, #name),
static const tri_gpu_symbol symbols[] = {TRI_GPU_CALLS(COMMON) TRI_HIP_CALLS(OWN) TRI_HIP_CALLS_IF_ANY(OWN_IF_ANY){0}};

static const tri_gpu_library library = {.what = "AMD's run-time library (HIP)",
                                        .how = HOW_TO_GET,
                                        .names = library_names,
                                        .folders = tri_hip_folders,
                                        .wheels = tri_hip_wheels,
                                        .symbols = symbols};

/* Appends the variables that hide GPUs from a process: "; HIP_VISIBLE_DEVICES is 0,1". */
static void add_variables(char *text, size_t bytes) {
  static const char *const names[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    const size_t used = strlen(text);
    if (value == NULL) continue;
    snprintf(text + used, bytes - used, "; %s is %s", names[i], value[0] == '\0' ? "empty" : value);
  }
}

/* Writes a text to driver.is.why: how many GPUs the library shows, or the reason why it shows none. */
static void describe_count(void) {
  char absence[512];
  if (driver.is.count == 0 && tri_hip_absence("/dev/kfd", "/dev/dri/renderD*", absence, sizeof absence)[0] != '\0') {
    snprintf(driver.is.why, sizeof driver.is.why, "%s (%s) shows no GPU: %s", driver.is.text, driver.is.path, absence);
  } else {
    snprintf(driver.is.why, sizeof driver.is.why, "%s (%s) shows %d GPU%s of AMD's", driver.is.text, driver.is.path,
             driver.is.count, driver.is.count == 1 ? "" : "s");
  }
  add_variables(driver.is.why, sizeof driver.is.why);
}

static tri_status open_driver(void) {
  if (driver.is.calls.version(&driver.is.version) != 0) driver.is.version = 0;
  const int major = driver.is.version / OF_MAJOR;
  snprintf(driver.is.text, sizeof driver.is.text, "HIP %d.%d.%d", major, driver.is.version % OF_MAJOR / OF_MINOR,
           driver.is.version % OF_MINOR);
  tri_gpu_enum error = driver.is.calls.device_count(&driver.is.count);
  if (error == TRI_GPU_NO_DEVICE || error == TRI_HIP_INVALID_DEVICE) driver.is.count = 0, error = 0;
  if (error != 0) return tri_gpu_driver_failed(&driver.is, driver.is.path, "hipGetDeviceCount", error);
  describe_count();
  if (driver.is.count > 0 && (major < OLDEST_MAJOR || major > NEWEST_MAJOR)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is of %s, and this program knows versions %d to %d: take a ROCm of these (put its lib first "
                    "into LD_LIBRARY_PATH), or a newer version of this program",
                    driver.is.path, driver.is.text, OLDEST_MAJOR, NEWEST_MAJOR);
  }
  return TRI_OK;
}

static void open_once(void) { tri_error_save(&fault, tri_gpu_driver_load(&library, &driver, &driver.is, open_driver)); }

tri_status tri_hip_driver_open(const tri_gpu_driver **out) {
  pthread_once(&once, open_once);
  *out = &driver.is;
  return tri_saved_error_restore(&fault);
}

/* ---- the chip's name --------------------------------------------------------------------------------------------- */

/* Copies the part of the name before the first colon, which must be "gfx" and hexadecimal digits. The part after it has
 * features that the driver has switched on or off. */
void tri_hip_chip(const char *name, char *out, size_t out_bytes) {
  const size_t length = strcspn(name, ":");
  out[0] = '\0';
  if (strncmp(name, "gfx", 3) != 0 || length < 6 || length >= out_bytes) return;
  if (strspn(name + 3, "0123456789abcdef") != length - 3) return;
  snprintf(out, out_bytes, "%.*s", (int)length, name);
}
