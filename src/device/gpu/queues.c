/* Queues of a GPU, which are streams of the runtime. A mark is an event in a ring of EVENTS events. Once the ring has
 * wrapped, a later mark reuses the event of an earlier one, and a wait for the earlier mark may last longer than
 * necessary.
 *
 * `marked` is also written without the lock, because only one thread queues work and records marks: the main thread,
 * which also drives communication (comm/progress.c). The threads of the saver and of the watchdog do not use the
 * device. */
#include "device/gpu/internal.h"

#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

enum { EVENTS = 64, MOST_BLOCKS = 4096 };

typedef struct gpu_queue {
  tri_gpu *gpu;
  tri_gpu_stream *stream;
  pthread_mutex_t lock; /* held while a mark is recorded, but not while work is queued, nor in waits */
  uint64_t marks;       /* number of marks recorded so far, which is the number of the newest mark */
  bool marked;          /* whether no work has been queued since the last mark */
  bool recording; /* whether work is recorded into a graph and not executed, so that there is no work to wait for */
  tri_gpu_event *events[EVENTS];
  void *scratch;
} gpu_queue;

static void release(tri_queue *queue, gpu_queue *own) {
  for (int i = 0; i < EVENTS; i++) {
    if (own->events[i] != NULL) own->gpu->runtime->event_destroy(own->events[i]);
  }
  tri_device_memory_destroy(queue->device, own->scratch, TRI_GPU_SCRATCH_BYTES);
  if (own->stream != NULL) own->gpu->runtime->stream_destroy(own->stream);
  pthread_mutex_destroy(&own->lock);
  tri_free(own);
}

/* Creates the stream and events. Only the device's first queue, which runs a step's kernels, has scratch memory. */
static tri_status create_stream_and_events(tri_queue *queue, gpu_queue *own) {
  const tri_gpu_runtime *runtime = own->gpu->runtime;
  TRI_TRY(runtime->stream_create(own->gpu->context, queue, &own->stream));
  for (int i = 0; i < EVENTS; i++) TRI_TRY(runtime->event_create(own->gpu->context, false, &own->events[i]));
  if (queue->number > 0) return TRI_OK;
  return tri_device_memory_create(queue->device, TRI_GPU_SCRATCH_BYTES, &own->scratch);
}

tri_status tri_gpu_queue_create(tri_queue *queue) {
  gpu_queue *own = NULL;
  TRI_TRY(tri_alloc("a queue", 1, sizeof *own, &own));
  own->gpu = queue->device->state;
  pthread_mutex_init(&own->lock, NULL);
  tri_status status = create_stream_and_events(queue, own);
  if (status != TRI_OK) {
    release(queue, own);
    return status;
  }
  queue->state = own;
  return TRI_OK;
}

void tri_gpu_queue_destroy(tri_queue *queue) {
  tri_queue_drain(queue);
  release(queue, queue->state);
}

tri_gpu_stream *tri_gpu_stream_of(tri_queue *queue) {
  gpu_queue *own = queue->state;
  own->marked = false;
  return own->stream;
}

void tri_gpu_queue_set_recording(tri_queue *queue, bool recording) {
  ((gpu_queue *)queue->state)->recording = recording;
}

void *tri_gpu_scratch(tri_queue *queue) { return ((gpu_queue *)queue->state)->scratch; }

/* ---- marks and waits --------------------------------------------------------------------------------------------- */

/* Records an event after the work so far, unless nothing was queued since the last mark. Sets *number to that of the
 * newest mark. The caller holds the lock. */
static tri_status mark(gpu_queue *own, uint64_t *number) {
  if (!own->marked) {
    TRI_TRY(own->gpu->runtime->event_record(own->events[(own->marks + 1) % EVENTS], own->stream));
    own->marks++;
    own->marked = true;
  }
  *number = own->marks;
  return TRI_OK;
}

tri_status tri_gpu_queue_mark(tri_queue *queue, tri_device_event *out) {
  gpu_queue *own = queue->state;
  pthread_mutex_lock(&own->lock);
  tri_status status = mark(own, &out->number);
  pthread_mutex_unlock(&own->lock);
  return status;
}

/* Returns the event of a mark; NULL if its number is 0: marks count from 1, and mark 0 counts as passed. */
static const tri_gpu_event *event_of(const tri_device_event *event) {
  const gpu_queue *own = event->queue->state;
  return event->number == 0 ? NULL : own->events[event->number % EVENTS];
}

