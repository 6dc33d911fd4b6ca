/* The first filling of the table of run-time calls: NVIDIA's driver. A process has the GPU's primary context, which it
 * shares with other libraries in it (an MPI that knows GPUs, cuBLASLt); each call makes it the calling thread's.
 *
 * Errors of a GPU stay: once a kernel has failed, or the GPU has gone, every later call returns the same, and the first
 * to be told is what the program stops with. */
#include "base/format.h"
#include "base/memory.h"
#include "device/gpu/cuda_driver.h"
#include "device/gpu/gemm.h"
#include "device/gpu/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tri_gpu_context {
  const tri_cuda_driver *driver;
  const tri_cuda_calls *calls;
  int ordinal;
  tri_cuda_device device;
  tri_cuda_context own;
  tri_cuda_stream zeroing; /* of memory as it is made */
  atomic_size_t held;      /* bytes */
  char label[128];         /* "GPU 0 (NVIDIA H200)" */
};

/* What was queued last, for who reads of a fault that shows later. */
typedef struct last_work {
  const char *kernel; /* NULL: none yet */
  tri_origin origin;
} last_work;

struct tri_gpu_stream {
  tri_gpu_context *context;
  tri_queue *queue;
  tri_cuda_stream own;
  last_work last;
};

struct tri_gpu_event {
  tri_gpu_context *context;
  tri_cuda_event own;
  last_work last;
};

struct tri_gpu_function {
  tri_gpu_module *module;
  tri_gpu_function *next;
  tri_cuda_function own;
  size_t shared_bytes; /* that it may be asked for at most so far */
};

struct tri_gpu_module {
  tri_gpu_context *context;
  tri_cuda_module own;
  pthread_mutex_t lock; /* of the functions' shared_bytes */
  tri_gpu_function *functions;
};

struct tri_gpu_graph {
  tri_gpu_context *context;
  tri_cuda_graph_run own;
  last_work last;
};

/* Makes the context this thread's, and does the call. */
#define CALL(context, name, ...)                                                                                       \
  do {                                                                                                                 \
    TRI_TRY(use(context));                                                                                             \
    int error_ = (context)->calls->name(__VA_ARGS__);                                                                  \
    if (error_ != 0) return tri_cuda_failed((context)->driver, (context)->label, cuda_name_of_##name, error_);         \
  } while (0)

#define NAME_OF(field, name) static const char cuda_name_of_##field[] __attribute__((unused)) = #name;
TRI_CUDA_CALLS(NAME_OF)
TRI_CUDA_CALLS_IF_ANY(NAME_OF)
#undef NAME_OF

static tri_status use(const tri_gpu_context *context) {
  int error = context->calls->context_use(context->own);
  return error == 0 ? TRI_OK : tri_cuda_failed(context->driver, context->label, cuda_name_of_context_use, error);
}

/* For cleaning up: a failure has been reported already, or does not matter any more. */
static bool use_quietly(const tri_gpu_context *context) { return context->calls->context_use(context->own) == 0; }

/* ---- the context ------------------------------------------------------------------------------------------------- */

static tri_status cuda_count(int *out, const char **why) {
  const tri_cuda_driver *driver = NULL;
  TRI_TRY(tri_cuda_driver_open(&driver));
  *out = driver->count;
  *why = driver->why;
  return TRI_OK;
}

static void cuda_close(tri_gpu_context *context) {
  if (context->own != NULL) {
    if (context->zeroing != NULL && use_quietly(context)) (void)context->calls->stream_destroy(context->zeroing);
    (void)context->calls->context_use(NULL);
    (void)context->calls->context_release(context->device);
  }
  tri_free(context);
}

/* The first call that takes memory of the GPU: where another process has filled it, there is not even room for this. */
static tri_status retain(tri_gpu_context *context) {
  int error = context->calls->context_retain(&context->own, context->device);
  if (error == TRI_CUDA_OUT_OF_MEMORY) {
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "%s has no memory left to begin with: other processes hold it (`nvidia-smi` shows which). Wait for "
                    "them, end them, or take another GPU",
                    context->label);
  }
  return error == 0 ? TRI_OK : tri_cuda_failed(context->driver, context->label, cuda_name_of_context_retain, error);
}

