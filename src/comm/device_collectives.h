/* Collectives of a vendor's library for its devices (NCCL, RCCL): they work on device memory and are queued as kernels
 * are. There is one table for each library; tri_group.device is that of the library which a group has joined. Callers
 * with values in device memory use it first. If it is NULL, or the function is NULL in the table, the values go through
 * host memory and comm.h.
 *
 * The sums are in the order of the ranks, to the bit, as comm.h guarantees. A library that adds in another order leaves
 * that function NULL. No device has such a library yet: tri_group.device is always NULL. */
#ifndef TRI_COMM_DEVICE_COLLECTIVES_H
#define TRI_COMM_DEVICE_COLLECTIVES_H

#include "comm/comm.h"
#include "device/queue.h"

struct tri_device_collectives {
  const char *name; /* for messages */

  /* COLLECTIVE over the group, once, before its first use. The ranks exchange what the library needs for setting up
   * over the group itself. *member is this rank's handle. */
  tri_status (*join)(const tri_group *group, tri_device *device, void **member);
  /* LOCAL. Releases the handle, after all queues that it was used in are finished. */
  void (*leave)(void *member);

  /* COLLECTIVE over the group: as the functions of comm.h of these names. They return when the work is queued; an error
   * is reported by the next wait for the queue. Any may be NULL. */
  tri_status (*all_reduce)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_maximum)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_gather)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*reduce_scatter)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*all_to_all)(void *member, tri_queue *queue, tri_dtype type, const int64_t *from_begins, const void *from,
                           const int64_t *to_begins, void *to);
  tri_status (*pass)(void *member, tri_queue *queue, int to, size_t send_bytes, const void *send, int from,
                     size_t receive_bytes, void *receive);
  /* LOCAL. Messages between two ranks of the group: matched by sender, receiver and tag, in order. */
  tri_status (*send)(void *member, tri_queue *queue, int to, int tag, size_t bytes, const void *data);
  tri_status (*receive)(void *member, tri_queue *queue, int from, int tag, size_t bytes, void *data);
};

#endif
