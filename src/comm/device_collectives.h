/* Collectives of a device vendor's library (NCCL, RCCL). They work on device memory and are queued like kernels. Each
 * library has one table; tri_group.device is the table of the library that a group has joined. Callers with values in
 * device memory use it first. If it is NULL, or the function is NULL in the table, the values go through host memory
 * and comm.h.
 *
 * The sums are in the order of the ranks, to the bit, as comm.h guarantees. A library that adds in another order leaves
 * that function NULL. No device has such a library yet: tri_group.device is always NULL. */
#ifndef TRI_COMM_DEVICE_COLLECTIVES_H
#define TRI_COMM_DEVICE_COLLECTIVES_H

#include "comm/comm.h"
#include "device/queue.h"

struct tri_device_collectives {
  const char *name; /* for messages */

  /* COLLECTIVE over the group, once, before its first use. The ranks exchange the library's setup data over the group
   * itself. *member is this rank's handle. */
  tri_status (*join)(const tri_group *group, tri_device *device, void **member);
  /* LOCAL. Releases the handle. Call it after all work of the handle in queues is finished. */
  void (*leave)(void *member);

  /* COLLECTIVE over the group. Do the same as the functions of these names in comm.h, but return when the work is
   * queued; the next wait for the queue reports an error. Any may be NULL. */
  tri_status (*all_reduce)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_maximum)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_gather)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*reduce_scatter)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*all_to_all)(void *member, tri_queue *queue, tri_dtype type, const int64_t *from_begins, const void *from,
                           const int64_t *to_begins, void *to);
  tri_status (*pass)(void *member, tri_queue *queue, int to, size_t send_bytes, const void *send, int from,
                     size_t receive_bytes, void *receive);
  /* LOCAL. Queue a message between two ranks of the group. Messages match by sender, receiver and tag, in order. */
  tri_status (*send)(void *member, tri_queue *queue, int to, int tag, size_t bytes, const void *data);
  tri_status (*receive)(void *member, tri_queue *queue, int from, int tag, size_t bytes, void *data);
};

#endif