static tri_status fill(tri_gpu_context *context) {
  const tri_cuda_driver *driver = context->driver;
  char name[TRI_DEVICE_NAME_BYTES] = "";
  snprintf(context->label, sizeof context->label, "GPU %d", context->ordinal);
  int error = context->calls->device(&context->device, context->ordinal);
  if (error != 0) return tri_cuda_failed(driver, context->label, cuda_name_of_device, error);
  error = context->calls->device_name(name, sizeof name, context->device);
  if (error != 0) return tri_cuda_failed(driver, context->label, cuda_name_of_device_name, error);
  snprintf(context->label, sizeof context->label, "GPU %d (%s)", context->ordinal, name);
  TRI_TRY(retain(context));
  CALL(context, stream_create, &context->zeroing, TRI_CUDA_STREAM_NON_BLOCKING);
  return TRI_OK;
}

static tri_status cuda_enter(tri_gpu_context *context) { return use(context); }

static tri_status cuda_open(int ordinal, const char *options, tri_gpu_context **out) {
  const tri_cuda_driver *driver = NULL;
  tri_gpu_context *context = NULL;
  TRI_TRY(tri_cuda_driver_open(&driver));
  if (options[0] != '\0') return tri_fail(TRI_BAD_CONFIG, "a GPU of NVIDIA's has no option `%s`", options);
  if (ordinal < 0 || ordinal >= driver->count) {
    return tri_fail(TRI_UNSUPPORTED, "there is no GPU %d: %s", ordinal, driver->why);
  }
  TRI_TRY(tri_alloc("a GPU's context", 1, sizeof *context, &context));
  context->driver = driver;
  context->calls = &driver->calls;
  context->ordinal = ordinal;
  tri_status status = fill(context);
  if (status != TRI_OK) {
    cuda_close(context);
    return status;
  }
  *out = context;
  return TRI_OK;
}

/* 0 if the driver does not say. */
static int attribute(const tri_gpu_context *context, int which) {
  int value = 0;
  return context->calls->device_attribute(&value, which, context->device) == 0 && value > 0 ? value : 0;
}

