/* The third implementation of gpu/runtime.h's table, without a GPU. Memory, copies and queues are those of the guarded
 * device (device/guarded): only kernels access device memory, and work runs late, in a random order from a seed.
 * Kernels are part of this program, compiled by the host's compiler for each type and for warps of 32 and 64, and run
 * by emulator.h.
 *
 * Callers pass the device's addresses as arguments of a kernel, but the kernel needs the addresses at which the memory
 * is mapped. So when a launch runs, each word of its arguments that is an address of this device is replaced. */
#include "device/emulated/emulated.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/system.h"
#include "device/emulated/emulator.h"
#include "device/gpu/choice.h"
#include "device/gpu/gpu.h"
#include "device/gpu/kernel_list.h"
#include "device/gpu/runtime.h"
#include "device/guarded/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels of this program ------------------------------------------------------------------------------------- */

#define DECLARE(name, threads)                                                                                         \
  extern void tri_emulated_##name##_64_w32(const void *);                                                              \
  extern void tri_emulated_##name##_64_w64(const void *);                                                              \
  extern void tri_emulated_##name##_32_w32(const void *);                                                              \
  extern void tri_emulated_##name##_32_w64(const void *);                                                              \
  extern void tri_emulated_##name##_16_w32(const void *);                                                              \
  extern void tri_emulated_##name##_16_w64(const void *);
TRI_GPU_KERNELS(DECLARE)

struct tri_gpu_function {
  const char *name, *what;
  tri_emulator_kernel *kernel;
};

