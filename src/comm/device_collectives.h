/* Collectives of a device's own, such as a vendor's library has them: they take device memory, and go into a queue as
 * kernels do. One table for each library; a group that has joined one carries it (tri_group.device), and callers with
 * values in device memory ask the group for it first. Where a group has none, or the table an empty slot, the values
 * go through the host's memory and comm.h.
 *
 * What comm.h promises of sums holds here too: in the order of the ranks, to the bit. A library that adds in another
 * order leaves that slot empty. No device has such a library yet, so every group's is NULL. */
#ifndef TRI_COMM_DEVICE_COLLECTIVES_H
#define TRI_COMM_DEVICE_COLLECTIVES_H

#include "comm/comm.h"
#include "device/queue.h"

struct tri_device_collectives {
  const char *name; /* for messages */

  /* COLLECTIVE over the group, once, before its first use; what the ranks must tell each other to find together goes
   * through the group itself. *member is this rank's. */
  tri_status (*join)(const tri_group *group, tri_device *device, void **member);
  /* LOCAL. After the queues that it was used in are finished. */
  void (*leave)(void *member);

  /* COLLECTIVE over the group, all ranks' calls in one order; as the functions of comm.h of these names. They return
   * when the work is queued; a fault is told at the next wait for the queue. Any may be empty. */
  tri_status (*all_reduce)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_maximum)(void *member, tri_queue *queue, tri_dtype type, int64_t count, void *values);
  tri_status (*all_gather)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*reduce_scatter)(void *member, tri_queue *queue, tri_dtype type, const int64_t *begins, void *values);
  tri_status (*all_to_all)(void *member, tri_queue *queue, tri_dtype type, const int64_t *from_begins, const void *from,
                           const int64_t *to_begins, void *to);
  tri_status (*pass)(void *member, tri_queue *queue, int to, size_t send_bytes, const void *send, int from,
                     size_t receive_bytes, void *receive);
  /* Between two ranks of the group: matched by sender, receiver and tag, in order. */
  tri_status (*send)(void *member, tri_queue *queue, int to, int tag, size_t bytes, const void *data);
  tri_status (*receive)(void *member, tri_queue *queue, int from, int tag, size_t bytes, void *data);
};

#endif
