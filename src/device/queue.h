/* Queues of a device: kernels (kernels.h) and copies are queued, and run in order later. The host, or another queue,
 * can wait for an event in a queue.
 *
 * An error of queued work is returned by the next wait for its queue, with the names of the kernel and of the call that
 * queued it. On `cpu` and `reference` work is complete when the call that queues it returns: events and waits cost
 * nothing, and errors are returned at once. */
#ifndef TRI_DEVICE_QUEUE_H
#define TRI_DEVICE_QUEUE_H

#include "device/device.h"

/* The origin of queued work, for messages: "call 12 (linear), forward". */
typedef struct tri_origin {
  const char *name; /* name of the operation, a string constant; NULL: not set yet */
  const char *pass; /* pass, such as "forward", a string constant; NULL: none */
  int64_t index;    /* index of the call; -1: the work is not of a call of a list */
} tri_origin;

struct tri_queue {
  tri_device *device;
  tri_origin origin; /* origin of work that is queued from now on */
  uint64_t number;   /* index among the device's queues */
  void *state;       /* data of the kind of device */
};

/* Writes "kernel `matmul` of call 12 (linear, forward)", for what = "kernel `matmul`". Returns text. */
const char *tri_origin_of_work(const char *what, const tri_origin *origin, char *text, size_t text_bytes);

/* A place in a queue: it is passed when all work that was queued before it is complete. */
typedef struct tri_device_event {
  tri_queue *queue; /* queue of the event; NULL: the event is passed */
  uint64_t number;
} tri_device_event;

/* Creates a queue in addition to device->queue. Release with tri_queue_destroy, which waits for its work. */
tri_status tri_queue_create(tri_device *device, tri_queue **out);
void tri_queue_destroy(tri_queue *queue);

/* Sets the origin of work that is queued from now on. */
static inline void tri_queue_at(tri_queue *queue, const char *name, int64_t index, const char *pass) {
  queue->origin = (tri_origin){name, pass, index};
}

/* Sets *out to an event that is passed when all work that is in the queue now is complete. */
tri_status tri_queue_mark(tri_queue *queue, tri_device_event *out);
/* Makes work that is queued from now on wait until the event, of another queue, is passed. */
tri_status tri_queue_wait(tri_queue *queue, const tri_device_event *event);

/* Waits until the event is passed; returns the error of work before it. */
tri_status tri_device_event_wait(const tri_device_event *event);
/* Returns whether the event is passed, without waiting. After an error it counts as passed; tri_device_event_wait
 * returns the error. */
bool tri_device_event_passed(const tri_device_event *event);
/* Waits for all queued work; returns its error. */
tri_status tri_queue_finish(tri_queue *queue);
/* Waits for all queued work before memory is released after a failure. Errors are not reported, and this thread's error
 * message is kept. */
void tri_queue_drain(tri_queue *queue);

/* ---- copies ------------------------------------------------------------------------------------------------------ */

typedef enum tri_side { TRI_SIDE_HOST, TRI_SIDE_DEVICE } tri_side;

/* A copy of `rows` rows of row_bytes bytes each. The first bytes of two rows are to_stride apart in the destination,
 * and from_stride in the source. Source and destination must not overlap. The host must not access its memory until it
 * has waited for the copy; other copies of this memory may be queued after it, in the same queue or in one that waits
 * for it. Copies are fast only from and to memory of tri_device_host_create. */
typedef struct tri_copy {
  void *to;
  const void *from;
  tri_side to_side, from_side;
  size_t rows, row_bytes, to_stride, from_stride;
} tri_copy;

/* Queues a copy; without rows or bytes, does nothing. */
tri_status tri_queue_copy(tri_queue *queue, const tri_copy *copy);

/* Queue a copy of contiguous bytes: tri_queue_upload from the host, tri_queue_download to the host, tri_queue_move
 * within the device. */
tri_status tri_queue_upload(tri_queue *queue, void *to, const void *from_host, size_t bytes);
tri_status tri_queue_download(tri_queue *queue, void *to_host, const void *from, size_t bytes);
tri_status tri_queue_move(tri_queue *queue, void *to, const void *from, size_t bytes);

/* Do the same as tri_queue_upload and tri_queue_download, and wait for the queue. */
tri_status tri_queue_upload_now(tri_queue *queue, void *to, const void *from_host, size_t bytes);
tri_status tri_queue_download_now(tri_queue *queue, void *to_host, const void *from, size_t bytes);

/* Queues the mark that the contents of this device memory are no longer needed, and are undefined until they are
 * written again. Devices for tests detect reads of memory that is marked. */
tri_status tri_queue_mark_uninitialised(tri_queue *queue, void *memory, size_t bytes);

#endif