#define VARIANT(name, suffix)                                                                                          \
  { #name, "kernel `" #name "`", tri_emulated_##name##_##suffix }
#define ROW(name, threads)                                                                                             \
  {{VARIANT(name, 64_w32), VARIANT(name, 64_w64)},                                                                     \
   {VARIANT(name, 32_w32), VARIANT(name, 32_w64)},                                                                     \
   {VARIANT(name, 16_w32), VARIANT(name, 16_w64)}},
/* Indexed by type (fp64, fp32, bf16), and by warps of 32 or 64. */
static const tri_gpu_function functions[TRI_GPU_NUM_KERNELS][TRI_GPU_NUM_TYPES][2] = {TRI_GPU_KERNELS(ROW)};

struct tri_gpu_module {
  int type, warp; /* indices of the type and of the warp's size in `functions` */
};

/* ---- options ----------------------------------------------------------------------------------------------------- */

typedef struct emulated_options {
  int64_t warp;   /* threads of a warp: 32 or 64 */
  int64_t seed;   /* seed of the order of threads and blocks; the guarded device uses it too */
  int64_t peer;   /* 1 if the device reports that MPI can access its memory, which any MPI can, since it is host memory;
                     else 0 */
  int64_t memory, /* bytes of the GPU's memory; 0: the bytes that are available on the machine */
      taken;      /* bytes of the GPU's memory that other processes use */
} emulated_options;

typedef struct option {
  const char *name;
  size_t offset;
  int64_t most;
  bool shared; /* whether the guarded device reads this option too */
} option;

static const option all_options[] = {
    {"warp", offsetof(emulated_options, warp), INT64_MAX, false},
    {"peer", offsetof(emulated_options, peer), 1, false},
    {"memory", offsetof(emulated_options, memory), INT64_MAX, false},
    {"taken", offsetof(emulated_options, taken), INT64_MAX, false},
    {"seed", offsetof(emulated_options, seed), INT64_MAX, true},
};
static const char others[] =
    "a GPU's number, blocking, gpus, warp, peer, memory, taken, "; /* names of options for messages, before those of the
                                                                      guarded device */

static const option *find_option(const char *text, size_t name_length) {
  for (size_t i = 0; i < sizeof all_options / sizeof all_options[0]; i++) {
    const option *o = &all_options[i];
    if (strlen(o->name) == name_length && strncmp(o->name, text, name_length) == 0) return o;
  }
  return NULL;
}

static tri_status set_option(const option *o, const char *text, int length, emulated_options *out) {
  char *end = NULL;
  const char *number = text + strlen(o->name) + 1;
  errno = 0;
  int64_t value = strtoll(number, &end, 10);
  if (errno != 0 || end != text + length || *number < '0' || *number > '9' || value > o->most) {
    return tri_fail(TRI_BAD_CONFIG, "`%.*s` of `device: emulated` should be %s=NUMBER, %s", length, text, o->name,
                    o->most == 1 ? "0 or 1" : "a whole number from 0 on");
  }
  memcpy((char *)out + o->offset, &value, sizeof value);
  return TRI_OK;
}

/* Parses the options. Unknown options belong to the guarded device, and are copied to `rest`. */
static tri_status parse(const char *options, emulated_options *out, char *rest, size_t rest_bytes) {
  *out = (emulated_options){.warp = 32};
  rest[0] = '\0';
  while (*options != '\0') {
    const int length = (int)strcspn(options, ",");
    const char *equals = memchr(options, '=', (size_t)length);
    const option *own = equals == NULL ? NULL : find_option(options, (size_t)(equals - options));
    const size_t used = strlen(rest);
    if (own != NULL) TRI_TRY(set_option(own, options, length, out));
    if (own == NULL || own->shared) {
      snprintf(rest + used, rest_bytes - used, "%s%.*s", used == 0 ? "" : ",", length, options);
    }
    options += length + (options[length] == ',');
  }
  if (out->warp == 32 || out->warp == 64) return TRI_OK;
  return tri_fail(TRI_BAD_CONFIG, "`warp=%lld` of `device: emulated` should be warp=32 or warp=64",
                  (long long)out->warp);
}

/* ---- the context ------------------------------------------------------------------------------------------------- */

struct tri_gpu_context {
  tri_guarded_state *memory;
  tri_emulator *emulator;
  emulated_options options;
  int ordinal, warp;
};

static tri_status emulated_count(int *out, const char **why) {
  *out = 1;
  *why = "it is always there";
  return TRI_OK;
}

static void emulated_close(tri_gpu_context *context) {
  tri_emulator_destroy(context->emulator);
  if (context->memory != NULL) tri_guarded_state_destroy(context->memory);
  tri_free(context);
}

static tri_status emulated_check(const char *options) {
  emulated_options parsed;
  char rest[256];
  TRI_TRY(parse(options, &parsed, rest, sizeof rest));
  return tri_guarded_options_check("emulated", others, rest);
}

static tri_status emulated_open(int ordinal, const char *options, tri_gpu_context **out) {
  tri_gpu_context *context = NULL;
  char rest[256];
  TRI_TRY(tri_alloc("an emulated GPU", 1, sizeof *context, &context));
  tri_status status = parse(options, &context->options, rest, sizeof rest);
  context->ordinal = ordinal;
  context->warp = (int)context->options.warp;
  if (status == TRI_OK) status = tri_guarded_state_create("emulated", others, rest, &context->memory);
  if (status == TRI_OK) {
    status = tri_emulator_create(context->warp, (uint64_t)context->options.seed, &context->emulator);
  }
  if (status == TRI_OK) *out = context;
  if (status != TRI_OK) emulated_close(context);
  return status;
}

static size_t memory_of(const tri_gpu_context *context) {
  return context->options.memory > 0 ? (size_t)context->options.memory : tri_system_memory_available();
}

/* Sets *out to the free bytes of the GPU's memory. Without the option `memory`, this process's use is already
 * subtracted from the machine's free memory. */
static tri_status emulated_memory_free(tri_gpu_context *context, size_t *out) {
  size_t all = memory_of(context), gone = (size_t)context->options.taken;
  if (context->options.memory > 0) gone += tri_guarded_memory_held(context->memory);
  *out = all > gone ? all - gone : 0;
  return TRI_OK;
}

static tri_status emulated_facts(tri_gpu_context *context, tri_gpu_facts *out) {
  *out = (tri_gpu_facts){.name = "emulated",
                         .driver = "",
                         .warp = context->warp,
                         .processors = 1,
                         .memory_bytes = memory_of(context),
                         .shared_bytes = 64 << 10, /* the smallest of the known chips */
                         .block_threads = 1024,
                         .peer = context->options.peer != 0 ? TRI_PEER_HOST : TRI_PEER_NONE};
  snprintf(out->bus, sizeof out->bus, "emulated:%d", context->ordinal);
  return TRI_OK;
}

/* ---- memory and copies ------------------------------------------------------------------------------------------- */

static tri_status emulated_memory_create(tri_gpu_context *context, size_t bytes, void **out) {
  return tri_guarded_memory_create(context->memory, bytes, out);
}

static tri_status emulated_host_create(tri_gpu_context *context, size_t bytes, void **out) {
  return tri_guarded_host_create(context->memory, bytes, out);
}

static void emulated_release(tri_gpu_context *context, void *memory) {
  tri_guarded_memory_release(context->memory, memory);
}

/* Returns the address at which the memory is mapped, which MPI may use if `peer` is 1. Returns NULL if it cannot be
 * opened. */
static void *emulated_peer_address(tri_gpu_context *context, void *memory) {
  void *open = NULL;
  tri_guarded_lock(context->memory); /* another thread may free the block meanwhile */
  const tri_status status = tri_guarded_open_if_own(context->memory, "memory that another library uses", memory, &open);
  tri_guarded_unlock(context->memory);
  return status == TRI_OK ? open : NULL;
}

/* ---- look-up of kernels ------------------------------------------------------------------------------------------ */

static int type_index(tri_dtype type) {
  switch (type) {
    case TRI_FP64: return 0;
    case TRI_FP32: return 1;
    case TRI_BF16: return 2;
    case TRI_INT32: break;
  }
  return 0;
}

static tri_status emulated_module_load(tri_gpu_context *context, const tri_gpu_image *image, tri_gpu_module **out) {
  tri_gpu_module *module = NULL;
  TRI_TRY(tri_alloc("a module", 1, sizeof *module, &module));
  *module = (tri_gpu_module){type_index(image->type), context->warp / 64};
  *out = module;
  return TRI_OK;
}

static void emulated_module_unload(tri_gpu_module *module) { tri_free(module); }

static tri_status emulated_module_function(tri_gpu_module *module, const char *name, tri_gpu_function **out) {
  for (int i = 0; i < TRI_GPU_NUM_KERNELS; i++) {
    const tri_gpu_function *function = &functions[i][module->type][module->warp];
    if (strcmp(function->name, name) != 0) continue;
    *out = (tri_gpu_function *)(uintptr_t)function;
    return TRI_OK;
  }
  return tri_fail_internal("the emulator has no kernel `%s`", name);
}

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* Work that is queued, or recorded. */
typedef struct item {
  struct item *next;
  const char *what; /* name of the kernel; NULL: a copy */
  tri_guarded_run run;
  bool kernel;
  size_t bytes; /* bytes of data */
  _Alignas(16) char data[];
} item;

struct tri_gpu_graph {
  item *first, *last;
};

struct tri_gpu_stream {
  tri_gpu_context *context;
  tri_guarded_queue *queue;
  tri_gpu_graph *recording; /* graph that is being recorded; NULL: none */
};

static tri_status emulated_stream_create(tri_gpu_context *context, tri_queue *queue, tri_gpu_stream **out) {
  tri_gpu_stream *stream = NULL;
  TRI_TRY(tri_alloc("a stream", 1, sizeof *stream, &stream));
  stream->context = context;
  tri_status status = tri_guarded_queue_create(context->memory, queue, &stream->queue);
  if (status == TRI_OK) *out = stream;
  if (status != TRI_OK) tri_free(stream);
  return status;
}

static void emulated_stream_destroy(tri_gpu_stream *stream) {
  tri_guarded_queue_destroy(stream->queue);
  tri_free(stream);
}

/* Queues work. Counts kernels as the guarded device does, and makes number `fail_kernel` fail. */
static tri_status queue_work(tri_gpu_stream *stream, const item *like, const void *data) {
  tri_guarded_state *state = stream->context->memory;
  tri_guarded_work *work = NULL;
  tri_guarded_lock(state);
  tri_status status = tri_guarded_queue_work(stream->queue, like->what, like->run, like->bytes, &work);
  uint64_t count = like->kernel ? ++state->kernels_queued : 0;
  if (work != NULL) {
    memcpy(work->data, data, like->bytes);
    work->count = count;
    if (like->kernel && count == state->options.fail_kernel) work->told_to_fail = "fail_kernel";
  }
  tri_guarded_unlock(state);
  return status;
}

static tri_status queue_item(tri_gpu_stream *stream, const item *like, const void *data) {
  return like->what == NULL ? tri_guarded_queue_copy(stream->queue, data) : queue_work(stream, like, data);
}

static tri_status queue_or_record_item(tri_gpu_stream *stream, const item *like, const void *data) {
  tri_gpu_graph *graph = stream->recording;
  item *own = NULL;
  if (graph == NULL) return queue_item(stream, like, data);
  TRI_TRY(tri_alloc("recorded work", 1, sizeof *own + like->bytes, &own));
  *own = *like;
  memcpy(own->data, data, like->bytes);
  if (graph->last == NULL) {
    graph->first = own;
  } else {
    graph->last->next = own;
  }
  graph->last = own;
  return TRI_OK;
}

static tri_status emulated_copy(tri_gpu_stream *stream, const tri_copy *copy) {
  return queue_or_record_item(stream, &(item){.bytes = sizeof *copy}, copy);
}

typedef struct memory_range {
  void *memory;
  size_t bytes;
} memory_range;

static tri_status run_fill_zero(tri_guarded_queue *queue, const tri_guarded_work *work) {
  memory_range all;
  void *open = NULL;
  memcpy(&all, work->data, sizeof all);
  TRI_TRY(tri_guarded_open(queue->state, "the destination", all.memory, all.bytes, &open));
  memset(open, 0, all.bytes);
  return TRI_OK;
}

static tri_status emulated_fill_zero(tri_gpu_stream *stream, void *memory, size_t bytes) {
  const memory_range all = {memory, bytes};
  return queue_or_record_item(
      stream, &(item){.what = "kernel `fill_zero`", .run = run_fill_zero, .kernel = true, .bytes = sizeof all}, &all);
}

static tri_status emulated_undefine(tri_gpu_stream *stream, void *memory, size_t bytes) {
  return tri_guarded_queue_undefine(stream->queue, memory, bytes);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

enum { MOST_ARGUMENT_BYTES = 512 };

typedef struct queued_launch {
  tri_emulator *emulator;
  tri_emulator_launch launch;
  size_t argument_bytes;
  _Alignas(16) char arguments[MOST_ARGUMENT_BYTES];
} queued_launch;

static tri_status run_launch(tri_guarded_queue *queue, const tri_guarded_work *work) {
  queued_launch queued;
  memcpy(&queued, work->data, sizeof queued);
  for (size_t at = 0; at + sizeof(void *) <= queued.argument_bytes; at += sizeof(void *)) {
    void *word, *open = NULL;
    memcpy(&word, queued.arguments + at, sizeof word);
    TRI_TRY(tri_guarded_open_if_own(queue->state, "an argument", word, &open));
    memcpy(queued.arguments + at, &open, sizeof open);
  }
  queued.launch.arguments = queued.arguments;
  return tri_emulator_run(queued.emulator, &queued.launch);
}

static tri_status emulated_launch(tri_gpu_stream *stream, const tri_gpu_launch_call *call) {
  queued_launch queued = {.emulator = stream->context->emulator,
                          .launch = {.kernel = call->function->kernel,
                                     .grid = {call->grid.x, call->grid.y, call->grid.z},
                                     .threads = call->threads,
                                     .shared_bytes = call->shared_bytes},
                          .argument_bytes = call->argument_bytes};
  if (call->argument_bytes > sizeof queued.arguments) {
    return tri_fail_internal("%zu bytes of arguments are more than %d", call->argument_bytes, MOST_ARGUMENT_BYTES);
  }
  memcpy(queued.arguments, call->arguments, call->argument_bytes);
  const item like = {.what = call->function->what, .run = run_launch, .kernel = true, .bytes = sizeof queued};
  return queue_or_record_item(stream, &like, &queued);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

static tri_status emulated_graph_begin(tri_gpu_stream *stream) {
  if (stream->recording != NULL) return tri_fail_internal("the queue is being recorded already");
  return tri_alloc("a recording", 1, sizeof *stream->recording, &stream->recording);
}

static tri_status emulated_graph_end(tri_gpu_stream *stream, tri_gpu_graph **out) {
  *out = stream->recording;
  stream->recording = NULL;
  return *out == NULL ? tri_fail_internal("nothing was being recorded") : TRI_OK;
}

static tri_status emulated_graph_launch(tri_gpu_graph *graph, tri_gpu_stream *stream) {
  for (const item *i = graph->first; i != NULL; i = i->next) TRI_TRY(queue_item(stream, i, i->data));
  return TRI_OK;
}

static void emulated_graph_destroy(tri_gpu_graph *graph) {
  item *next = NULL;
  for (item *i = graph->first; i != NULL; i = next) {
    next = i->next;
    tri_free(i);
  }
  tri_free(graph);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

struct tri_gpu_event {
  tri_guarded_queue *queue; /* queue in which the event was recorded; NULL: not recorded yet */
  uint64_t place;           /* place in the queue (tri_guarded_queue_place) */
};

static tri_status emulated_event_create(tri_gpu_context *context, bool timed, tri_gpu_event **out) {
  (void)context;
  (void)timed;
  return tri_alloc("an event", 1, sizeof **out, out);
}

static void emulated_event_destroy(tri_gpu_event *event) { tri_free(event); }

static tri_status emulated_event_record(tri_gpu_event *event, tri_gpu_stream *stream) {
  event->queue = stream->queue;
  event->place = tri_guarded_queue_place(stream->queue);
  return TRI_OK;
}

static tri_status emulated_stream_wait(tri_gpu_stream *stream, const tri_gpu_event *event) {
  return event->queue == NULL ? TRI_OK : tri_guarded_queue_follow(stream->queue, event->queue, event->place);
}

static tri_status emulated_event_wait(const tri_gpu_event *event) {
  return event->queue == NULL ? TRI_OK : tri_guarded_queue_reach(event->queue, event->place);
}

static bool emulated_event_passed(const tri_gpu_event *event) {
  return event->queue == NULL || tri_guarded_queue_has_passed(event->queue, event->place);
}

/* Waits for both events, which runs the work between them, and returns the time between them on the CPU. */
static tri_status emulated_event_seconds(const tri_gpu_event *from, const tri_gpu_event *to, double *out) {
  TRI_TRY(emulated_event_wait(from));
  double begin = tri_clock_s();
  TRI_TRY(emulated_event_wait(to));
  *out = tri_clock_s() - begin;
  return TRI_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const tri_gpu_runtime runtime = {
    .name = "emulated",
    .any_count = true,
    .count = emulated_count,
    .check = emulated_check,
    .open = emulated_open,
    .close = emulated_close,
    .facts = emulated_facts,
    .memory_free = emulated_memory_free,
    .memory_create = emulated_memory_create,
    .memory_destroy = emulated_release,
    .host_create = emulated_host_create,
    .host_destroy = emulated_release,
    .peer_address = emulated_peer_address,
    .stream_create = emulated_stream_create,
    .stream_destroy = emulated_stream_destroy,
    .copy = emulated_copy,
    .fill_zero = emulated_fill_zero,
    .undefine = emulated_undefine,
    .event_create = emulated_event_create,
    .event_destroy = emulated_event_destroy,
    .event_record = emulated_event_record,
    .stream_wait = emulated_stream_wait,
    .event_wait = emulated_event_wait,
    .event_passed = emulated_event_passed,
    .event_seconds = emulated_event_seconds,
    .module_load = emulated_module_load,
    .module_unload = emulated_module_unload,
    .module_function = emulated_module_function,
    .launch = emulated_launch,
    .graph_begin = emulated_graph_begin,
    .graph_end = emulated_graph_end,
    .graph_launch = emulated_graph_launch,
    .graph_destroy = emulated_graph_destroy,
};

/* ---- the device -------------------------------------------------------------------------------------------------- */

static const tri_gpu_runtime *const runtimes[] = {&runtime, NULL};

tri_status tri_emulated_check(const char *options) { return tri_gpu_choice_check("emulated", runtimes, options); }

tri_status tri_emulated_create(const char *options, const tri_device_request *request, tri_device *out) {
  TRI_TRY(tri_gpu_create_from("emulated", runtimes, options, request->place, out));
  out->info.host_memory = true;
  return TRI_OK;
}
