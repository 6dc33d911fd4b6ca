/* The second filling of the table of run-time calls: AMD's HIP. It has no contexts: the GPU is a setting of the thread,
 * and each call makes its own that of the calling thread.
 *
 * Nor do its errors stay, other than NVIDIA's: after a kernel has failed, later calls may succeed on what it has left.
 * So the first that a GPU does not recover from is kept, nothing is asked of the GPU from then on, and every later call
 * tells it again. (Where a kernel reads memory that is not there, most versions end the process themselves.) */
#include "base/format.h"
#include "base/memory.h"
#include "device/gpu/gemm.h"
#include "device/gpu/hip_driver.h"
#include "device/gpu/runtime.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct tri_gpu_context {
  const tri_hip_driver *driver;
  const tri_hip_calls *calls;
  int ordinal;
  tri_hip_stream zeroing;           /* of memory as it is made */
  atomic_size_t held;               /* bytes */
  char label[128];                  /* "GPU 0 (AMD Instinct MI250X)" */
  atomic_uint lasting;              /* the error that it does not recover from; 0 before */
  _Atomic(const char *) lasting_at; /* the call that told it */
};

/* What was queued last, for who reads of a fault that shows later. */
typedef struct last_work {
  const char *kernel; /* NULL: none yet */
  tri_origin origin;
} last_work;

struct tri_gpu_stream {
  tri_gpu_context *context;
  tri_queue *queue;
  tri_hip_stream own;
  last_work last;
};

struct tri_gpu_event {
  tri_gpu_context *context;
  tri_hip_event own;
  last_work last;
};

struct tri_gpu_function {
  tri_gpu_module *module;
  tri_gpu_function *next;
  tri_hip_function own;
};

struct tri_gpu_module {
  tri_gpu_context *context;
  tri_hip_module own;
  void *image; /* a copy: the library goes on reading what it was given */
  tri_gpu_function *functions;
};

struct tri_gpu_graph {
  tri_gpu_context *context;
  tri_hip_graph_run own;
  last_work last;
};

/* ---- calls ------------------------------------------------------------------------------------------------------- */

#define NAME_OF(field, name) static const char hip_name_of_##field[] __attribute__((unused)) = #name;
TRI_HIP_CALLS(NAME_OF)
TRI_HIP_CALLS_IF_ANY(NAME_OF)
#undef NAME_OF

static void keep(tri_gpu_context *context, const char *call, tri_hip_enum error) {
  tri_hip_enum none = 0;
  const char *nowhere = NULL;
  atomic_compare_exchange_strong(&context->lasting_at, &nowhere, call);
  atomic_compare_exchange_strong(&context->lasting, &none, error);
}

static tri_status failed(tri_gpu_context *context, const char *call, tri_hip_enum error) {
  if (tri_hip_is_lasting(error)) keep(context, call, error);
  return tri_hip_failed(context->driver, context->label, call, error);
}

static tri_status use(tri_gpu_context *context) {
  tri_hip_enum error = atomic_load(&context->lasting);
  if (error != 0) return tri_hip_failed(context->driver, context->label, atomic_load(&context->lasting_at), error);
  error = context->calls->device_use(context->ordinal);
  return error == 0 ? TRI_OK : failed(context, hip_name_of_device_use, error);
}

/* For who cleans up: a GPU that has failed is asked nothing more, it might never answer. */
static bool use_quietly(tri_gpu_context *context) {
  return atomic_load(&context->lasting) == 0 && context->calls->device_use(context->ordinal) == 0;
}

