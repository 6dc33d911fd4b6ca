#include "device/gpu/cuda_driver.h"

#include "base/file.h"
#include "base/memory.h"
#include "device/gpu/library.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

#define SEE_LOG "`nvidia-smi` and the kernel's log (`dmesg | grep -i xid`) may say more. "

/* What it means and what to do; "": unknown. */
static const char *advice(int error) {
  switch (error) {
    case TRI_CUDA_DEVICE_UNAVAILABLE:
      return "another process has this GPU to itself (`nvidia-smi` shows which): wait for it, take another GPU, or set "
             "the compute mode to default (`nvidia-smi -c 0`)";
    case TRI_CUDA_ECC:
    case TRI_CUDA_CONTAINED:
      return "the GPU's memory is faulty: " SEE_LOG
             "A training run resumes from its last checkpoint: start it on another GPU, and let the administrator "
             "reset or replace this one";
    case TRI_CUDA_NVLINK:
      return "a link between GPUs is faulty: " SEE_LOG
             "A training run resumes from its last checkpoint: start it on another node";
    case TRI_CUDA_ILLEGAL_ADDRESS:
    case TRI_CUDA_ASSERT:
    case TRI_CUDA_HARDWARE_STACK:
    case TRI_CUDA_ILLEGAL_INSTRUCTION:
    case TRI_CUDA_MISALIGNED_ADDRESS:
    case TRI_CUDA_INVALID_ADDRESS_SPACE:
    case TRI_CUDA_INVALID_PC:
    case TRI_CUDA_LAUNCH_FAILED:
      return "a kernel went wrong, or the GPU fell off the bus: " SEE_LOG
             "A training run resumes from its last checkpoint; if it happens on other GPUs, too, it is a bug in this "
             "program, and `device: gpu:blocking` shows which kernel it is";
    case TRI_CUDA_LAUNCH_TIMEOUT:
      return "a kernel took longer than this GPU's driver allows: it serves a screen; take another GPU";
    case TRI_CUDA_SYSTEM_NOT_READY:
      return "the node's GPUs are not set up yet: NVIDIA's fabric manager or persistence daemon does not run; tell the "
             "administrator";
    case TRI_CUDA_SYSTEM_DRIVER_MISMATCH:
      return "libcuda.so.1 and the kernel's module are of different versions: the driver was updated under a running "
             "system, or LD_LIBRARY_PATH leads to another libcuda; reboot, or mend that";
    case TRI_CUDA_COMPAT_NOT_SUPPORTED:
      return "the forward-compatible libcuda that was found is not for this GPU: take the folder with it (`compat`) "
             "out "
             "of LD_LIBRARY_PATH";
    case TRI_CUDA_UNKNOWN: return SEE_LOG "A GPU that has fallen off, or a driver that was updated, wants a reboot";
    default: break; /* of some hundred, which NVIDIA adds to */
  }
  if (error >= TRI_CUDA_MPS_FIRST && error <= TRI_CUDA_MPS_LAST) {
    return "NVIDIA's MPS server, through which this process reaches the GPU, is gone or full: see its log, or unset "
           "CUDA_MPS_PIPE_DIRECTORY";
  }
  if (error >= TRI_CUDA_CAPTURE_FIRST && error <= TRI_CUDA_CAPTURE_LAST)
    return "work was recorded that cannot be: a mistake of this program's";
  return SEE_LOG "If it persists, it is a bug in this program or a fault of the driver's";
}

