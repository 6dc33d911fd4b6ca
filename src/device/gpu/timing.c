/* Times work by the GPU's own clock: the rounds are recorded into a graph, which is launched between two events. */
#include "device/gpu/internal.h"

typedef struct stopwatch {
  const tri_gpu_runtime *runtime;
  tri_gpu_stream *stream;
  tri_gpu_graph *graph;
  tri_gpu_event *from, *to;
} stopwatch;

/* Records the rounds. The recording is ended even after a failure: a stream in recording mode runs no other work. */
static tri_status record(stopwatch *w, tri_queue *queue, tri_device_work *work, void *context, int rounds) {
  tri_status status = TRI_OK;
  TRI_TRY(w->runtime->graph_begin(w->stream));
  tri_gpu_queue_set_recording(queue, true);
  for (int i = 0; i < rounds && status == TRI_OK; i++) status = work(queue, context, i);
  tri_gpu_queue_set_recording(queue, false);
  tri_saved_error kept = {.status = TRI_OK};
  tri_error_save(&kept, status);
  tri_error_save(&kept, w->runtime->graph_end(w->stream, &w->graph));
  return tri_saved_error_restore(&kept);
}

static tri_status measure(stopwatch *w, tri_queue *queue, tri_device_work *work, void *context, int rounds,
                          double *seconds) {
  TRI_TRY(w->runtime->event_create(((const tri_gpu *)queue->device->state)->context, true, &w->from));
  TRI_TRY(w->runtime->event_create(((const tri_gpu *)queue->device->state)->context, true, &w->to));
  TRI_TRY(record(w, queue, work, context, rounds));
  TRI_TRY(w->runtime->event_record(w->from, w->stream));
  TRI_TRY(w->runtime->graph_launch(w->graph, w->stream));
  TRI_TRY(w->runtime->event_record(w->to, w->stream));
  return w->runtime->event_seconds(w->from, w->to, seconds);
}

tri_status tri_gpu_queue_time(tri_queue *queue, tri_device_work *work, void *context, int rounds, double *seconds) {
  const tri_gpu *gpu = queue->device->state;
  stopwatch w = {.runtime = gpu->runtime, .stream = tri_gpu_stream_of(queue)};
  TRI_TRY(tri_queue_finish(queue));
  tri_status status = measure(&w, queue, work, context, rounds, seconds);
  tri_queue_drain(queue);
  if (w.graph != NULL) gpu->runtime->graph_destroy(w.graph);
  if (w.from != NULL) gpu->runtime->event_destroy(w.from);
  if (w.to != NULL) gpu->runtime->event_destroy(w.to);
  return status;
}
