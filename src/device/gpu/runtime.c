/* Implements the run-time table for GPUs of NVIDIA and of AMD, whose libraries have the same calls under different
 * names (calls.h). A second table has the differences (vendor.h); cuda.c and hip.c fill it.
 *
 * Errors of a GPU are sticky: once a kernel has failed, or the GPU has gone, every later call reports the same error,
 * and the program stops with the first report. CUDA does this itself. With HIP, calls after a failed kernel may
 * succeed, with wrong results. So with HIP the first unrecoverable error of a GPU, or any error of a wait or query, is
 * stored in its context, the library is not called for that GPU any more, and every later call reports the stored
 * error. */
#include "device/gpu/runtime.h"

#include "base/format.h"
#include "base/memory.h"
#include "device/gpu/gemm.h"
#include "device/gpu/vendor.h"

#include <stdio.h>
#include <string.h>

/* The last work that was queued, for messages about errors that are detected later. */
typedef struct last_work {
  const char *kernel; /* name of the kernel; NULL: no kernel so far */
  tri_origin origin;
} last_work;

struct tri_gpu_stream {
  tri_gpu_context *context;
  tri_queue *queue;
  tri_gpu_stream_handle own;
  last_work last;
};

struct tri_gpu_event {
  tri_gpu_context *context;
  tri_gpu_event_handle own;
  last_work last;
};

struct tri_gpu_graph {
  tri_gpu_context *context;
  tri_gpu_graph_run_handle own;
  last_work last;
};

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Makes the GPU current in this thread, for cleanup and for queries of events, without reporting an error. In a cleanup
 * an error has been reported before or no longer matters; after a query, the next wait reports it. Returns false if the
 * GPU cannot be made current, or if an error is stored; the caller must then not call the library, since the call might
 * never return. */
