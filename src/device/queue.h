/* Work of a device is queued: kernels (kernels.h) and copies go into a queue and are done in order, some time later.
 * The host waits for a mark; so may another queue.
 *
 * A fault of queued work is told at the next wait for its queue, by the name of the kernel and of the call that queued
 * it. On `cpu` and `reference` a queue is empty whenever a call returns: marks and waits cost nothing, and faults are
 * told at once. */
#ifndef TRI_DEVICE_QUEUE_H
#define TRI_DEVICE_QUEUE_H

#include "device/device.h"

/* What is being done, for messages about faults: "call 12 (linear), forward". */
typedef struct tri_origin {
  const char *name; /* lives as long as the program; NULL before anything is said */
  const char *pass; /* the same; or NULL */
  int64_t index;    /* -1: none */
} tri_origin;

struct tri_queue {
  tri_device *device;
  tri_origin origin; /* of what is queued from here on */
  uint64_t number;   /* of the device's queues */
  void *state;       /* the device's own */
};

/* "kernel `matmul` of call 12 (linear, forward)", of what = "kernel `matmul`": writes it into text and returns that. */
const char *tri_origin_of_work(const char *what, const tri_origin *origin, char *text, size_t text_bytes);

/* The place behind what had been queued when it was made. */
typedef struct tri_device_event {
  tri_queue *queue; /* NULL: nothing, and passed */
  uint64_t number;
} tri_device_event;

/* A queue beside the device's own (device->queue). Release with tri_queue_destroy, which waits for it. */
tri_status tri_queue_create(tri_device *device, tri_queue **out);
void tri_queue_destroy(tri_queue *queue);

static inline void tri_queue_at(tri_queue *queue, const char *name, int64_t index, const char *pass) {
  queue->origin = (tri_origin){name, pass, index};
}

/* The place behind all that is in the queue now. */
tri_status tri_queue_mark(tri_queue *queue, tri_device_event *out);
/* What is queued from here on begins when the mark of another queue has been passed. */
tri_status tri_queue_wait(tri_queue *queue, const tri_device_event *event);

/* The host waits until the mark is passed, and is told of faults before it. */
tri_status tri_device_event_wait(const tri_device_event *event);
/* Whether it is passed; without waiting. A fault counts as passed: the wait tells it. */
bool tri_device_event_passed(const tri_device_event *event);
/* The host waits for all that has been queued. */
tri_status tri_queue_finish(tri_queue *queue);
/* The same for who cleans up: nothing that is queued uses any memory from here on. Faults are not told, and this
 * thread's message stays. */
void tri_queue_drain(tri_queue *queue);

/* ---- copies ------------------------------------------------------------------------------------------------------ */

typedef enum tri_side { TRI_SIDE_HOST, TRI_SIDE_DEVICE } tri_side;

/* `rows` rows of row_bytes each, their first bytes to_stride and from_stride apart. The two must not overlap. The host
 * leaves its memory as it is until the copy has been waited for; another copy of the same memory may be queued at once,
 * in this queue or in one that waits for this place. Copies from and to tri_device_host_create's are the fast ones. */
typedef struct tri_copy {
  void *to;
  const void *from;
  tri_side to_side, from_side;
  size_t rows, row_bytes, to_stride, from_stride;
} tri_copy;

tri_status tri_queue_copy(tri_queue *queue, const tri_copy *copy);

/* The same of one row. */
tri_status tri_queue_upload(tri_queue *queue, void *to, const void *from_host, size_t bytes);
tri_status tri_queue_download(tri_queue *queue, void *to_host, const void *from, size_t bytes);
tri_status tri_queue_move(tri_queue *queue, void *to, const void *from, size_t bytes);

/* And waits for it. */
tri_status tri_queue_upload_now(tri_queue *queue, void *to, const void *from_host, size_t bytes);
tri_status tri_queue_download_now(tri_queue *queue, void *to_host, const void *from, size_t bytes);

/* Queues the word that what is in this device memory is no longer needed: it may be anything until it is written again.
 * Who reads it before that finds out on a device that is there for such mistakes. */
tri_status tri_queue_mark_uninitialised(tri_queue *queue, void *memory, size_t bytes);

#endif