/* Makes the GPU this thread's, and does the call. */
#define CALL(context, name, ...)                                                                                       \
  do {                                                                                                                 \
    TRI_TRY(use(context));                                                                                             \
    tri_hip_enum error_ = (context)->calls->name(__VA_ARGS__);                                                         \
    if (error_ != 0) return failed(context, hip_name_of_##name, error_);                                               \
  } while (0)

/* ---- the context ------------------------------------------------------------------------------------------------- */

static tri_status hip_count(int *out, const char **why) {
  const tri_hip_driver *driver = NULL;
  TRI_TRY(tri_hip_driver_open(&driver));
  *out = driver->count;
  *why = driver->why;
  return TRI_OK;
}

static tri_status hip_enter(tri_gpu_context *context) { return use(context); }

static void hip_close(tri_gpu_context *context) {
  if (context->zeroing != NULL && use_quietly(context)) (void)context->calls->stream_destroy(context->zeroing);
  tri_free(context);
}

/* The chip as the compiler takes it. Which layout the properties have is told by the function that fills them, and that
 * it is the one which is known, by what stands there. */
static tri_status name_chip(tri_gpu_context *context, char *out, size_t out_bytes) {
  _Alignas(16) char properties[TRI_HIP_PROPERTIES_BYTES] = {0};
  char name[TRI_HIP_CHIP_BYTES];
  const bool newer = context->calls->properties_6 != NULL;
  if (newer) {
    CALL(context, properties_6, properties, context->ordinal);
  } else if (context->calls->properties_5 != NULL) {
    CALL(context, properties_5, properties, context->ordinal);
  }
  memcpy(name, properties + (newer ? TRI_HIP_CHIP_OFFSET_6 : TRI_HIP_CHIP_OFFSET_5), sizeof name);
  name[sizeof name - 1] = '\0';
  tri_hip_chip(name, out, out_bytes);
  if (out[0] != '\0') return TRI_OK;
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: %s (%s) does not say which chip it is where this program looks for it: take a ROCm of versions "
                  "5 to 7",
                  context->label, context->driver->text, context->driver->path);
}

/* The first call that takes memory of the GPU: where another process has filled it, there is not even room for this. */
static tri_status open_stream(tri_gpu_context *context) {
  TRI_TRY(use(context));
  tri_hip_enum error = context->calls->stream_create(&context->zeroing, TRI_HIP_STREAM_NON_BLOCKING);
  if (error == TRI_HIP_OUT_OF_MEMORY) {
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "%s has no memory left to begin with: other processes hold it (`rocm-smi --showpids` shows "
                    "which). Wait for them, end them, or take another GPU",
                    context->label);
  }
  return error == 0 ? TRI_OK : failed(context, hip_name_of_stream_create, error);
}

static tri_status fill(tri_gpu_context *context) {
  char name[TRI_DEVICE_NAME_BYTES] = "", chip[32];
  snprintf(context->label, sizeof context->label, "GPU %d", context->ordinal);
  CALL(context, device_name, name, sizeof name, context->ordinal);
  if (name[0] != '\0') snprintf(context->label, sizeof context->label, "GPU %d (%s)", context->ordinal, name);
  TRI_TRY(name_chip(context, chip, sizeof chip));
  return open_stream(context);
}

static tri_status hip_open(int ordinal, const char *options, tri_gpu_context **out) {
  const tri_hip_driver *driver = NULL;
  tri_gpu_context *context = NULL;
  TRI_TRY(tri_hip_driver_open(&driver));
  if (options[0] != '\0') return tri_fail(TRI_BAD_CONFIG, "a GPU of AMD's has no option `%s`", options);
  if (ordinal < 0 || ordinal >= driver->count) {
    return tri_fail(TRI_UNSUPPORTED, "there is no GPU %d: %s", ordinal, driver->why);
  }
  TRI_TRY(tri_alloc("a GPU's context", 1, sizeof *context, &context));
  context->driver = driver;
  context->calls = &driver->calls;
  context->ordinal = ordinal;
  tri_status status = fill(context);
  if (status != TRI_OK) {
    hip_close(context);
    return status;
  }
  *out = context;
  return TRI_OK;
}

/* 0 if the library does not say. */
static int attribute(const tri_gpu_context *context, tri_hip_enum which) {
  int value = 0;
  return context->calls->device_attribute(&value, which, context->ordinal) == 0 && value > 0 ? value : 0;
}

static tri_status hip_facts(tri_gpu_context *context, tri_gpu_facts *out) {
  *out = (tri_gpu_facts){.peer = TRI_PEER_ROCM,
                         .warp = attribute(context, TRI_HIP_WARP),
                         .processors = attribute(context, TRI_HIP_PROCESSORS),
                         .clock_hz = attribute(context, TRI_HIP_CLOCK_KHZ) * 1e3,
                         .memory_clock_hz = attribute(context, TRI_HIP_MEMORY_CLOCK_KHZ) * 1e3,
                         .memory_bus_bits = attribute(context, TRI_HIP_MEMORY_BUS_BITS),
                         .l2_bytes = (size_t)attribute(context, TRI_HIP_L2_BYTES),
                         .shared_bytes = (size_t)attribute(context, TRI_HIP_SHARED_BYTES),
                         .block_threads = attribute(context, TRI_HIP_BLOCK_THREADS)};
  snprintf(out->driver, sizeof out->driver, "%s", context->driver->text);
  TRI_TRY(name_chip(context, out->architecture, sizeof out->architecture));
  CALL(context, device_name, out->name, sizeof out->name, context->ordinal);
  if (out->name[0] == '\0') snprintf(out->name, sizeof out->name, "AMD %s", out->architecture);
  CALL(context, device_bus, out->bus, sizeof out->bus, context->ordinal);
  CALL(context, device_memory, &out->memory_bytes, context->ordinal);
  return TRI_OK;
}

