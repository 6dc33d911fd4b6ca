/* Collectives over an MPI that reaches device memory itself (GPU-aware, as its makers say): values go from device to
 * device, and the device adds them.
 *
 * The sums are comm.h's, to the bit: every rank gets the others' values of its part as they are, and adds those of each
 * node in the order of its ranks, then those of the nodes. Values go piece by piece through scratch memory, of which
 * one half is filled by the ranks while the device adds the other. */
#ifndef TRI_COMM_DEVICE_AWARE_H
#define TRI_COMM_DEVICE_AWARE_H

#include "comm/comm.h"
#include "device/device.h"
#include "device/queue.h"

/* Whether the MPI of this process says that it reaches such memory. */
bool tri_comm_is_device_aware(tri_device_peer peer);

typedef struct tri_device_aware_call {
  tri_group group;
  bool reduce, gather; /* both: all_reduce */
  tri_dtype type;
  const int64_t *begins; /* of the parts; NULL: those that tri_part_begin makes of `count` */
  int64_t count;
  char *values;           /* device memory */
  tri_queue *queue;       /* in which the device adds */
  tri_device_event ready; /* the values are there, and no other work uses them */
  char *scratch;          /* TRI_DEVICE_AWARE_SCRATCH_BYTES of device memory, until it is done */
} tri_device_aware_call;

enum { TRI_DEVICE_AWARE_SCRATCH_BYTES = 16 << 20 };

typedef struct tri_device_aware tri_device_aware;

/* COLLECTIVE over the group, all ranks' calls in one order, one after the other is done. */
tri_status tri_device_aware_start(const tri_device_aware_call *call, tri_device_aware **out);
/* Goes on; with `wait` to the end, else as far as it can. *done: all messages are through, and *after is the place in
 * the queue behind which the result is there. */
tri_status tri_device_aware_advance(tri_device_aware *reached, bool wait, bool *done, tri_device_event *after);
void tri_device_aware_release(tri_device_aware *reached);

#endif