tri_status tri_gpu_queue_wait(tri_queue *queue, const tri_device_event *event) {
  gpu_queue *own = queue->state;
  const tri_gpu_event *on = event_of(event);
  if (event->queue->device != queue->device) {
    return tri_fail_internal("a queue of the device waits for one of another device: a mistake of this program's");
  }
  own->marked = false;
  return on == NULL ? TRI_OK : own->gpu->runtime->stream_wait(own->stream, on);
}

tri_status tri_gpu_queue_event_wait(const tri_device_event *event) {
  const gpu_queue *own = event->queue->state;
  const tri_gpu_event *on = event_of(event);
  return on == NULL ? TRI_OK : own->gpu->runtime->event_wait(on);
}

bool tri_gpu_queue_event_passed(const tri_device_event *event) {
  const gpu_queue *own = event->queue->state;
  const tri_gpu_event *on = event_of(event);
  return on == NULL || own->gpu->runtime->event_passed(on);
}

/* Notes that work has been queued, so that the next mark needs a new event. On a blocking device, waits for the work,
 * so that its error is reported here. */
static tri_status done(gpu_queue *own) {
  uint64_t number = 0;
  own->marked = false;
  if (!own->gpu->blocking || own->recording) return TRI_OK;
  pthread_mutex_lock(&own->lock);
  tri_status status = mark(own, &number);
  pthread_mutex_unlock(&own->lock);
  return status == TRI_OK ? own->gpu->runtime->event_wait(own->events[number % EVENTS]) : status;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

tri_status tri_gpu_queue_copy(tri_queue *queue, const tri_copy *copy) {
  gpu_queue *own = queue->state;
  TRI_TRY(own->gpu->runtime->copy(own->stream, copy));
  return done(own);
}

tri_status tri_gpu_queue_undefine(tri_queue *queue, void *memory, size_t bytes) {
  gpu_queue *own = queue->state;
  own->marked = false;
  return own->gpu->runtime->undefine == NULL ? TRI_OK : own->gpu->runtime->undefine(own->stream, memory, bytes);
}

tri_status tri_gpu_queue_fill_zero(tri_queue *queue, size_t bytes, void *out) {
  gpu_queue *own = queue->state;
  if (bytes == 0) return TRI_OK;
  TRI_TRY(own->gpu->runtime->fill_zero(own->stream, out, bytes));
  return done(own);
}

/* ---- kernels ----------------------------------------------------------------------------------------------------- */

tri_gpu_shape tri_gpu_shape_of(int64_t items, int threads) {
  int64_t blocks = (items + threads - 1) / threads;
  return (tri_gpu_shape){.x = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS};
}

static uint32_t threads_of(tri_gpu_kernel kernel) {
#define THREADS(name, threads) threads,
  static const uint32_t all[] = {TRI_GPU_KERNELS(THREADS)};
#undef THREADS
  return all[kernel];
}

static tri_status launch(tri_queue *queue, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_shape shape,
                         const void *arguments, size_t argument_bytes) {
  gpu_queue *own = queue->state;
  tri_gpu_launch_call call = {
      .name = tri_gpu_kernel_name(kernel),
      .grid = {(uint32_t)shape.x, (uint32_t)(shape.y == 0 ? 1 : shape.y), (uint32_t)(shape.z == 0 ? 1 : shape.z)},
      .threads = threads_of(kernel),
      .shared_bytes = shape.shared_bytes,
      .arguments = arguments,
      .argument_bytes = argument_bytes,
  };
  if (shape.x > INT32_MAX || shape.y > UINT16_MAX || shape.z > UINT16_MAX) {
    return tri_fail(TRI_UNSUPPORTED,
                    "%lld x %lld x %lld blocks are more than a GPU takes at once; smaller micro-batches ask for less",
                    (long long)shape.x, (long long)shape.y, (long long)shape.z);
  }
  TRI_TRY(tri_gpu_function_of(own->gpu->modules, kernel, type, &call.function));
  TRI_TRY(own->gpu->runtime->launch(own->stream, &call));
  return done(own);
}

tri_status tri_gpu_launch(tri_queue *queue, tri_gpu_kernel kernel, tri_dtype type, tri_gpu_shape shape,
                          const void *arguments, size_t argument_bytes) {
  if (shape.x == 0) return TRI_OK;
  tri_status status = launch(queue, kernel, type, shape, arguments, argument_bytes);
  if (status == TRI_OK) return TRI_OK;
  char what[64], work[192];
  snprintf(what, sizeof what, "kernel `%s`", tri_gpu_kernel_name(kernel));
  if (strstr(tri_status_message(), what) != NULL) return status; /* a wait has already added the kernel's name */
  return tri_fail(status, "%s: %s", tri_origin_of_work(what, &queue->origin, work, sizeof work), tri_status_message());
}