static bool use_quietly(const tri_gpu_context *context) {
  return atomic_load(&context->lasting) == 0 && context->vendor->use(context) == 0;
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

static tri_status count_gpus(const tri_gpu_vendor *vendor, int *out, const char **why) {
  const tri_gpu_driver *driver = NULL;
  TRI_TRY(vendor->driver(&driver));
  *out = driver->count;
  *why = driver->why;
  return TRI_OK;
}

static void runtime_close(tri_gpu_context *context) {
  if (context->zeroing != NULL && use_quietly(context)) (void)context->calls->stream_destroy(context->zeroing);
  if (context->vendor->end != NULL) context->vendor->end(context);
  tri_free(context);
}

/* Finds the GPU, writes its label for messages, and initialises it (vendor.begin). */
static tri_status begin_context(tri_gpu_context *context) {
  char name[TRI_DEVICE_NAME_BYTES] = "";
  snprintf(context->label, sizeof context->label, "GPU %d", context->ordinal);
  TRI_TRY(context->vendor->find(context));
  const tri_gpu_enum error = context->calls->device_name(name, sizeof name, context->device);
  if (error != 0) return tri_gpu_call_failed(context, context->vendor->call_names.device_name, error);
  if (name[0] != '\0') snprintf(context->label, sizeof context->label, "GPU %d (%s)", context->ordinal, name);
  return context->vendor->begin(context);
}

static tri_status open_gpu(const tri_gpu_vendor *vendor, int ordinal, const char *options, tri_gpu_context **out) {
  const tri_gpu_driver *driver = NULL;
  tri_gpu_context *context = NULL;
  TRI_TRY(vendor->driver(&driver));
  if (options[0] != '\0') return tri_fail(TRI_BAD_CONFIG, "a GPU of %s's has no option `%s`", vendor->name, options);
  if (ordinal < 0 || ordinal >= driver->count) {
    return tri_fail(TRI_UNSUPPORTED, "there is no GPU %d: %s", ordinal, driver->why);
  }
  TRI_TRY(tri_alloc("a GPU's context", 1, sizeof *context, &context));
  context->vendor = vendor;
  context->driver = driver;
  context->calls = &driver->calls;
  context->ordinal = ordinal;
  tri_status status = begin_context(context);
  if (status == TRI_OK) *out = context;
  if (status != TRI_OK) runtime_close(context);
  return status;
}

static tri_status runtime_facts(tri_gpu_context *context, tri_gpu_facts *out) {
  const tri_gpu_attributes *asked = &context->vendor->attributes;
  *out = (tri_gpu_facts){.peer = context->vendor->peer,
                         .warp = tri_gpu_attribute(context, asked->warp),
                         .processors = tri_gpu_attribute(context, asked->processors),
                         .clock_hz = tri_gpu_attribute(context, asked->clock_khz) * 1e3,
                         .memory_clock_hz = tri_gpu_attribute(context, asked->memory_clock_khz) * 1e3,
                         .memory_bus_bits = tri_gpu_attribute(context, asked->memory_bus_bits),
                         .l2_bytes = (size_t)tri_gpu_attribute(context, asked->l2_bytes),
                         .shared_bytes = (size_t)tri_gpu_attribute(context, asked->shared_bytes),
                         .block_threads = tri_gpu_attribute(context, asked->block_threads)};
  snprintf(out->driver, sizeof out->driver, "%s", context->driver->text);
  TRI_TRY(context->vendor->architecture(context, out->architecture, sizeof out->architecture));
  TRI_GPU_CALL(context, device_name, out->name, sizeof out->name, context->device);
  if (out->name[0] == '\0') snprintf(out->name, sizeof out->name, "%s %s", context->vendor->name, out->architecture);
  TRI_GPU_CALL(context, device_bus, out->bus, sizeof out->bus, context->device);
  TRI_GPU_CALL(context, device_memory, &out->memory_bytes, context->device);
  return TRI_OK;
}

static tri_status runtime_memory_free(tri_gpu_context *context, size_t *out) {
  size_t total = 0;
  TRI_GPU_CALL(context, memory_info, out, &total);
  return TRI_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Exchanges *mode and the thread's capture mode. Callers relax the mode, and restore it with a second call: while a
 * thread records work, the library forbids some calls for memory and modules, although these are not recorded. */
static void exchange_mode(const tri_gpu_context *context, tri_gpu_enum *mode) {
  (void)context->calls->capture_mode(mode);
}

/* Fails with TRI_OUT_OF_MEMORY because the GPU has too little free memory for `bytes`. The message shows how much
 * memory this process and the others use. */
static tri_status no_memory(tri_gpu_context *context, size_t bytes) {
  size_t free = 0, total = 0, held = atomic_load(&context->held);
  char wanted[32], left[32], all[32], own[32], others[32];
  if (context->calls->memory_info(&free, &total) != 0)
    return tri_gpu_call_failed(context, context->vendor->call_names.memory_create, TRI_GPU_OUT_OF_MEMORY);
  size_t taken = total - free;
  return tri_fail(TRI_OUT_OF_MEMORY,
                  "%s cannot allocate %s: of its %s, this process uses %s, other processes and the driver use %s, and "
                  "%s are free. If another process uses much of it (`%s` shows which), wait for it or use another GPU; "
                  "else make the micro-batches smaller or split the model over more GPUs",
                  context->label, tri_format_bytes((double)bytes, wanted, sizeof wanted),
                  tri_format_bytes((double)total, all, sizeof all), tri_format_bytes((double)held, own, sizeof own),
                  tri_format_bytes((double)(taken > held ? taken - held : 0), others, sizeof others),
                  tri_format_bytes((double)free, left, sizeof left), context->driver->processes_tool);
}

/* Fills new memory with zeros and waits for that. Uses the stream `zeroing`, so that no queue is involved. */
static tri_status zero(tri_gpu_context *context, void *memory, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  TRI_GPU_CALL(context, fill, memory, 0, bytes, context->zeroing);
  TRI_GPU_CALL(context, stream_finish, context->zeroing);
  return TRI_OK;
}

static tri_status create_memory(tri_gpu_context *context, size_t bytes, void **out) {
  void *memory = NULL, *base = NULL;
  size_t got = bytes;
  const tri_gpu_enum error = context->calls->memory_create(&memory, bytes == 0 ? 1 : bytes);
  if (error == TRI_GPU_OUT_OF_MEMORY) return no_memory(context, bytes);
  if (error != 0) return tri_gpu_call_failed(context, context->vendor->call_names.memory_create, error);
  tri_status status = zero(context, memory, bytes);
  if (status != TRI_OK) {
    if (use_quietly(context)) (void)context->calls->memory_destroy(memory);
    return status;
  }
  if (context->calls->memory_range(&base, &got, memory) == 0) atomic_fetch_add(&context->held, got);
  *out = memory;
  return TRI_OK;
}

static tri_status runtime_memory_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_gpu_enum mode = TRI_GPU_CAPTURE_RELAXED;
  TRI_TRY(tri_gpu_use(context));
  exchange_mode(context, &mode);
  tri_status status = create_memory(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void runtime_memory_destroy(tri_gpu_context *context, void *memory) {
  void *base = NULL;
  size_t got = 0;
  if (!use_quietly(context)) return;
  if (context->calls->memory_range(&base, &got, memory) == 0) atomic_fetch_sub(&context->held, got);
  (void)context->calls->memory_destroy(memory);
}

static tri_status create_host(tri_gpu_context *context, size_t bytes, void **out) {
  const tri_gpu_enum error = context->calls->host_create(out, bytes == 0 ? 1 : bytes, TRI_GPU_HOST_PORTABLE);
  if (error == TRI_GPU_OUT_OF_MEMORY) {
    char wanted[32];
    return tri_fail(TRI_OUT_OF_MEMORY,
                    "the system gives no %s of page-locked memory for copies to and from %s: let fewer ranks share the "
                    "node, or give the job more memory",
                    tri_format_bytes((double)bytes, wanted, sizeof wanted), context->label);
  }
  return error == 0 ? TRI_OK : tri_gpu_call_failed(context, context->vendor->call_names.host_create, error);
}

static tri_status runtime_host_create(tri_gpu_context *context, size_t bytes, void **out) {
  tri_gpu_enum mode = TRI_GPU_CAPTURE_RELAXED;
  TRI_TRY(tri_gpu_use(context));
  exchange_mode(context, &mode);
  tri_status status = create_host(context, bytes, out);
  exchange_mode(context, &mode);
  return status;
}

static void runtime_host_destroy(tri_gpu_context *context, void *memory) {
  if (use_quietly(context)) (void)context->calls->host_destroy(memory);
}

/* Returns the address unchanged: with CUDA and HIP, MPI uses the same addresses of device memory as this program. */
static void *runtime_peer_address(tri_gpu_context *context, void *memory) {
  (void)context;
  return memory;
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

static void runtime_stream_destroy(tri_gpu_stream *stream) {
  if (stream->own != NULL && use_quietly(stream->context)) {
    (void)stream->context->calls->stream_finish(stream->own);
    (void)stream->context->calls->stream_destroy(stream->own);
  }
  tri_free(stream);
}

static tri_status create_stream(tri_gpu_stream *stream) {
  TRI_GPU_CALL(stream->context, stream_create, &stream->own, TRI_GPU_STREAM_NON_BLOCKING);
  return TRI_OK;
}

static tri_status runtime_stream_create(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out) {
  tri_gpu_stream *stream = NULL;
  TRI_TRY(tri_alloc("a stream", 1, sizeof *stream, &stream));
  stream->context = context;
  stream->queue = queue;
  tri_status status = create_stream(stream);
  if (status == TRI_OK) *out = stream;
  if (status != TRI_OK) tri_free(stream);
  return status;
}

static void *runtime_stream_handle(tri_gpu_stream *stream, const char *work) {
  stream->last = (last_work){work, stream->queue->origin};
  return stream->own;
}

static tri_gpu_enum from_host(tri_side to) {
  switch (to) {
    case TRI_SIDE_HOST: return TRI_GPU_COPY_HOST_TO_HOST;
    case TRI_SIDE_DEVICE: break;
  }
  return TRI_GPU_COPY_HOST_TO_DEVICE;
}

static tri_gpu_enum from_device(tri_side to) {
  switch (to) {
    case TRI_SIDE_HOST: return TRI_GPU_COPY_DEVICE_TO_HOST;
    case TRI_SIDE_DEVICE: break;
  }
  return TRI_GPU_COPY_DEVICE_TO_DEVICE;
}

static tri_gpu_enum kind_of(tri_side to, tri_side from) {
  switch (from) {
    case TRI_SIDE_HOST: return from_host(to);
    case TRI_SIDE_DEVICE: break;
  }
  return from_device(to);
}

static tri_status copy_bytes(const tri_gpu_stream *stream, void *to, const void *from, size_t bytes,
                             tri_gpu_enum kind) {
  TRI_GPU_CALL(stream->context, copy, to, from, bytes, kind, stream->own);
  return TRI_OK;
}

/* Copies rows: in one call, or one row per call if a stride is above the library's limit of 2 GiB. */
static tri_status runtime_copy(tri_gpu_stream *stream, const tri_copy *c) {
  const tri_gpu_enum kind = kind_of(c->to_side, c->from_side);
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
  TRI_GPU_CALL(stream->context, copy_rows, c->to, c->to_stride, c->from, c->from_stride, c->row_bytes, c->rows, kind,
               stream->own);
  return TRI_OK;
}

static tri_status runtime_fill_zero(tri_gpu_stream *stream, void *memory, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  TRI_GPU_CALL(stream->context, fill, memory, 0, bytes, stream->own);
  return TRI_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static tri_status create_event(tri_gpu_event *event, bool timed) {
  TRI_GPU_CALL(event->context, event_create, &event->own, timed ? 0 : TRI_GPU_EVENT_UNTIMED);
  return TRI_OK;
}

static tri_status runtime_event_create(tri_gpu_context *context, bool timed, tri_gpu_event **out) {
  tri_gpu_event *event = NULL;
  TRI_TRY(tri_alloc("an event", 1, sizeof *event, &event));
  event->context = context;
  tri_status status = create_event(event, timed);
  if (status == TRI_OK) *out = event;
  if (status != TRI_OK) tri_free(event);
  return status;
}

static void runtime_event_destroy(tri_gpu_event *event) {
  if (use_quietly(event->context)) (void)event->context->calls->event_destroy(event->own);
  tri_free(event);
}

static tri_status runtime_event_record(tri_gpu_event *event, tri_gpu_stream *stream) {
  TRI_GPU_CALL(event->context, event_record, event->own, stream->own);
  event->last = stream->last;
  return TRI_OK;
}

static tri_status runtime_stream_wait(tri_gpu_stream *stream, const tri_gpu_event *event) {
  TRI_GPU_CALL(stream->context, stream_wait, stream->own, event->own, 0);
  return TRI_OK;
}

/* Waits for an event. Stores an error for later calls (tri_gpu_error_keep). */
static tri_status wait_for(const tri_gpu_event *event) {
  tri_gpu_context *context = event->context;
  TRI_TRY(tri_gpu_use(context));
  const tri_gpu_enum error = context->calls->event_wait(event->own);
  if (error == 0) return TRI_OK;
  tri_gpu_error_keep(context, context->vendor->call_names.event_wait, error);
  return tri_gpu_call_failed(context, context->vendor->call_names.event_wait, error);
}

/* Waits for an event. A GPU does not report which of the work before an event has failed, so the error message says
 * "work up to" the newest kernel. */
static tri_status runtime_event_wait(const tri_gpu_event *event) {
  char what[96], work[256];
  /* This call is only for CUDA. With HIP, an earlier call may have stored the error of the work before the event. If
   * tri_gpu_use returned that error here, the message would lack the kernel's name; wait_for returns it too, and the
   * message below adds the name. */
  if (event->context->vendor->is_lasting == NULL) TRI_TRY(tri_gpu_use(event->context));
  const tri_status status = wait_for(event);
  if (status == TRI_OK || event->last.kernel == NULL) return status;
  snprintf(what, sizeof what, "kernel `%s`", event->last.kernel);
  return tri_fail(status, "work up to %s: %s", tri_origin_of_work(what, &event->last.origin, work, sizeof work),
                  tri_status_message());
}

/* Returns whether the event has passed. Returns true after an error, too: the wait then reports it. HIP reports an
 * error only once, so the error is stored for the wait. */
static bool runtime_event_passed(const tri_gpu_event *event) {
  tri_gpu_context *context = event->context;
  if (!use_quietly(context)) return true;
  const tri_gpu_enum error = context->calls->event_query(event->own);
  if (error != 0 && error != TRI_GPU_NOT_READY)
    tri_gpu_error_keep(context, context->vendor->call_names.event_query, error);
  return error != TRI_GPU_NOT_READY;
}

static tri_status runtime_event_seconds(const tri_gpu_event *from, const tri_gpu_event *to, double *out) {
  float milliseconds = 0;
  TRI_TRY(runtime_event_wait(from));
  TRI_TRY(runtime_event_wait(to));
  TRI_GPU_CALL(to->context, event_elapsed, &milliseconds, from->own, to->own);
  *out = milliseconds * 1e-3;
  return TRI_OK;
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

/* Loads a module, from a copy of the image if the library keeps reading it (vendor.keeps_image). */
static tri_status copy_and_load(tri_gpu_module *module, const tri_gpu_image *image) {
  tri_gpu_enum mode = TRI_GPU_CAPTURE_RELAXED;
  tri_gpu_context *context = module->context;
  tri_gpu_image own = *image;
  if (context->vendor->keeps_image) {
    TRI_TRY(tri_alloc("compiled kernels", image->bytes, 1, &module->image));
    memcpy(module->image, image->image, image->bytes);
    own.image = module->image;
  }
  TRI_TRY(tri_gpu_use(context));
  exchange_mode(context, &mode);
  tri_status status = context->vendor->module_load(context, &own, &module->own);
  exchange_mode(context, &mode);
  return status;
}

static tri_status runtime_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out) {
  tri_gpu_module *module = NULL;
  TRI_TRY(tri_alloc("a module", 1, sizeof *module, &module));
  module->context = context;
  tri_status status = copy_and_load(module, image);
  if (status != TRI_OK) {
    tri_free(module->image);
    tri_free(module);
    return status;
  }
  pthread_mutex_init(&module->lock, NULL);
  *out = module;
  return TRI_OK;
}

static void runtime_module_unload(tri_gpu_module *module) {
  tri_gpu_function *next = NULL;
  for (tri_gpu_function *f = module->functions; f != NULL; f = next) {
    next = f->next;
    tri_free(f);
  }
  if (use_quietly(module->context)) (void)module->context->calls->module_unload(module->own);
  pthread_mutex_destroy(&module->lock);
  tri_free(module->image);
  tri_free(module);
}

static tri_status find_function(const tri_gpu_module *module, const char *name, tri_gpu_function_handle *out) {
  tri_gpu_context *context = module->context;
  TRI_GPU_CALL(context, module_function, out, module->own, name);
  return context->vendor->function_load == NULL ? TRI_OK : context->vendor->function_load(context, *out);
}

static tri_status runtime_module_function(tri_gpu_module *module, const char *name, tri_gpu_function **out) {
  tri_gpu_enum mode = TRI_GPU_CAPTURE_RELAXED;
  tri_gpu_function *function = NULL;
  TRI_TRY(tri_gpu_use(module->context));
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

static tri_status runtime_launch(tri_gpu_stream *stream, const tri_gpu_launch_call *call) {
  TRI_TRY(stream->context->vendor->launch(stream->context, stream->own, call));
  stream->last = (last_work){call->name, stream->queue->origin};
  return TRI_OK;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* Begins to record the work that is queued in the stream. Calls of other threads, on other streams, are not recorded,
 * and do not break the recording. */
static tri_status runtime_graph_begin(tri_gpu_stream *stream) {
  TRI_GPU_CALL(stream->context, capture_begin, stream->own, TRI_GPU_CAPTURE_THREAD_LOCAL);
  return TRI_OK;
}

static tri_status end_recording(const tri_gpu_stream *stream, tri_gpu_graph_run_handle *out) {
  tri_gpu_graph_handle recorded = NULL;
  TRI_GPU_CALL(stream->context, capture_end, stream->own, &recorded);
  const tri_gpu_enum error = stream->context->calls->graph_instantiate(out, recorded, 0);
  (void)stream->context->calls->graph_destroy(recorded);
  return error == 0
             ? TRI_OK
             : tri_gpu_call_failed(stream->context, stream->context->vendor->call_names.graph_instantiate, error);
}

static tri_status runtime_graph_end(tri_gpu_stream *stream, tri_gpu_graph **out) {
  tri_gpu_graph_run_handle run = NULL;
  TRI_TRY(end_recording(stream, &run));
  tri_status status = tri_alloc("a recording", 1, sizeof **out, out);
  if (status == TRI_OK) **out = (tri_gpu_graph){stream->context, run, stream->last};
  if (status != TRI_OK) (void)stream->context->calls->graph_run_destroy(run);
  return status;
}

static tri_status runtime_graph_launch(tri_gpu_graph *graph, tri_gpu_stream *stream) {
  TRI_GPU_CALL(stream->context, graph_launch, graph->own, stream->own);
  stream->last = graph->last;
  return TRI_OK;
}

static void runtime_graph_destroy(tri_gpu_graph *graph) {
  if (use_quietly(graph->context)) (void)graph->context->calls->graph_run_destroy(graph->own);
  tri_free(graph);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

static tri_status cuda_count(int *out, const char **why) { return count_gpus(&tri_gpu_nvidia, out, why); }
static tri_status hip_count(int *out, const char **why) { return count_gpus(&tri_gpu_amd, out, why); }

static tri_status cuda_open(int ordinal, const char *options, tri_gpu_context **out) {
  return open_gpu(&tri_gpu_nvidia, ordinal, options, out);
}

static tri_status hip_open(int ordinal, const char *options, tri_gpu_context **out) {
  return open_gpu(&tri_gpu_amd, ordinal, options, out);
}

/* The functions that CUDA and HIP share. `count` and `open` differ, because they have no context that names the vendor.
 */
#define BOTH_HAVE                                                                                                      \
  .close = runtime_close, .facts = runtime_facts, .enter = tri_gpu_use, .memory_free = runtime_memory_free,            \
  .memory_create = runtime_memory_create, .memory_destroy = runtime_memory_destroy,                                    \
  .host_create = runtime_host_create, .host_destroy = runtime_host_destroy, .peer_address = runtime_peer_address,      \
  .stream_create = runtime_stream_create, .stream_destroy = runtime_stream_destroy,                                    \
  .stream_handle = runtime_stream_handle, .copy = runtime_copy, .fill_zero = runtime_fill_zero,                        \
  .event_create = runtime_event_create, .event_destroy = runtime_event_destroy, .event_record = runtime_event_record,  \
  .stream_wait = runtime_stream_wait, .event_wait = runtime_event_wait, .event_passed = runtime_event_passed,          \
  .event_seconds = runtime_event_seconds, .module_load = runtime_module_load, .module_unload = runtime_module_unload,  \
  .module_function = runtime_module_function, .launch = runtime_launch, .graph_begin = runtime_graph_begin,            \
  .graph_end = runtime_graph_end, .graph_launch = runtime_graph_launch, .graph_destroy = runtime_graph_destroy

const tri_gpu_runtime tri_gpu_cuda = {
    .name = "CUDA", .products = &tri_gpu_cublaslt, .count = cuda_count, .open = cuda_open, BOTH_HAVE};
const tri_gpu_runtime tri_gpu_hip = {
    .name = "HIP", .products = &tri_gpu_hipblaslt, .count = hip_count, .open = hip_open, BOTH_HAVE};
