/* NVIDIA's driver: its functions, which are resolved once in a process, its version and the number of its GPUs, and
 * advice for its errors. cuda.c has the calls for one GPU. */
#include "device/gpu/cuda_driver.h"

#include "base/memory.h"
#include "files/file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------------------------------------------ */

#define SEE_LOG "`nvidia-smi` and the kernel's log (`dmesg | grep -i xid`) may say more. "

/* Returns what the user can do about an error. */
static const char *cuda_advice(tri_gpu_enum error) {
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
    case TRI_CUDA_UNKNOWN:
      return SEE_LOG "After a GPU has fallen off the bus, or its driver was updated, a reboot is needed";
    default: break; /* no specific advice for the other errors: NVIDIA has about a hundred, and adds new ones */
  }
  if (error >= TRI_CUDA_MPS_FIRST && error <= TRI_CUDA_MPS_LAST) {
    return "NVIDIA's MPS server, through which this process reaches the GPU, is gone or full: see its log, or unset "
           "CUDA_MPS_PIPE_DIRECTORY";
  }
  return SEE_LOG "If it persists, it is a bug in this program or a fault of the driver's";
}

/* ---- calls whose prototypes are CUDA's own ----------------------------------------------------------------------- */

/* State of the driver in this process: written once, by open_once. */
static tri_cuda_driver driver = {.is.processes_tool = "nvidia-smi", .is.advice = cuda_advice};
static tri_saved_error fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const char *cuda_error_name(tri_gpu_enum error) {
  const char *name = NULL;
  return driver.own.error_name(error, &name) == 0 ? name : NULL;
}

static const char *cuda_error_text(tri_gpu_enum error) {
  const char *text = NULL;
  return driver.own.error_text(error, &text) == 0 ? text : NULL;
}

static tri_gpu_enum cuda_memory_create(void **out, size_t bytes) {
  tri_cuda_address memory = 0;
  const tri_gpu_enum error = driver.own.memory_create(&memory, bytes);
  *out = (void *)(uintptr_t)memory;
  return error;
}

static tri_gpu_enum cuda_memory_destroy(void *memory) { return driver.own.memory_destroy((uintptr_t)memory); }

static tri_gpu_enum cuda_memory_range(void **base, size_t *bytes, void *memory) {
  tri_cuda_address first = 0;
  const tri_gpu_enum error = driver.own.memory_range(&first, bytes, (uintptr_t)memory);
  *base = (void *)(uintptr_t)first;
  return error;
}

static tri_gpu_enum cuda_copy(void *to, const void *from, size_t bytes, tri_gpu_enum kind,
                              tri_gpu_stream_handle stream) {
  (void)kind;
  return driver.own.copy((uintptr_t)to, (uintptr_t)from, bytes, stream);
}

static tri_cuda_copy_side side_of(bool on_host, const void *at, size_t pitch) {
  if (on_host) return (tri_cuda_copy_side){.memory = TRI_CUDA_MEMORY_HOST, .host = at, .pitch = pitch};
  return (tri_cuda_copy_side){.memory = TRI_CUDA_MEMORY_DEVICE, .device = (uintptr_t)at, .pitch = pitch};
}

static tri_gpu_enum cuda_copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                                   size_t height, tri_gpu_enum kind, tri_gpu_stream_handle stream) {
  const bool to_host = kind == TRI_GPU_COPY_HOST_TO_HOST || kind == TRI_GPU_COPY_DEVICE_TO_HOST;
  const bool from_host = kind == TRI_GPU_COPY_HOST_TO_HOST || kind == TRI_GPU_COPY_HOST_TO_DEVICE;
  const tri_cuda_copy rows = {.from = side_of(from_host, from, from_pitch),
                              .to = side_of(to_host, to, to_pitch),
                              .width_bytes = width_bytes,
                              .height = height};
  return driver.own.copy_rows(&rows, stream);
}

static tri_gpu_enum cuda_fill(void *to, int value, size_t bytes, tri_gpu_stream_handle stream) {
  return driver.own.fill((uintptr_t)to, (unsigned char)value, bytes, stream);
}

