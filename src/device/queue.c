#include "device/queue.h"

#include "base/memory.h"

#include <stdio.h>

const char *tri_origin_of_work(const char *what, const tri_origin *origin, char *text, size_t text_bytes) {
  char of[32] = "", name[128] = "";
  if (origin->index >= 0) snprintf(of, sizeof of, " of call %lld", (long long)origin->index);
  if (origin->name != NULL) {
    snprintf(name, sizeof name, " (%s%s%s)", origin->name, origin->pass == NULL ? "" : ", ",
             origin->pass == NULL ? "" : origin->pass);
  }
  snprintf(text, text_bytes, "%s%s%s", what, origin->name == NULL ? "" : of, name);
  return text;
}

tri_status tri_queue_create(tri_device *device, tri_queue **out) {
  tri_queue *queue = NULL;
  TRI_TRY(tri_alloc("a queue", 1, sizeof *queue, &queue));
  queue->device = device;
  queue->number = device->num_queues++;
  tri_status status = device->driver->queue_create == NULL ? TRI_OK : device->driver->queue_create(queue);
  if (status == TRI_OK) *out = queue;
  if (status != TRI_OK) tri_free(queue);
  return status;
}

void tri_queue_destroy(tri_queue *queue) {
  if (queue == NULL) return;
  if (queue->device->driver->queue_destroy != NULL) queue->device->driver->queue_destroy(queue);
  tri_free(queue);
}

tri_status tri_queue_mark(tri_queue *queue, tri_device_event *out) {
  *out = (tri_device_event){queue, 0};
  return queue->device->driver->mark == NULL ? TRI_OK : queue->device->driver->mark(queue, out);
}

tri_status tri_queue_wait(tri_queue *queue, const tri_device_event *event) {
  if (event->queue == NULL || queue->device->driver->wait == NULL) return TRI_OK;
  return queue->device->driver->wait(queue, event);
}

tri_status tri_device_event_wait(const tri_device_event *event) {
  if (event->queue == NULL || event->queue->device->driver->event_wait == NULL) return TRI_OK;
  return event->queue->device->driver->event_wait(event);
}

bool tri_device_event_passed(const tri_device_event *event) {
  if (event->queue == NULL || event->queue->device->driver->event_passed == NULL) return true;
  return event->queue->device->driver->event_passed(event);
}

tri_status tri_queue_finish(tri_queue *queue) {
  tri_device_event event;
  TRI_TRY(tri_queue_mark(queue, &event));
  return tri_device_event_wait(&event);
}

void tri_queue_drain(tri_queue *queue) {
  tri_saved_error before = {.status = TRI_OK};
  tri_error_save(&before, TRI_INTERNAL); /* keeps an earlier error of this thread */
  (void)tri_queue_finish(queue);
  (void)tri_saved_error_restore(&before);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

tri_status tri_queue_copy(tri_queue *queue, const tri_copy *copy) {
  if (copy->rows == 0 || copy->row_bytes == 0) return TRI_OK;
  return queue->device->driver->copy(queue, copy);
}

static tri_status copy_row(tri_queue *queue, void *to, tri_side to_side, const void *from, tri_side from_side,
                           size_t bytes) {
  tri_copy copy = {to, from, to_side, from_side, 1, bytes, bytes, bytes};
  return tri_queue_copy(queue, &copy);
}

tri_status tri_queue_upload(tri_queue *queue, void *to, const void *from_host, size_t bytes) {
  return copy_row(queue, to, TRI_SIDE_DEVICE, from_host, TRI_SIDE_HOST, bytes);
}

tri_status tri_queue_download(tri_queue *queue, void *to_host, const void *from, size_t bytes) {
  return copy_row(queue, to_host, TRI_SIDE_HOST, from, TRI_SIDE_DEVICE, bytes);
}

tri_status tri_queue_move(tri_queue *queue, void *to, const void *from, size_t bytes) {
  return copy_row(queue, to, TRI_SIDE_DEVICE, from, TRI_SIDE_DEVICE, bytes);
}

tri_status tri_queue_upload_now(tri_queue *queue, void *to, const void *from_host, size_t bytes) {
  TRI_TRY(tri_queue_upload(queue, to, from_host, bytes));
  return tri_queue_finish(queue);
}

tri_status tri_queue_download_now(tri_queue *queue, void *to_host, const void *from, size_t bytes) {
  TRI_TRY(tri_queue_download(queue, to_host, from, bytes));
  return tri_queue_finish(queue);
}

tri_status tri_queue_mark_uninitialised(tri_queue *queue, void *memory, size_t bytes) {
  if (bytes == 0 || queue->device->driver->undefine == NULL) return TRI_OK;
  return queue->device->driver->undefine(queue, memory, bytes);
}
