/* A stand-in for NVIDIA's driver (stand_in.h). It checks the rules of a real one: the context must be the calling
 * thread's, only work may be queued while a thread records, shared memory above 48 KiB must be requested, and images
 * must be for its chip and from a compiler that it supports. */
#include "device/gpu/kernel_list.h"
#include "stand_in.h"
#include "stand_in_work.h"

#include <pthread.h>

enum {
  INVALID_VALUE = 1,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901
};
enum { CONTEXT_BYTES = 64 << 20, STATIC_SHARED_BYTES = 48 << 10, MOST_SHARED_BYTES = 227 << 10 };

#define DECLARE(field, name) STAND_IN_EXPORT extern __typeof__(*((tri_cuda_calls *)NULL)->field) name;
#define DECLARE_ADAPTED(field, cuda, hip) DECLARE(field, cuda)
#define DECLARE_ALIKE(field, cuda, hip) STAND_IN_EXPORT extern __typeof__(*((tri_gpu_calls *)NULL)->field) cuda;
TRI_GPU_CALLS_ALIKE(DECLARE_ALIKE)
TRI_GPU_CALLS_ADAPTED(DECLARE_ADAPTED)
TRI_CUDA_CALLS(DECLARE)
TRI_CUDA_CALLS_IF_ANY(DECLARE)