tri_status tri_cuda_failed(const tri_cuda_driver *driver, const char *of, const char *call, int error) {
  const char *name = NULL, *text = NULL;
  if (driver->calls.error_name(error, &name) != 0 || name == NULL) name = "an error without a name";
  if (driver->calls.error_text(error, &text) != 0 || text == NULL) text = "no more is known";
  return tri_fail(error == TRI_CUDA_OUT_OF_MEMORY ? TRI_OUT_OF_MEMORY : TRI_DEVICE_FAILED,
                  "%s: %s returned %s (%d, %s): %s", of, call, name, error, text,
                  error == TRI_CUDA_OUT_OF_MEMORY ? "other processes may hold its memory (`nvidia-smi` shows which)"
                                                  : advice(error));
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

#define HOW_TO_GET "It comes with NVIDIA's driver, version 525 or newer (in a container: start it with --gpus or --nv)"

enum { OLDEST_VERSION = 12000 };

/* All that a process ever knows of the driver: written once, by open_once. */
static tri_cuda_driver driver;
static tri_saved_error fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static tri_status find_library(void) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  static const char *const folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", NULL};
  static const tri_gpu_symbol symbols[] = {
#define SYMBOL(field, name) TRI_GPU_SYMBOL(tri_cuda_calls, field, #name),
#define SYMBOL_IF_ANY(field, name) TRI_GPU_SYMBOL_IF_ANY(tri_cuda_calls, field, #name),
      TRI_CUDA_CALLS(SYMBOL) TRI_CUDA_CALLS_IF_ANY(SYMBOL_IF_ANY){NULL, 0, false}};
#undef SYMBOL
#undef SYMBOL_IF_ANY
  static const tri_gpu_library what = {
      .what = "NVIDIA's driver", .how = HOW_TO_GET, .names = names, .folders = folders, .symbols = symbols};
  return tri_gpu_library_open(&what, &driver.calls, &driver.path);
}

/* "580.65.06" of what the kernel's module says of itself, or "". */
static void read_module_version(char out[16]) {
  static const char path[] = "/proc/driver/nvidia/version";
  char *text = NULL;
  size_t bytes = 0;
  out[0] = '\0';
  if (!tri_path_exists(path) || tri_file_read(path, 1 << 16, &text, &bytes) != TRI_OK) return;
  for (const char *at = strstr(text, "Module"); at != NULL && *at != '\0' && *at != '\n'; at++) {
    size_t length = strspn(at, "0123456789.");
    if (at[-1] == ' ' && length >= 3 && length < 16 && memchr(at, '.', length) != NULL) {
      snprintf(out, 16, "%.*s", (int)length, at);
      break;
    }
  }
  tri_free(text);
}

static void describe(void) {
  char module[16];
  read_module_version(module);
  snprintf(driver.text, sizeof driver.text, module[0] == '\0' ? "%sCUDA %d.%d" : "%s (CUDA %d.%d)", module,
           driver.version / 1000, driver.version % 1000 / 10);
}

static tri_status count_devices(void) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  int error = driver.calls.init(0);
  if (error == 0) error = driver.calls.device_count(&driver.count);
  if (error == TRI_CUDA_STUB_LIBRARY) {
    snprintf(driver.why, sizeof driver.why, "%s is the toolkit's stub, not NVIDIA's driver", driver.path);
  } else if (error != 0 && error != TRI_CUDA_NO_DEVICE) {
    return tri_cuda_failed(&driver, driver.path, "cuInit", error);
  } else {
    if (error != 0) driver.count = 0;
    snprintf(driver.why, sizeof driver.why, "NVIDIA's driver %s (%s) shows %d GPU%s%s%s", driver.text, driver.path,
             driver.count, driver.count == 1 ? "" : "s", visible == NULL ? "" : "; CUDA_VISIBLE_DEVICES is ",
             visible == NULL      ? ""
             : visible[0] == '\0' ? "empty"
                                  : visible);
  }
  return TRI_OK;
}

static tri_status open_driver(void) {
  if (driver.calls.driver_version(&driver.version) != 0) driver.version = 0;
  describe();
  TRI_TRY(count_devices());
  if (driver.count > 0 && driver.version < OLDEST_VERSION) {
    return tri_fail(TRI_UNSUPPORTED,
                    "NVIDIA's driver %s (%s) is older than CUDA 12.0, from which on this program's kernels can be "
                    "compiled: update it to version 525 or newer",
                    driver.text, driver.path);
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

tri_status tri_cuda_driver_open(const tri_cuda_driver **out) {
  pthread_once(&once, open_once);
  *out = &driver;
  return tri_saved_error_restore(&fault);
}