/* From 9.0 on each chip has instructions of its own, which code for it alone (`a`) may use. */
static void name_architecture(const tri_gpu_context *context, char *out, size_t out_bytes) {
  int major = attribute(context, TRI_CUDA_CAPABILITY_MAJOR), minor = attribute(context, TRI_CUDA_CAPABILITY_MINOR);
  snprintf(out, out_bytes, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
}

static tri_status cuda_facts(tri_gpu_context *context, tri_gpu_facts *out) {
  *out = (tri_gpu_facts){.warp = attribute(context, TRI_CUDA_WARP),
                         .processors = attribute(context, TRI_CUDA_PROCESSORS),
                         .clock_hz = attribute(context, TRI_CUDA_CLOCK_KHZ) * 1e3,
                         .memory_clock_hz = attribute(context, TRI_CUDA_MEMORY_CLOCK_KHZ) * 1e3,
                         .memory_bus_bits = attribute(context, TRI_CUDA_MEMORY_BUS_BITS),
                         .l2_bytes = (size_t)attribute(context, TRI_CUDA_L2_BYTES),
                         .shared_bytes = (size_t)attribute(context, TRI_CUDA_SHARED_BYTES_ASKED),
                         .block_threads = attribute(context, TRI_CUDA_BLOCK_THREADS),
                         .peer = TRI_PEER_CUDA};
  snprintf(out->driver, sizeof out->driver, "%s", context->driver->text);
  name_architecture(context, out->architecture, sizeof out->architecture);
  CALL(context, device_name, out->name, sizeof out->name, context->device);
  CALL(context, device_bus, out->bus, sizeof out->bus, context->device);
  CALL(context, device_memory, &out->memory_bytes, context->device);
  return TRI_OK;
}

static tri_status cuda_memory_free(tri_gpu_context *context, size_t *out) {
  size_t total = 0;
  CALL(context, memory_info, out, &total);
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What is not allowed while a thread records work is allowed in between: memory and modules do not belong to the work.
 * The driver changes `mode` for the one before. */
static void exchange_mode(const tri_gpu_context *context, tri_cuda_enum *mode) {
  (void)context->calls->capture_mode(mode);
}

static tri_status no_memory(tri_gpu_context *context, size_t bytes) {
  size_t free = 0, total = 0, held = atomic_load(&context->held);
  char wanted[32], left[32], all[32], own[32], others[32];
  if (context->calls->memory_info(&free, &total) != 0) {
    return tri_cuda_failed(context->driver, context->label, cuda_name_of_memory_create, TRI_CUDA_OUT_OF_MEMORY);
  }
  size_t taken = total - free;
  return tri_fail(
      TRI_OUT_OF_MEMORY,
      "%s does not give %s: of its %s this process holds %s, others and the driver %s, and %s are free. Where another "
      "process holds much (`nvidia-smi` shows which), wait for it or take another GPU; else make the micro-batches "
      "smaller or spread the model over more GPUs",
      context->label, tri_format_bytes((double)bytes, wanted, sizeof wanted),
      tri_format_bytes((double)total, all, sizeof all), tri_format_bytes((double)held, own, sizeof own),
      tri_format_bytes((double)(taken > held ? taken - held : 0), others, sizeof others),
      tri_format_bytes((double)free, left, sizeof left));
}

static tri_status zero(const tri_gpu_context *context, tri_cuda_address memory, size_t bytes) {
  CALL(context, fill, memory, 0, bytes, context->zeroing);
  CALL(context, stream_finish, context->zeroing);
  return TRI_OK;
}

static tri_status create_memory(tri_gpu_context *context, size_t bytes, void **out) {
  tri_cuda_address memory = 0, base = 0;
  size_t got = bytes;
  int error = context->calls->memory_create(&memory, bytes == 0 ? 1 : bytes);
  if (error == TRI_CUDA_OUT_OF_MEMORY) return no_memory(context, bytes);
  if (error != 0) return tri_cuda_failed(context->driver, context->label, cuda_name_of_memory_create, error);
  tri_status status = zero(context, memory, bytes);
  if (status != TRI_OK) {
    (void)context->calls->memory_destroy(memory);
    return status;
  }
  if (context->calls->memory_range(&base, &got, memory) == 0) atomic_fetch_add(&context->held, got);
  *out = (void *)(uintptr_t)memory;
  return TRI_OK;
}

static tri_status cuda_memory_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_cuda_enum mode = TRI_CUDA_CAPTURE_RELAXED;
  TRI_TRY(use(context));
  exchange_mode(context, &mode);
  tri_status status = create_memory(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void cuda_memory_destroy(tri_gpu_context *context, void *memory) {
  const tri_cuda_address address = (uintptr_t)memory;
  tri_cuda_address base = 0;
  size_t got = 0;
  if (!use_quietly(context)) return;
  if (context->calls->memory_range(&base, &got, address) == 0) atomic_fetch_sub(&context->held, got);
  (void)context->calls->memory_destroy(address);
}

static tri_status create_host(tri_gpu_context *context, size_t bytes, void **out) {
  int error = context->calls->host_create(out, bytes == 0 ? 1 : bytes, TRI_CUDA_HOST_PORTABLE);
  if (error == TRI_CUDA_OUT_OF_MEMORY) {
    char wanted[32];
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "the system gives no %s of page-locked memory for copies to and from %s: let fewer ranks share the "
                    "node, or give the job more memory",
                    tri_format_bytes((double)bytes, wanted, sizeof wanted), context->label);
  }
  return error == 0 ? TRI_OK : tri_cuda_failed(context->driver, context->label, cuda_name_of_host_create, error);
}

static tri_status cuda_host_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_cuda_enum mode = TRI_CUDA_CAPTURE_RELAXED;
  TRI_TRY(use(context));
  exchange_mode(context, &mode);
  tri_status status = create_host(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void cuda_host_destroy(tri_gpu_context *context, void *memory) {
  if (use_quietly(context)) (void)context->calls->host_destroy(memory);
}

/* All libraries of a process see one address space. */
static void *cuda_peer_address(tri_gpu_context *context, void *memory) {
  (void)context;
  return memory;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void cuda_stream_destroy(tri_gpu_stream *stream) {
  if (stream->own != NULL && use_quietly(stream->context)) {
    (void)stream->context->calls->stream_finish(stream->own);
    (void)stream->context->calls->stream_destroy(stream->own);
  }
  tri_free(stream);
}

static tri_status create_stream(tri_gpu_stream *stream) {
  CALL(stream->context, stream_create, &stream->own, TRI_CUDA_STREAM_NON_BLOCKING);
  return TRI_OK;
}

static tri_status cuda_stream_create(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out) {
  tri_gpu_stream *stream = NULL;
  TRI_TRY(tri_alloc("a stream", 1, sizeof *stream, &stream));
  stream->context = context;
  stream->queue = queue;
  tri_status status = create_stream(stream);
  if (status != TRI_OK) {
    tri_free(stream);
    return status;
  }
  *out = stream;
  return TRI_OK;
}

static void *cuda_stream_handle(tri_gpu_stream *stream, const char *work) {
  stream->last = (last_work){work, stream->queue->origin};
  return stream->own;
}

static tri_cuda_copy_side side_of(tri_side side, const void *at, size_t stride) {
  switch (side) {
    case TRI_SIDE_HOST: return (tri_cuda_copy_side){.memory = TRI_CUDA_MEMORY_HOST, .host = at, .pitch = stride};
    case TRI_SIDE_DEVICE: break;
  }
  return (tri_cuda_copy_side){.memory = TRI_CUDA_MEMORY_DEVICE, .device = (uintptr_t)at, .pitch = stride};
}

static tri_status copy_bytes(const tri_gpu_stream *stream, void *to, const void *from, size_t bytes) {
  CALL(stream->context, copy, (uintptr_t)to, (uintptr_t)from, bytes, stream->own);
  return TRI_OK;
}

/* The driver takes strides below 2 GiB. */
static tri_status cuda_copy(tri_gpu_stream *stream, const tri_copy *c) {
  if (c->rows == 1 || (c->to_stride == c->row_bytes && c->from_stride == c->row_bytes))
    return copy_bytes(stream, c->to, c->from, c->rows * c->row_bytes);
  if (c->to_stride > INT32_MAX || c->from_stride > INT32_MAX) {
    for (size_t r = 0; r < c->rows; r++) {
      TRI_TRY(copy_bytes(stream, (char *)c->to + r * c->to_stride, (const char *)c->from + r * c->from_stride,
                         c->row_bytes));
    }
    return TRI_OK;
  }
  const tri_cuda_copy rows = {.from = side_of(c->from_side, c->from, c->from_stride),
                              .to = side_of(c->to_side, c->to, c->to_stride),
                              .width_bytes = c->row_bytes,
                              .height = c->rows};
  CALL(stream->context, copy_rows, &rows, stream->own);
  return TRI_OK;
}

static tri_status cuda_fill_zero(tri_gpu_stream *stream, void *memory, size_t bytes) {
  CALL(stream->context, fill, (uintptr_t)memory, 0, bytes, stream->own);
  return TRI_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static tri_status create_event(tri_gpu_event *event, bool timed) {
  CALL(event->context, event_create, &event->own, timed ? 0 : TRI_CUDA_EVENT_UNTIMED);
  return TRI_OK;
}

static tri_status cuda_event_create(tri_gpu_context *context, bool timed, tri_gpu_event **out) {
  tri_gpu_event *event = NULL;
  TRI_TRY(tri_alloc("an event", 1, sizeof *event, &event));
  event->context = context;
  tri_status status = create_event(event, timed);
  if (status != TRI_OK) {
    tri_free(event);
    return status;
  }
  *out = event;
  return TRI_OK;
}

static void cuda_event_destroy(tri_gpu_event *event) {
  if (use_quietly(event->context)) (void)event->context->calls->event_destroy(event->own);
  tri_free(event);
}

static tri_status cuda_event_record(tri_gpu_event *event, tri_gpu_stream *stream) {
  CALL(event->context, event_record, event->own, stream->own);
  event->last = stream->last;
  return TRI_OK;
}

static tri_status cuda_stream_wait(tri_gpu_stream *stream, const tri_gpu_event *event) {
  CALL(stream->context, stream_wait, stream->own, event->own, 0);
  return TRI_OK;
}

/* A GPU does not say which of the work in front of an event has failed: the newest kernel is named, and that it may be
 * one before it. */
static tri_status wait_failed(const tri_gpu_event *event, int error) {
  char what[96], work[256];
  const tri_gpu_context *context = event->context;
  tri_status status = tri_cuda_failed(context->driver, context->label, cuda_name_of_event_wait, error);
  if (event->last.kernel == NULL) return status;
  snprintf(what, sizeof what, "kernel `%s`", event->last.kernel);
  return tri_fail(status, "work up to %s: %s", tri_origin_of_work(what, &event->last.origin, work, sizeof work),
                  tri_status_message());
}

static tri_status cuda_event_wait(const tri_gpu_event *event) {
  TRI_TRY(use(event->context));
  int error = event->context->calls->event_wait(event->own);
  return error == 0 ? TRI_OK : wait_failed(event, error);
}

static bool cuda_event_passed(const tri_gpu_event *event) {
  return !use_quietly(event->context) || event->context->calls->event_query(event->own) != TRI_CUDA_NOT_READY;
}

static tri_status cuda_event_seconds(const tri_gpu_event *from, const tri_gpu_event *to, double *out) {
  float milliseconds = 0;
  TRI_TRY(cuda_event_wait(from));
  TRI_TRY(cuda_event_wait(to));
  CALL(to->context, event_elapsed, &milliseconds, from->own, to->own);
  *out = milliseconds * 1e-3;
  return TRI_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* What the driver does not take was made by a compiler that it does not go with. */
static tri_status image_refused(const tri_gpu_context *context, const tri_gpu_image *image, int error,
                                const char *said) {
  const char *name = NULL;
  char hint[128];
  snprintf(hint, sizeof hint, " (`pip install nvidia-cuda-nvrtc-cu12`)");
  if (context->driver->version >= 13000) hint[0] = '\0';
  if (context->calls->error_name(error, &name) != 0 || name == NULL) name = "an error without a name";
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: NVIDIA's driver %s does not take the kernels `%s` as they were compiled: %s (%d)%s%s. Where the "
                  "compiler is newer than the driver, update the driver, or take a compiler of the driver's CUDA%s",
                  context->label, context->driver->text, image->module, name, error, said[0] == '\0' ? "" : ": ", said,
                  hint);
}

static tri_status load_module(tri_gpu_context *context, const tri_gpu_image *image, tri_cuda_module *out) {
  enum { SAID_BYTES = 1024 };
  char said[SAID_BYTES] = "";
  tri_cuda_enum options[2] = {TRI_CUDA_JIT_ERRORS, TRI_CUDA_JIT_ERRORS_BYTES};
  void *values[2] = {said, (void *)(uintptr_t)SAID_BYTES};
  int error = context->calls->module_load(out, image->image, 2, options, values);
  said[SAID_BYTES - 1] = '\0';
  switch (error) {
    case 0: return TRI_OK;
    case TRI_CUDA_INVALID_IMAGE:
    case TRI_CUDA_NO_BINARY_FOR_GPU:
    case TRI_CUDA_INVALID_TEXT:
    case TRI_CUDA_NO_TEXT_COMPILER:
    case TRI_CUDA_UNSUPPORTED_TEXT:
    case TRI_CUDA_TEXT_COMPILER_OFF: return image_refused(context, image, error, said);
    default: return tri_cuda_failed(context->driver, context->label, cuda_name_of_module_load, error);
  }
}

static tri_status cuda_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out) {
  tri_cuda_enum mode = TRI_CUDA_CAPTURE_RELAXED;
  tri_gpu_module *module = NULL;
  TRI_TRY(use(context));
  TRI_TRY(tri_alloc("a module", 1, sizeof *module, &module));
  module->context = context;
  exchange_mode(context, &mode);
  tri_status status = load_module(context, image, &module->own);
  exchange_mode(context, &mode);
  if (status != TRI_OK) {
    tri_free(module);
    return status;
  }
  pthread_mutex_init(&module->lock, NULL);
  *out = module;
  return TRI_OK;
}

static void cuda_module_unload(tri_gpu_module *module) {
  tri_gpu_function *next = NULL;
  for (tri_gpu_function *f = module->functions; f != NULL; f = next) {
    next = f->next;
    tri_free(f);
  }
  if (use_quietly(module->context)) (void)module->context->calls->module_unload(module->own);
  pthread_mutex_destroy(&module->lock);
  tri_free(module);
}

/* All of it now: the driver would otherwise load it in the first launch, which may be one that is recorded. */
static tri_status find_function(const tri_gpu_module *module, const char *name, tri_cuda_function *out) {
  CALL(module->context, module_function, out, module->own, name);
  if (module->context->calls->function_load == NULL) return TRI_OK;
  CALL(module->context, function_load, *out);
  return TRI_OK;
}

static tri_status cuda_module_function(tri_gpu_module *module, const char *name, tri_gpu_function **out) {
  tri_cuda_enum mode = TRI_CUDA_CAPTURE_RELAXED;
  tri_gpu_function *function = NULL;
  TRI_TRY(use(module->context));
  TRI_TRY(tri_alloc("a kernel", 1, sizeof *function, &function));
  function->module = module;
  exchange_mode(module->context, &mode);
  tri_status status = find_function(module, name, &function->own);
  exchange_mode(module->context, &mode);
  if (status != TRI_OK) {
    tri_free(function);
    return status;
  }
  function->next = module->functions;
  module->functions = function;
  *out = function;
  return TRI_OK;
}

static tri_status raise_shared(tri_gpu_function *function, const tri_gpu_launch_call *call) {
  const tri_gpu_context *context = function->module->context;
  if (call->shared_bytes <= function->shared_bytes) return TRI_OK;
  size_t most = (size_t)attribute(context, TRI_CUDA_SHARED_BYTES_ASKED);
  if (call->shared_bytes > most) {
    return tri_fail(TRI_UNSUPPORTED, "%s gives a block %zu bytes of shared memory, and kernel `%s` asks for %zu",
                    context->label, most, call->name, call->shared_bytes);
  }
  CALL(context, function_set, function->own, TRI_CUDA_FUNCTION_SHARED_ASKED, (int)call->shared_bytes);
  function->shared_bytes = call->shared_bytes;
  return TRI_OK;
}

/* A kernel has to be told that it may take more than 48 KiB, its declared memory counted. */
static tri_status allow_shared(const tri_gpu_launch_call *call) {
  if (call->shared_bytes == 0) return TRI_OK;
  pthread_mutex_lock(&call->function->module->lock);
  tri_status status = raise_shared(call->function, call);
  pthread_mutex_unlock(&call->function->module->lock);
  return status;
}

static tri_status cuda_launch(tri_gpu_stream *stream, const tri_gpu_launch_call *call) {
  size_t bytes = call->argument_bytes;
  void *extra[] = {(void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER, (void *)(uintptr_t)call->arguments,
                   (void *)(uintptr_t)TRI_CUDA_LAUNCH_BUFFER_BYTES, &bytes, (void *)(uintptr_t)TRI_CUDA_LAUNCH_END};
  TRI_TRY(allow_shared(call));
  CALL(stream->context, launch, call->function->own, call->grid.x, call->grid.y, call->grid.z, call->threads, 1, 1,
       (unsigned)call->shared_bytes, stream->own, NULL, extra);
  stream->last = (last_work){call->name, stream->queue->origin};
  return TRI_OK;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Of this thread alone: what others call meanwhile neither is recorded nor spoils it. */
static tri_status cuda_graph_begin(tri_gpu_stream *stream) {
  CALL(stream->context, capture_begin, stream->own, TRI_CUDA_CAPTURE_THREAD_LOCAL);
  return TRI_OK;
}

static tri_status end_recording(const tri_gpu_stream *stream, tri_cuda_graph_run *out) {
  tri_cuda_graph recorded = NULL;
  CALL(stream->context, capture_end, stream->own, &recorded);
  int error = stream->context->calls->graph_instantiate(out, recorded, 0);
  (void)stream->context->calls->graph_destroy(recorded);
  return error == 0
             ? TRI_OK
             : tri_cuda_failed(stream->context->driver, stream->context->label, cuda_name_of_graph_instantiate, error);
}

static tri_status cuda_graph_end(tri_gpu_stream *stream, tri_gpu_graph **out) {
  tri_cuda_graph_run run = NULL;
  TRI_TRY(end_recording(stream, &run));
  tri_status status = tri_alloc("a recording", 1, sizeof **out, out);
  if (status != TRI_OK) {
    (void)stream->context->calls->graph_run_destroy(run);
    return status;
  }
  **out = (tri_gpu_graph){stream->context, run, stream->last};
  return TRI_OK;
}

static tri_status cuda_graph_launch(tri_gpu_graph *graph, tri_gpu_stream *stream) {
  CALL(stream->context, graph_launch, graph->own, stream->own);
  stream->last = graph->last;
  return TRI_OK;
}

static void cuda_graph_destroy(tri_gpu_graph *graph) {
  if (use_quietly(graph->context)) (void)graph->context->calls->graph_run_destroy(graph->own);
  tri_free(graph);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const tri_gpu_runtime tri_gpu_cuda = {
    .name = "CUDA",
    .products = &tri_gpu_cublaslt,
    .count = cuda_count,
    .open = cuda_open,
    .close = cuda_close,
    .facts = cuda_facts,
    .enter = cuda_enter,
    .memory_free = cuda_memory_free,
    .memory_create = cuda_memory_create,
    .memory_destroy = cuda_memory_destroy,
    .host_create = cuda_host_create,
    .host_destroy = cuda_host_destroy,
    .peer_address = cuda_peer_address,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_handle = cuda_stream_handle,
    .copy = cuda_copy,
    .fill_zero = cuda_fill_zero,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .stream_wait = cuda_stream_wait,
    .event_wait = cuda_event_wait,
    .event_passed = cuda_event_passed,
    .event_seconds = cuda_event_seconds,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .module_function = cuda_module_function,
    .launch = cuda_launch,
    .graph_begin = cuda_graph_begin,
    .graph_end = cuda_graph_end,
    .graph_launch = cuda_graph_launch,
    .graph_destroy = cuda_graph_destroy,
};