/* So that none is forgotten. */
#define ROW(field, name) .field = name,
#define ROW_OF(field, cuda, hip) .field = cuda,
STAND_IN_EXPORT extern const tri_gpu_calls stand_in_alike;
const tri_gpu_calls stand_in_alike = {TRI_GPU_CALLS_ALIKE(ROW_OF)};
STAND_IN_EXPORT extern const tri_cuda_calls stand_in_own;
const tri_cuda_calls stand_in_own = {TRI_GPU_CALLS_ADAPTED(ROW_OF) TRI_CUDA_CALLS(ROW) TRI_CUDA_CALLS_IF_ANY(ROW)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int context_users;
static _Thread_local tri_cuda_context current;
static _Thread_local int recordings; /* by this thread */
static _Thread_local tri_gpu_enum thread_mode;
static int global_recordings;

/* ---- the beginning of every call --------------------------------------------------------------------------------- */

/* Returns whether a GPU cannot recover from the error. */
static int stays(int error) {
  return error == TRI_CUDA_ECC || error == TRI_CUDA_NVLINK || error == TRI_CUDA_CONTAINED ||
         error == TRI_CUDA_ILLEGAL_ADDRESS || error == TRI_CUDA_LAUNCH_TIMEOUT ||
         (error >= TRI_CUDA_ASSERT && error <= TRI_CUDA_LAUNCH_FAILED);
}

static int enter(const char *name, bool in_context) {
  if (stand_in_broken != 0) return stand_in_broken;
  const int told = stand_in_told(name);
  if (stays(told)) stand_in_broken = told;
  if (told != 0) return told;
  return in_context && current == NULL ? INVALID_CONTEXT : 0;
}

static int leave(int error) {
  pthread_mutex_unlock(&lock);
  return error;
}

#define ENTER(in_context)                                                                                              \
  do {                                                                                                                 \
    pthread_mutex_lock(&lock);                                                                                         \
    const int entered_ = enter(__func__, in_context);                                                                  \
    if (entered_ != 0) return leave(entered_);                                                                         \
  } while (0)

/* Returns whether a call that is not work invalidates a recording, which depends on the mode of the thread. */
static bool is_unsafe(void) {
  return (recordings > 0 || global_recordings > 0) && thread_mode != TRI_GPU_CAPTURE_RELAXED;
}

#define ENTER_UNSAFE()                                                                                                 \
  do {                                                                                                                 \
    ENTER(true);                                                                                                       \
    if (is_unsafe()) return leave(CAPTURE_UNSUPPORTED);                                                                \
  } while (0)

/* ---- the driver and its devices ---------------------------------------------------------------------------------- */

static int num_devices(void) { return (int)stand_in_number("gpus", 1); }
static size_t memory_bytes(void) { return (size_t)stand_in_number("memory", 2LL << 30); }
static size_t memory_left(void) {
  const size_t taken =
      (size_t)stand_in_number("taken", 0) + stand_in_memory_used() + (context_users > 0 ? (size_t)CONTEXT_BYTES : 0);
  return taken < memory_bytes() ? memory_bytes() - taken : 0;
}

tri_gpu_enum cuInit(unsigned flags) {
  ENTER(false);
  return leave(flags != 0 ? INVALID_VALUE : num_devices() == 0 ? TRI_GPU_NO_DEVICE : 0);
}

tri_gpu_enum cuDriverGetVersion(int *out) {
  *out = (int)stand_in_number("driver", 13000);
  return 0;
}

tri_gpu_enum cuGetErrorName(tri_gpu_enum error, const char **out) {
  switch (error) {
    case INVALID_VALUE: *out = "CUDA_ERROR_INVALID_VALUE"; return 0;
    case TRI_GPU_OUT_OF_MEMORY: *out = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case TRI_CUDA_NO_BINARY_FOR_GPU: *out = "CUDA_ERROR_NO_BINARY_FOR_GPU"; return 0;
    case TRI_CUDA_INVALID_IMAGE: *out = "CUDA_ERROR_INVALID_IMAGE"; return 0;
    case TRI_CUDA_ECC: *out = "CUDA_ERROR_ECC_UNCORRECTABLE"; return 0;
    case TRI_CUDA_UNSUPPORTED_TEXT: *out = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"; return 0;
    case TRI_CUDA_ILLEGAL_ADDRESS: *out = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    case TRI_CUDA_LAUNCH_FAILED: *out = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
    default: *out = NULL; return INVALID_VALUE;
  }
}

tri_gpu_enum cuGetErrorString(tri_gpu_enum error, const char **out) {
  *out = "as told to the stand-in";
  return error == 0 ? INVALID_VALUE : 0;
}

tri_gpu_enum cuDeviceGetCount(int *out) {
  ENTER(false);
  *out = num_devices();
  return leave(0);
}

tri_gpu_enum cuDeviceGet(tri_cuda_device *out, int ordinal) {
  ENTER(false);
  *out = ordinal;
  return leave(ordinal < num_devices() ? 0 : INVALID_VALUE);
}

tri_gpu_enum cuDeviceGetName(char *out, int bytes, tri_cuda_device device) {
  ENTER(false);
  snprintf(out, (size_t)bytes, "stand-in %d", device);
  return leave(0);
}

tri_gpu_enum cuDeviceGetAttribute(int *out, tri_gpu_enum attribute, tri_cuda_device device) {
  (void)device;
  const int chip = stand_in_version("chip", 90);
  ENTER(false);
  switch (attribute) {
    case TRI_CUDA_BLOCK_THREADS: *out = 1024; break;
    case TRI_CUDA_WARP: *out = 32; break;
    case TRI_CUDA_PROCESSORS: *out = 1; break;
    case TRI_CUDA_CAPABILITY_MAJOR: *out = chip / 10; break;
    case TRI_CUDA_CAPABILITY_MINOR: *out = chip % 10; break;
    case TRI_CUDA_SHARED_BYTES_ASKED: *out = MOST_SHARED_BYTES; break;
    case TRI_CUDA_CLOCK_KHZ:
    case TRI_CUDA_MEMORY_CLOCK_KHZ:
    case TRI_CUDA_MEMORY_BUS_BITS:
    case TRI_CUDA_L2_BYTES: *out = 1000; break;
    default: return leave(INVALID_VALUE);
  }
  return leave(0);
}

tri_gpu_enum cuDeviceTotalMem_v2(size_t *out, tri_cuda_device device) {
  (void)device;
  ENTER(false);
  *out = memory_bytes();
  return leave(0);
}

tri_gpu_enum cuDeviceGetPCIBusId(char *out, int bytes, tri_cuda_device device) {
  ENTER(false);
  snprintf(out, (size_t)bytes, "0000:%02x:00.0", 0x81 + (unsigned)device);
  return leave(0);
}

tri_gpu_enum cuDevicePrimaryCtxRetain(tri_cuda_context *out, tri_cuda_device device) {
  static char contexts[64];
  ENTER(false);
  if (context_users == 0 && memory_left() < CONTEXT_BYTES) return leave(TRI_GPU_OUT_OF_MEMORY);
  if (!stand_in_memory_open(memory_bytes())) return leave(TRI_CUDA_UNKNOWN);
  context_users++;
  *out = (tri_cuda_context)(void *)&contexts[device % 64];
  return leave(0);
}

tri_gpu_enum cuDevicePrimaryCtxRelease_v2(tri_cuda_device device) {
  (void)device;
  ENTER(false);
  context_users--;
  return leave(0);
}

tri_gpu_enum cuCtxSetCurrent(tri_cuda_context context) {
  ENTER(false);
  current = context;
  return leave(0);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

tri_gpu_enum cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(true);
  *free = memory_left();
  *total = memory_bytes();
  return leave(0);
}

tri_gpu_enum cuMemAlloc_v2(tri_cuda_address *out, size_t bytes) {
  ENTER_UNSAFE();
  if (bytes == 0) return leave(INVALID_VALUE);
  if (bytes > memory_left()) return leave(TRI_GPU_OUT_OF_MEMORY);
  *out = stand_in_memory_create(bytes);
  return leave(*out == 0 ? TRI_GPU_OUT_OF_MEMORY : 0);
}

tri_gpu_enum cuMemFree_v2(tri_cuda_address memory) {
  ENTER_UNSAFE();
  return leave(stand_in_memory_destroy(memory) ? 0 : INVALID_VALUE);
}

tri_gpu_enum cuMemGetAddressRange_v2(tri_cuda_address *base, size_t *bytes, tri_cuda_address memory) {
  ENTER(true);
  return leave(stand_in_memory_range(memory, base, bytes) ? 0 : NOT_FOUND);
}

tri_gpu_enum cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  ENTER_UNSAFE();
  if (bytes == 0 || flags != TRI_GPU_HOST_PORTABLE) return leave(INVALID_VALUE);
  *out = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return leave(*out == NULL ? TRI_GPU_OUT_OF_MEMORY : 0);
}

