#include "device/gpu/hip_driver.h"

#include "base/file.h"
#include "base/memory.h"
#include "device/gpu/hip_library.h"
#include "device/gpu/library.h"

#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

#define SEE_LOG "`rocm-smi` and the kernel's log (`dmesg | grep -i amdgpu`) may say more. "

/* What it means and what to do. */
static const char *advice(tri_hip_enum error) {
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
    case TRI_HIP_NO_DEVICE:
    case TRI_HIP_INVALID_DEVICE:
      return "the GPU that was there is gone, or was never free to be used: `rocminfo` shows what there is. " SEE_LOG;
    case TRI_HIP_UNKNOWN:
    case TRI_HIP_RUNTIME_MEMORY:
    case TRI_HIP_RUNTIME_OTHER: return SEE_LOG "A GPU that was reset, or a driver that was updated, wants a reboot";
    default: break; /* of some hundred, which AMD adds to */
  }
  if (error >= TRI_HIP_CAPTURE_FIRST && error <= TRI_HIP_CAPTURE_LAST)
    return "work was recorded that cannot be: a mistake of this program's";
  return SEE_LOG "If it persists, it is a bug in this program or a fault of ROCm's";
}

bool tri_hip_is_lasting(tri_hip_enum error) {
  switch (error) {
    case TRI_HIP_ECC:
    case TRI_HIP_ILLEGAL_STATE:
    case TRI_HIP_ILLEGAL_ADDRESS:
    case TRI_HIP_LAUNCH_TIMEOUT:
    case TRI_HIP_ASSERT:
    case TRI_HIP_LAUNCH_FAILED:
    case TRI_HIP_NO_DEVICE:
    case TRI_HIP_UNKNOWN:
    case TRI_HIP_RUNTIME_OTHER: return true;
    default: return false;
  }
}

tri_status tri_hip_failed(const tri_hip_driver *driver, const char *of, const char *call, tri_hip_enum error) {
  const char *name = driver->calls.error_name(error), *text = driver->calls.error_text(error);
  const bool full = error == TRI_HIP_OUT_OF_MEMORY;
  return tri_fail(full ? TRI_OUT_OF_MEMORY : TRI_DEVICE_FAILED, "%s: %s returned %s (%u, %s): %s", of, call,
                  name == NULL ? "an error without a name" : name, error, text == NULL ? "no more is known" : text,
                  full ? "other processes may hold its memory (`rocm-smi --showpids` shows which)" : advice(error));
}

/* ---- why there is none ------------------------------------------------------------------------------------------- */

#define IN_CONTAINER "in a container: start it with --device /dev/kfd --device /dev/dri"

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

/* All that a process ever knows of it: written once, by open_once. */
static tri_hip_driver driver;
static tri_saved_error fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tri_status find_library(void) {
  static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                      NULL};
#define SYMBOL(field, name) TRI_GPU_SYMBOL(tri_hip_calls, field, #name),
#define SYMBOL_IF_ANY(field, name) TRI_GPU_SYMBOL_IF_ANY(tri_hip_calls, field, #name),
  static const tri_gpu_symbol symbols[] = {TRI_HIP_CALLS(SYMBOL) TRI_HIP_CALLS_IF_ANY(SYMBOL_IF_ANY){NULL, 0, false}};
#undef SYMBOL
#undef SYMBOL_IF_ANY
  static const tri_gpu_library what = {.what = "AMD's run-time library (HIP)",
                                       .how = HOW_TO_GET,
                                       .names = names,
                                       .folders = tri_hip_folders,
                                       .wheels = tri_hip_wheels,
                                       .symbols = symbols};
  return tri_gpu_library_open(&what, &driver.calls, &driver.path);
}

/* Variables that take GPUs out of a process's sight: "; HIP_VISIBLE_DEVICES is 0,1". */
static void add_variables(char *text, size_t bytes) {
  static const char *const names[] = {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = getenv(names[i]);
    const size_t used = strlen(text);
    if (value == NULL) continue;
    snprintf(text + used, bytes - used, "; %s is %s", names[i], value[0] == '\0' ? "empty" : value);
  }
}

static void tell_count(void) {
  char absence[512];
  if (driver.count == 0 && tri_hip_absence("/dev/kfd", "/dev/dri/renderD*", absence, sizeof absence)[0] != '\0') {
    snprintf(driver.why, sizeof driver.why, "%s (%s) shows no GPU: %s", driver.text, driver.path, absence);
  } else {
    snprintf(driver.why, sizeof driver.why, "%s (%s) shows %d GPU%s of AMD's", driver.text, driver.path, driver.count,
             driver.count == 1 ? "" : "s");
  }
  add_variables(driver.why, sizeof driver.why);
}

static tri_status open_driver(void) {
  if (driver.calls.version(&driver.version) != 0) driver.version = 0;
  const int major = driver.version / OF_MAJOR;
  snprintf(driver.text, sizeof driver.text, "HIP %d.%d.%d", major, driver.version % OF_MAJOR / OF_MINOR,
           driver.version % OF_MINOR);
  tri_hip_enum error = driver.calls.device_count(&driver.count);
  if (error == TRI_HIP_NO_DEVICE || error == TRI_HIP_INVALID_DEVICE) driver.count = 0, error = 0;
  if (error != 0) return tri_hip_failed(&driver, driver.path, "hipGetDeviceCount", error);
  tell_count();
  if (driver.count > 0 && (major < OLDEST_MAJOR || major > NEWEST_MAJOR)) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s is of %s, and this program knows versions %d to %d: take a ROCm of these (put its lib first "
                    "into LD_LIBRARY_PATH), or a newer version of this program",
                    driver.path, driver.text, OLDEST_MAJOR, NEWEST_MAJOR);
  }
  return TRI_OK;
}

static void open_once(void) {
  tri_status status = find_library();
  if (status == TRI_UNSUPPORTED) {
    snprintf(driver.why, sizeof driver.why, "%s", tri_status_message());
    return;
  }
  if (status == TRI_OK) status = open_driver();
  tri_error_save(&fault, status);
}

tri_status tri_hip_driver_open(const tri_hip_driver **out) {
  pthread_once(&once, open_once);
  *out = &driver;
  return tri_saved_error_restore(&fault);
}

/* ---- the chip's name --------------------------------------------------------------------------------------------- */

/* "gfx" and hexadecimal digits; features that the driver has switched on or off stand behind a colon. */
void tri_hip_chip(const char *name, char *out, size_t out_bytes) {
  const size_t length = strcspn(name, ":");
  out[0] = '\0';
  if (strncmp(name, "gfx", 3) != 0 || length < 6 || length >= out_bytes) return;
  if (strspn(name + 3, "0123456789abcdef") != length - 3) return;
  snprintf(out, out_bytes, "%.*s", (int)length, name);
}