static tri_status hip_memory_free(tri_gpu_context *context, size_t *out) {
  size_t total = 0;
  CALL(context, memory_info, out, &total);
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* What is not allowed while a thread records work is allowed in between: memory and modules do not belong to the work.
 * The library changes `mode` for the one before. */
static void exchange_mode(const tri_gpu_context *context, tri_hip_enum *mode) {
  (void)context->calls->capture_mode(mode);
}

static tri_status no_memory(tri_gpu_context *context, size_t bytes) {
  size_t free = 0, total = 0, held = atomic_load(&context->held);
  char wanted[32], left[32], all[32], own[32], others[32];
  if (context->calls->memory_info(&free, &total) != 0)
    return failed(context, hip_name_of_memory_create, TRI_HIP_OUT_OF_MEMORY);
  size_t taken = total - free;
  return tri_fail(
      TRI_OUT_OF_MEMORY,
      "%s does not give %s: of its %s this process holds %s, others and the driver %s, and %s are free. Where another "
      "process holds much (`rocm-smi --showpids` shows which), wait for it or take another GPU; else make the "
      "micro-batches smaller or spread the model over more GPUs",
      context->label, tri_format_bytes((double)bytes, wanted, sizeof wanted),
      tri_format_bytes((double)total, all, sizeof all), tri_format_bytes((double)held, own, sizeof own),
      tri_format_bytes((double)(taken > held ? taken - held : 0), others, sizeof others),
      tri_format_bytes((double)free, left, sizeof left));
}

static tri_status zero(tri_gpu_context *context, void *memory, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  CALL(context, fill, memory, 0, bytes, context->zeroing);
  CALL(context, stream_finish, context->zeroing);
  return TRI_OK;
}

static tri_status create_memory(tri_gpu_context *context, size_t bytes, void **out) {
  void *memory = NULL, *base = NULL;
  size_t got = bytes;
  tri_hip_enum error = context->calls->memory_create(&memory, bytes == 0 ? 1 : bytes);
  if (error == TRI_HIP_OUT_OF_MEMORY) return no_memory(context, bytes);
  if (error != 0) return failed(context, hip_name_of_memory_create, error);
  tri_status status = zero(context, memory, bytes);
  if (status != TRI_OK) {
    if (use_quietly(context)) (void)context->calls->memory_destroy(memory);
    return status;
  }
  if (context->calls->memory_range(&base, &got, memory) == 0) atomic_fetch_add(&context->held, got);
  *out = memory;
  return TRI_OK;
}

static tri_status hip_memory_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_hip_enum mode = TRI_HIP_CAPTURE_RELAXED;
  TRI_TRY(use(context));
  exchange_mode(context, &mode);
  tri_status status = create_memory(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void hip_memory_destroy(tri_gpu_context *context, void *memory) {
  void *base = NULL;
  size_t got = 0;
  if (!use_quietly(context)) return;
  if (context->calls->memory_range(&base, &got, memory) == 0) atomic_fetch_sub(&context->held, got);
  (void)context->calls->memory_destroy(memory);
}

static tri_status create_host(tri_gpu_context *context, size_t bytes, void **out) {
  tri_hip_enum error = context->calls->host_create(out, bytes == 0 ? 1 : bytes, TRI_HIP_HOST_PORTABLE);
  if (error == TRI_HIP_OUT_OF_MEMORY) {
    char wanted[32];
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "the system gives no %s of page-locked memory for copies to and from %s: let fewer ranks share the "
                    "node, or give the job more memory",
                    tri_format_bytes((double)bytes, wanted, sizeof wanted), context->label);
  }
  return error == 0 ? TRI_OK : failed(context, hip_name_of_host_create, error);
}

static tri_status hip_host_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_hip_enum mode = TRI_HIP_CAPTURE_RELAXED;
  TRI_TRY(use(context));
  exchange_mode(context, &mode);
  tri_status status = create_host(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void hip_host_destroy(tri_gpu_context *context, void *memory) {
  if (use_quietly(context)) (void)context->calls->host_destroy(memory);
}

/* All libraries of a process see one address space. */
static void *hip_peer_address(tri_gpu_context *context, void *memory) {
  (void)context;
  return memory;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void hip_stream_destroy(tri_gpu_stream *stream) {
  if (stream->own != NULL && use_quietly(stream->context)) {
    (void)stream->context->calls->stream_finish(stream->own);
    (void)stream->context->calls->stream_destroy(stream->own);
  }
  tri_free(stream);
}

static tri_status create_stream(tri_gpu_stream *stream) {
  CALL(stream->context, stream_create, &stream->own, TRI_HIP_STREAM_NON_BLOCKING);
  return TRI_OK;
}

static tri_status hip_stream_create(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out) {
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

static void *hip_stream_handle(tri_gpu_stream *stream, const char *work) {
  stream->last = (last_work){work, stream->queue->origin};
  return stream->own;
}

static tri_hip_enum from_host(tri_side to) {
  switch (to) {
    case TRI_SIDE_HOST: return TRI_HIP_COPY_HOST_TO_HOST;
    case TRI_SIDE_DEVICE: break;
  }
  return TRI_HIP_COPY_HOST_TO_DEVICE;
}

static tri_hip_enum from_device(tri_side to) {
  switch (to) {
    case TRI_SIDE_HOST: return TRI_HIP_COPY_DEVICE_TO_HOST;
    case TRI_SIDE_DEVICE: break;
  }
  return TRI_HIP_COPY_DEVICE_TO_DEVICE;
}

static tri_hip_enum kind_of(tri_side to, tri_side from) {
  switch (from) {
    case TRI_SIDE_HOST: return from_host(to);
    case TRI_SIDE_DEVICE: break;
  }
  return from_device(to);
}

static tri_status copy_bytes(const tri_gpu_stream *stream, void *to, const void *from, size_t bytes,
                             tri_hip_enum kind) {
  CALL(stream->context, copy, to, from, bytes, kind, stream->own);
  return TRI_OK;
}

/* The library takes strides below 2 GiB. */
static tri_status hip_copy(tri_gpu_stream *stream, const tri_copy *c) {
  const tri_hip_enum kind = kind_of(c->to_side, c->from_side);
  if (c->rows == 0 || c->row_bytes == 0) return TRI_OK;
  if (c->rows == 1 || (c->to_stride == c->row_bytes && c->from_stride == c->row_bytes))
    return copy_bytes(stream, c->to, c->from, c->rows * c->row_bytes, kind);
  if (c->to_stride > INT32_MAX || c->from_stride > INT32_MAX) {
    for (size_t r = 0; r < c->rows; r++) {
      TRI_TRY(copy_bytes(stream, (char *)c->to + r * c->to_stride, (const char *)c->from + r * c->from_stride,
                         c->row_bytes, kind));
    }
    return TRI_OK;
  }
  CALL(stream->context, copy_rows, c->to, c->to_stride, c->from, c->from_stride, c->row_bytes, c->rows, kind,
       stream->own);
  return TRI_OK;
}

static tri_status hip_fill_zero(tri_gpu_stream *stream, void *memory, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  CALL(stream->context, fill, memory, 0, bytes, stream->own);
  return TRI_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static tri_status create_event(tri_gpu_event *event, bool timed) {
  CALL(event->context, event_create, &event->own, timed ? 0 : TRI_HIP_EVENT_UNTIMED);
  return TRI_OK;
}

static tri_status hip_event_create(tri_gpu_context *context, bool timed, tri_gpu_event **out) {
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

static void hip_event_destroy(tri_gpu_event *event) {
  if (use_quietly(event->context)) (void)event->context->calls->event_destroy(event->own);
  tri_free(event);
}

static tri_status hip_event_record(tri_gpu_event *event, tri_gpu_stream *stream) {
  CALL(event->context, event_record, event->own, stream->own);
  event->last = stream->last;
  return TRI_OK;
}

static tri_status hip_stream_wait(tri_gpu_stream *stream, const tri_gpu_event *event) {
  CALL(stream->context, stream_wait, stream->own, event->own, 0);
  return TRI_OK;
}

/* A GPU does not say which of the work in front of an event has failed: the newest kernel is named, and that it may be
 * one before it. */
static tri_status wait_for(const tri_gpu_event *event) {
  TRI_TRY(use(event->context));
  const tri_hip_enum error = event->context->calls->event_wait(event->own);
  if (error == 0) return TRI_OK;
  keep(event->context, hip_name_of_event_wait, error);
  return failed(event->context, hip_name_of_event_wait, error);
}

static tri_status hip_event_wait(const tri_gpu_event *event) {
  char what[96], work[256];
  const tri_status status = wait_for(event);
  if (status == TRI_OK || event->last.kernel == NULL) return status;
  snprintf(what, sizeof what, "kernel `%s`", event->last.kernel);
  return tri_fail(status, "work up to %s: %s", tri_origin_of_work(what, &event->last.origin, work, sizeof work),
                  tri_status_message());
}

/* An error is told once: it is kept for the wait. */
static bool hip_event_passed(const tri_gpu_event *event) {
  if (!use_quietly(event->context)) return true;
  const tri_hip_enum error = event->context->calls->event_query(event->own);
  if (error != 0 && error != TRI_HIP_NOT_READY) keep(event->context, hip_name_of_event_query, error);
  return error != TRI_HIP_NOT_READY;
}

static tri_status hip_event_seconds(const tri_gpu_event *from, const tri_gpu_event *to, double *out) {
  float milliseconds = 0;
  TRI_TRY(hip_event_wait(from));
  TRI_TRY(hip_event_wait(to));
  CALL(to->context, event_elapsed, &milliseconds, from->own, to->own);
  *out = milliseconds * 1e-3;
  return TRI_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* What the library does not take was made by a compiler that it does not go with. */
static tri_status image_refused(tri_gpu_context *context, const tri_gpu_image *image, tri_hip_enum error) {
  const char *name = context->calls->error_name(error);
  return tri_fail(TRI_UNSUPPORTED,
                  "%s: %s (%s) does not take the kernels `%s` as they were compiled: %s (%u). Where hipRTC is of a "
                  "newer ROCm than this library, take both of one",
                  context->label, context->driver->text, context->driver->path, image->module,
                  name == NULL ? "an error without a name" : name, error);
}

static tri_status load_module(tri_gpu_module *module, const tri_gpu_image *image) {
  tri_gpu_context *context = module->context;
  const tri_hip_enum error = context->calls->module_load(&module->own, module->image);
  switch (error) {
    case 0: return TRI_OK;
    case TRI_HIP_INVALID_DEVICE_FUNCTION:
    case TRI_HIP_INVALID_IMAGE:
    case TRI_HIP_NO_BINARY_FOR_GPU:
    case TRI_HIP_INVALID_KERNEL_FILE:
    case TRI_HIP_OBJECT_NOT_LOADED: return image_refused(context, image, error);
    default: return failed(context, hip_name_of_module_load, error);
  }
}

static tri_status copy_and_load(tri_gpu_module *module, const tri_gpu_image *image) {
  tri_hip_enum mode = TRI_HIP_CAPTURE_RELAXED;
  TRI_TRY(tri_alloc("compiled kernels", image->bytes, 1, &module->image));
  memcpy(module->image, image->image, image->bytes);
  TRI_TRY(use(module->context));
  exchange_mode(module->context, &mode);
  tri_status status = load_module(module, image);
  exchange_mode(module->context, &mode);
  return status;
}

static tri_status hip_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out) {
  tri_gpu_module *module = NULL;
  TRI_TRY(tri_alloc("a module", 1, sizeof *module, &module));
  module->context = context;
  tri_status status = copy_and_load(module, image);
  if (status != TRI_OK) {
    tri_free(module->image);
    tri_free(module);
    return status;
  }
  *out = module;
  return TRI_OK;
}

static void hip_module_unload(tri_gpu_module *module) {
  tri_gpu_function *next = NULL;
  for (tri_gpu_function *f = module->functions; f != NULL; f = next) {
    next = f->next;
    tri_free(f);
  }
  if (use_quietly(module->context)) (void)module->context->calls->module_unload(module->own);
  tri_free(module->image);
  tri_free(module);
}

static tri_status find_function(const tri_gpu_module *module, const char *name, tri_hip_function *out) {
  CALL(module->context, module_function, out, module->own, name);
  return TRI_OK;
}

static tri_status hip_module_function(tri_gpu_module *module, const char *name, tri_gpu_function **out) {
  tri_hip_enum mode = TRI_HIP_CAPTURE_RELAXED;
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

static tri_status check_launch(const tri_gpu_context *context, const tri_gpu_launch_call *call) {
  const size_t most = (size_t)attribute(context, TRI_HIP_SHARED_BYTES);
  if (call->shared_bytes > most) {
    return tri_fail(TRI_UNSUPPORTED, "%s gives a block %zu bytes of shared memory, and kernel `%s` asks for %zu",
                    context->label, most, call->name, call->shared_bytes);
  }
  if ((uint64_t)call->grid.x * call->threads > UINT32_MAX) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%s takes fewer than 2^32 threads at once, and kernel `%s` asks for %u blocks of %u; smaller "
                    "micro-batches ask for less",
                    context->label, call->name, call->grid.x, call->threads);
  }
  return TRI_OK;
}

/* The arguments are one struct: a list of one. The library copies as many bytes as the kernel takes. */
static tri_status hip_launch(tri_gpu_stream *stream, const tri_gpu_launch_call *call) {
  void *arguments[] = {(void *)(uintptr_t)call->arguments};
  if (call->shared_bytes > 0 || call->grid.x > UINT32_MAX / 1024) TRI_TRY(check_launch(stream->context, call));
  CALL(stream->context, launch, call->function->own, call->grid.x, call->grid.y, call->grid.z, call->threads, 1, 1,
       (unsigned)call->shared_bytes, stream->own, arguments, NULL);
  stream->last = (last_work){call->name, stream->queue->origin};
  return TRI_OK;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Of this thread alone: what others call meanwhile neither is recorded nor spoils it. */
static tri_status hip_graph_begin(tri_gpu_stream *stream) {
  CALL(stream->context, capture_begin, stream->own, TRI_HIP_CAPTURE_THREAD_LOCAL);
  return TRI_OK;
}

static tri_status end_recording(const tri_gpu_stream *stream, tri_hip_graph_run *out) {
  tri_hip_graph recorded = NULL;
  CALL(stream->context, capture_end, stream->own, &recorded);
  const tri_hip_enum error = stream->context->calls->graph_instantiate(out, recorded, 0);
  (void)stream->context->calls->graph_destroy(recorded);
  return error == 0 ? TRI_OK : failed(stream->context, hip_name_of_graph_instantiate, error);
}

static tri_status hip_graph_end(tri_gpu_stream *stream, tri_gpu_graph **out) {
  tri_hip_graph_run run = NULL;
  TRI_TRY(end_recording(stream, &run));
  tri_status status = tri_alloc("a recording", 1, sizeof **out, out);
  if (status != TRI_OK) {
    (void)stream->context->calls->graph_run_destroy(run);
    return status;
  }
  **out = (tri_gpu_graph){stream->context, run, stream->last};
  return TRI_OK;
}

static tri_status hip_graph_launch(tri_gpu_graph *graph, tri_gpu_stream *stream) {
  CALL(stream->context, graph_launch, graph->own, stream->own);
  stream->last = graph->last;
  return TRI_OK;
}

static void hip_graph_destroy(tri_gpu_graph *graph) {
  if (use_quietly(graph->context)) (void)graph->context->calls->graph_run_destroy(graph->own);
  tri_free(graph);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

const tri_gpu_runtime tri_gpu_hip = {
    .name = "HIP",
    .products = &tri_gpu_hipblaslt,
    .count = hip_count,
    .open = hip_open,
    .close = hip_close,
    .facts = hip_facts,
    .enter = hip_enter,
    .memory_free = hip_memory_free,
    .memory_create = hip_memory_create,
    .memory_destroy = hip_memory_destroy,
    .host_create = hip_host_create,
    .host_destroy = hip_host_destroy,
    .peer_address = hip_peer_address,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_handle = hip_stream_handle,
    .copy = hip_copy,
    .fill_zero = hip_fill_zero,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .stream_wait = hip_stream_wait,
    .event_wait = hip_event_wait,
    .event_passed = hip_event_passed,
    .event_seconds = hip_event_seconds,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .module_function = hip_module_function,
    .launch = hip_launch,
    .graph_begin = hip_graph_begin,
    .graph_end = hip_graph_end,
    .graph_launch = hip_graph_launch,
    .graph_destroy = hip_graph_destroy,
};