tri_gpu_enum cuMemFreeHost(void *memory) {
  ENTER_UNSAFE();
  free(memory);
  return leave(0);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

tri_gpu_enum cuMemcpyAsync(tri_cuda_address to, tri_cuda_address from, size_t bytes, tri_gpu_stream_handle stream) {
  ENTER(true);
  const work copy = {.kind = WORK_COPY,
                     .to = (char *)(uintptr_t)to,
                     .from = (const char *)(uintptr_t)from,
                     .rows = 1,
                     .row_bytes = bytes};
  return leave(stand_in_queue(stream, &copy));
}

static char *address_of(const tri_cuda_copy_side *side) {
  char *at = side->memory == TRI_CUDA_MEMORY_DEVICE ? (char *)(uintptr_t)side->device : (char *)(uintptr_t)side->host;
  return stand_in_memory_is(at) == (side->memory == TRI_CUDA_MEMORY_DEVICE) ? at : NULL;
}

tri_gpu_enum cuMemcpy2DAsync_v2(const tri_cuda_copy *c, tri_gpu_stream_handle stream) {
  ENTER(true);
  const work copy = {.kind = WORK_COPY,
                     .to = address_of(&c->to),
                     .from = address_of(&c->from),
                     .rows = c->height,
                     .row_bytes = c->width_bytes,
                     .to_pitch = c->to.pitch,
                     .from_pitch = c->from.pitch};
  if (copy.to == NULL || copy.from == NULL || c->width_bytes > c->to.pitch || c->width_bytes > c->from.pitch ||
      c->to.pitch > INT32_MAX || c->from.pitch > INT32_MAX) {
    return leave(INVALID_VALUE);
  }
  return leave(stand_in_queue(stream, &copy));
}

tri_gpu_enum cuMemsetD8Async(tri_cuda_address to, unsigned char value, size_t bytes, tri_gpu_stream_handle stream) {
  ENTER(true);
  const work fill = {.kind = WORK_FILL, .to = (char *)(uintptr_t)to, .row_bytes = bytes};
  return leave(value != 0 ? INVALID_VALUE : stand_in_queue(stream, &fill));
}

tri_gpu_enum cuStreamCreate(tri_gpu_stream_handle *out, unsigned flags) {
  ENTER(true);
  *out = flags == TRI_GPU_STREAM_NON_BLOCKING ? calloc(1, sizeof **out) : NULL;
  return leave(*out == NULL ? INVALID_VALUE : 0);
}

/* Events may still name it: its few bytes stay, where LeakSanitizer finds them. */
static tri_gpu_stream_handle destroyed_streams;

tri_gpu_enum cuStreamDestroy_v2(tri_gpu_stream_handle stream) {
  ENTER(true);
  stream->next = destroyed_streams;
  destroyed_streams = stream;
  return leave(stand_in_run(stream, stream->queued));
}

tri_gpu_enum cuStreamSynchronize(tri_gpu_stream_handle stream) {
  ENTER_UNSAFE();
  return leave(stand_in_run(stream, stream->queued));
}

tri_gpu_enum cuStreamWaitEvent(tri_gpu_stream_handle stream, tri_gpu_event_handle event, unsigned flags) {
  ENTER(true);
  const work wait = {.kind = WORK_WAIT, .stream = event->stream, .place = event->place};
  if (flags != 0 || stream->recording != NULL) return leave(CAPTURE_UNSUPPORTED);
  return leave(event->stream == NULL ? 0 : stand_in_queue(stream, &wait));
}

tri_gpu_enum cuEventCreate(tri_gpu_event_handle *out, unsigned flags) {
  ENTER(true);
  *out = calloc(1, sizeof **out);
  if (*out != NULL) (*out)->timed = flags == 0;
  return leave(*out == NULL ? INVALID_VALUE : 0);
}

tri_gpu_enum cuEventDestroy_v2(tri_gpu_event_handle event) {
  ENTER(true);
  if (event->stream != NULL) (void)stand_in_run(event->stream, event->place);
  free(event);
  return leave(stand_in_broken);
}

tri_gpu_enum cuEventRecord(tri_gpu_event_handle event, tri_gpu_stream_handle stream) {
  ENTER(true);
  const work record = {.kind = WORK_RECORD, .event = event};
  if (stream->recording != NULL) return leave(CAPTURE_UNSUPPORTED);
  event->stream = stream;
  event->place = stream->queued + 1;
  return leave(stand_in_queue(stream, &record));
}

tri_gpu_enum cuEventSynchronize(tri_gpu_event_handle event) {
  ENTER(true);
  return leave(event->stream == NULL ? 0 : stand_in_run(event->stream, event->place));
}

/* Who asks again and again gets on by one piece of work each time. */
tri_gpu_enum cuEventQuery(tri_gpu_event_handle event) {
  ENTER(true);
  if (event->stream == NULL || event->stream->done >= event->place) return leave(0);
  const int error = stand_in_run(event->stream, event->stream->done + 1);
  return leave(error != 0 ? error : event->stream->done >= event->place ? 0 : TRI_GPU_NOT_READY);
}

tri_gpu_enum cuEventElapsedTime(float *milliseconds, tri_gpu_event_handle from, tri_gpu_event_handle to) {
  ENTER(true);
  if (!from->timed || !to->timed || from->stream == NULL || to->stream == NULL) return leave(INVALID_HANDLE);
  if (from->stream->done < from->place || to->stream->done < to->place) return leave(TRI_GPU_NOT_READY);
  *milliseconds = (float)((to->time_s - from->time_s) * 1e3);
  return leave(0);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

#define EMULATED(name, type) EMULATED_(name, type, STAND_IN_WARP)
#define EMULATED_(name, type, warp) EMULATED__(name, type, warp)
#define EMULATED__(name, type, warp) tri_emulated_##name##_##type##_w##warp
#define KERNEL_OF(name, threads)                                                                                       \
  extern void EMULATED(name, 64)(const void *);                                                                        \
  extern void EMULATED(name, 32)(const void *);                                                                        \
  extern void EMULATED(name, 16)(const void *);
TRI_GPU_KERNELS(KERNEL_OF)

struct tri_gpu_function_object {
  const char *name;
  tri_emulator_kernel *kernel;
  unsigned most_threads;
  size_t shared_bytes;
};

struct tri_gpu_module_object {
  stand_in_image image;
  struct tri_gpu_function_object functions[TRI_GPU_NUM_KERNELS];
};

static void fill_module(tri_gpu_module_handle module) {
  static const struct {
    const char *name;
    unsigned threads;
    tri_emulator_kernel *kernels[3];
  } all[] = {
#define ALL(name, threads) {#name, threads, {EMULATED(name, 64), EMULATED(name, 32), EMULATED(name, 16)}},
      TRI_GPU_KERNELS(ALL)};
  const int type = module->image.bits == 64 ? 0 : module->image.bits == 32 ? 1 : 2;
  for (int i = 0; i < TRI_GPU_NUM_KERNELS; i++) {
    module->functions[i] = (struct tri_gpu_function_object){all[i].name, all[i].kernels[type], all[i].threads, 0};
  }
}

/* As a real driver: code for one chip on that chip, from a compiler of its CUDA; text for chips from one on, from no
 * newer compiler. */
static int check_image(const stand_in_image *image) {
  const int chip = stand_in_version("chip", 90), version = (int)stand_in_number("driver", 13000) / 10;
  const int driver = version / 100 * 10 + version % 100;
  if (image->binary) return image->chip == chip && image->made / 10 <= driver / 10 ? 0 : TRI_CUDA_NO_BINARY_FOR_GPU;
  if (image->made > driver) return TRI_CUDA_UNSUPPORTED_TEXT;
  return image->chip <= chip ? 0 : TRI_CUDA_INVALID_TEXT;
}

tri_gpu_enum cuModuleLoadDataEx(tri_gpu_module_handle *out, const void *image, unsigned num_options,
                                tri_gpu_enum *options, void **values) {
  ENTER_UNSAFE();
  stand_in_image read;
  if (num_options != 2 || options[0] != TRI_CUDA_JIT_ERRORS || options[1] != TRI_CUDA_JIT_ERRORS_BYTES)
    return leave(INVALID_VALUE);
  if (sscanf(image, STAND_IN_IMAGE_READ, read.module, &read.bits, &read.chip, &read.binary, &read.made) != 5)
    return leave(TRI_CUDA_INVALID_IMAGE);
  const int error = check_image(&read);
  if (error != 0) {
    snprintf(values[0], (size_t)(uintptr_t)values[1], "the image is for chip %d", read.chip);
    return leave(error);
  }
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return leave(TRI_GPU_OUT_OF_MEMORY);
  (*out)->image = read;
  fill_module(*out);
  return leave(0);
}

tri_gpu_enum cuModuleUnload(tri_gpu_module_handle module) {
  ENTER_UNSAFE();
  free(module);
  return leave(0);
}

tri_gpu_enum cuModuleGetFunction(tri_gpu_function_handle *out, tri_gpu_module_handle module, const char *name) {
  ENTER(true);
  for (int i = 0; i < TRI_GPU_NUM_KERNELS; i++) {
    if (strcmp(module->functions[i].name, name) != 0) continue;
    *out = &module->functions[i];
    return leave(0);
  }
  return leave(NOT_FOUND);
}

tri_gpu_enum cuFuncLoad(tri_gpu_function_handle function) {
  (void)function;
  ENTER_UNSAFE();
  return leave(0);
}

tri_gpu_enum cuFuncSetAttribute(tri_gpu_function_handle function, tri_gpu_enum attribute, int value) {
  ENTER(true);
  if (attribute != TRI_CUDA_FUNCTION_SHARED_ASKED || value < 0 || value > MOST_SHARED_BYTES)
    return leave(INVALID_VALUE);
  function->shared_bytes = (size_t)value;
  return leave(0);
}

tri_gpu_enum cuLaunchKernel(tri_gpu_function_handle function, unsigned x, unsigned y, unsigned z, unsigned threads_x,
                            unsigned threads_y, unsigned threads_z, unsigned shared_bytes, tri_gpu_stream_handle stream,
                            void **arguments, void **extra) {
  ENTER(true);
  work launch = {
      .kind = WORK_LAUNCH,
      .launch = {.kernel = function->kernel, .grid = {x, y, z}, .threads = threads_x, .shared_bytes = shared_bytes}};
  const size_t allowed = function->shared_bytes > STATIC_SHARED_BYTES ? function->shared_bytes : STATIC_SHARED_BYTES;
  if (arguments != NULL || extra[0] != (void *)TRI_CUDA_LAUNCH_BUFFER ||
      extra[2] != (void *)TRI_CUDA_LAUNCH_BUFFER_BYTES || extra[4] != (void *)TRI_CUDA_LAUNCH_END || threads_y != 1 ||
      threads_z != 1 || x == 0 || y == 0 || z == 0 || y > 65535 || z > 65535 || shared_bytes > allowed) {
    return leave(INVALID_VALUE);
  }
  if (threads_x > function->most_threads) return leave(TRI_CUDA_LAUNCH_RESOURCES);
  memcpy(&launch.argument_bytes, extra[3], sizeof launch.argument_bytes);
  if (launch.argument_bytes > sizeof launch.arguments) return leave(INVALID_VALUE);
  memcpy(launch.arguments, extra[1], launch.argument_bytes);
  return leave(stand_in_queue(stream, &launch));
}

/* ---- other libraries' work --------------------------------------------------------------------------------------- */

int stand_in_call(tri_gpu_stream_handle stream, stand_in_function *function,
                  const stand_in_operand operands[MOST_OPERANDS], const void *arguments, size_t argument_bytes) {
  ENTER(true);
  work call = {.kind = WORK_CALL, .function = function, .argument_bytes = argument_bytes};
  if (argument_bytes > sizeof call.arguments) return leave(INVALID_VALUE);
  memcpy(call.operands, operands, sizeof call.operands);
  memcpy(call.arguments, arguments, argument_bytes);
  return leave(stand_in_queue(stream, &call));
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

struct tri_gpu_graph_run_object {
  tri_gpu_graph_handle graph;
};

tri_gpu_enum cuStreamBeginCapture_v2(tri_gpu_stream_handle stream, tri_gpu_enum mode) {
  ENTER(true);
  if (stream->recording != NULL) return leave(INVALID_VALUE);
  stream->recording = calloc(1, sizeof *stream->recording);
  if (stream->recording == NULL) return leave(TRI_GPU_OUT_OF_MEMORY);
  recordings++;
  if (mode != TRI_GPU_CAPTURE_THREAD_LOCAL) global_recordings++;
  return leave(0);
}

tri_gpu_enum cuStreamEndCapture(tri_gpu_stream_handle stream, tri_gpu_graph_handle *out) {
  ENTER(true);
  if (stream->recording == NULL) return leave(CAPTURE_INVALIDATED);
  *out = stream->recording;
  stream->recording = NULL;
  recordings--;
  return leave(0);
}

tri_gpu_enum cuThreadExchangeStreamCaptureMode(tri_gpu_enum *exchanged) {
  ENTER(true);
  const tri_gpu_enum before = thread_mode;
  thread_mode = *exchanged;
  *exchanged = before;
  return leave(0);
}

static void release(tri_gpu_graph_handle graph) {
  work *next = NULL;
  for (work *w = graph->first; w != NULL; w = next) {
    next = w->next;
    free(w);
  }
  free(graph);
}

/* A copy, so that what was recorded may go. */
tri_gpu_enum cuGraphInstantiateWithFlags(tri_gpu_graph_run_handle *out, tri_gpu_graph_handle graph,
                                         unsigned long long flags) {
  ENTER(true);
  if (flags != 0) return leave(INVALID_VALUE);
  struct tri_gpu_stream_object nowhere = {.recording = calloc(1, sizeof *nowhere.recording)};
  *out = calloc(1, sizeof **out);
  if (*out == NULL || nowhere.recording == NULL) abort();
  for (const work *w = graph->first; w != NULL; w = w->next) (void)stand_in_queue(&nowhere, w);
  (*out)->graph = nowhere.recording;
  return leave(0);
}

tri_gpu_enum cuGraphLaunch(tri_gpu_graph_run_handle run, tri_gpu_stream_handle stream) {
  ENTER(true);
  int error = 0;
  for (const work *w = run->graph->first; w != NULL && error == 0; w = w->next) error = stand_in_queue(stream, w);
  return leave(error);
}

tri_gpu_enum cuGraphExecDestroy(tri_gpu_graph_run_handle run) {
  ENTER(true);
  release(run->graph);
  free(run);
  return leave(0);
}

tri_gpu_enum cuGraphDestroy(tri_gpu_graph_handle graph) {
  ENTER(true);
  release(graph);
  return leave(0);
}