static void adapt_calls(void) {
#define ADAPT(field, cuda, hip) driver.is.calls.field = cuda_##field;
  TRI_GPU_CALLS_ADAPTED(ADAPT)
#undef ADAPT
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

#define HOW_TO_GET "It comes with NVIDIA's driver, version 525 or newer (in a container: start it with --gpus or --nv)"

enum { OLDEST_VERSION = 12000 };

static const char *const names[] = {"libcuda.so.1", NULL};
static const char *const folders[] = {"/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", NULL};

#define ALIKE(field, cuda, hip) TRI_GPU_SYMBOL(tri_cuda_driver, is.calls.field, #cuda),
#define ADAPTED(field, cuda, hip) TRI_GPU_SYMBOL(tri_cuda_driver, own.field, #cuda),
#define OWN(field, name) TRI_GPU_SYMBOL(tri_cuda_driver, own.field, #name),
#define OWN_IF_ANY(field, name) TRI_GPU_SYMBOL_IF_ANY(tri_cuda_driver, own.field, #name),
static const tri_gpu_symbol symbols[] = {TRI_CUDA_CALLS(OWN) TRI_CUDA_CALLS_IF_ANY(OWN_IF_ANY)
                                             TRI_GPU_CALLS_ALIKE(ALIKE) TRI_GPU_CALLS_ADAPTED(ADAPTED){0}};

static const tri_gpu_library library = {
    .what = "NVIDIA's driver", .how = HOW_TO_GET, .names = names, .folders = folders, .symbols = symbols};

/* Reads the version of NVIDIA's kernel module, such as "580.65.06", from its file in /proc; "" if it cannot be read. */
static void read_module_version(char out[16]) {
  static const char path[] = "/proc/driver/nvidia/version";
  char *text = NULL;
  size_t bytes = 0;
  out[0] = '\0';
  if (!tri_path_exists(path) || tri_file_read(path, 1 << 16, &text, &bytes) != TRI_OK) return;
  for (const char *at = strstr(text, "Module"); at != NULL && *at != '\0' && *at != '\n'; at++) {
    size_t length = strspn(at, "0123456789.");
    if (at > text && at[-1] == ' ' && length >= 3 && length < 16 && memchr(at, '.', length) != NULL) {
      snprintf(out, 16, "%.*s", (int)length, at);
      break;
    }
  }
  tri_free(text);
}

static void describe(void) {
  char module[16];
  read_module_version(module);
  snprintf(driver.is.text, sizeof driver.is.text, module[0] == '\0' ? "%sCUDA %d.%d" : "%s (CUDA %d.%d)", module,
           driver.is.version / 1000, driver.is.version % 1000 / 10);
}

/* Initialises the driver and counts its GPUs; writes what it found to driver.is.why. */
static tri_status count_devices(void) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  const char *call = "cuInit";
  tri_gpu_enum error = driver.own.init(0);
  if (error == 0) {
    call = "cuDeviceGetCount";
    error = driver.is.calls.device_count(&driver.is.count);
  }
  if (error == TRI_CUDA_STUB_LIBRARY) {
    snprintf(driver.is.why, sizeof driver.is.why, "%s is the toolkit's stub, not NVIDIA's driver", driver.is.path);
  } else if (error != 0 && error != TRI_GPU_NO_DEVICE) {
    return tri_gpu_driver_failed(&driver.is, driver.is.path, call, error);
  } else {
    if (error != 0) driver.is.count = 0;
    snprintf(driver.is.why, sizeof driver.is.why, "NVIDIA's driver %s (%s) shows %d GPU%s%s%s", driver.is.text,
             driver.is.path, driver.is.count, driver.is.count == 1 ? "" : "s",
             visible == NULL ? "" : "; CUDA_VISIBLE_DEVICES is ",
             visible == NULL      ? ""
             : visible[0] == '\0' ? "empty"
                                  : visible);
  }
  return TRI_OK;
}

static tri_status open_driver(void) {
  if (driver.is.calls.version(&driver.is.version) != 0) driver.is.version = 0;
  describe();
  TRI_TRY(count_devices());
  if (driver.is.count > 0 && driver.is.version < OLDEST_VERSION) {
    return tri_fail(TRI_UNSUPPORTED,
                    "NVIDIA's driver %s (%s) is older than CUDA 12.0, from which on this program's kernels can be "
                    "compiled: update it to version 525 or newer",
                    driver.is.text, driver.is.path);
  }
  return TRI_OK;
}

static void open_once(void) {
  adapt_calls();
  tri_error_save(&fault, tri_gpu_driver_load(&library, &driver, &driver.is, open_driver));
}

tri_status tri_cuda_driver_open(const tri_gpu_driver **out) {
  pthread_once(&once, open_once);
  *out = &driver.is;
  return tri_saved_error_restore(&fault);
}
