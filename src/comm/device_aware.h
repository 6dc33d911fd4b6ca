/* Collectives over a device-aware MPI, which reads and writes device memory itself: values go from device to device,
 * and the device adds them.
 *
 * The sums have the bits that comm.h guarantees: every rank receives the others' values of its part, adds the values of
 * each node in the order of the ranks, and then adds the sums of the nodes. Values go through scratch memory in pieces:
 * one half receives a piece while the device adds the piece in the other half. */
#ifndef TRI_COMM_DEVICE_AWARE_H
#define TRI_COMM_DEVICE_AWARE_H

#include "comm/comm.h"
#include "device/device.h"
#include "device/queue.h"

/* LOCAL. Returns whether the MPI of this process reports that it can read and write memory of that kind; false before a
 * job is joined. */
bool tri_comm_is_device_aware(tri_device_peer peer);

typedef struct tri_device_aware_call {
  tri_group group;
  bool reduce, gather; /* whether values are added, and whether the parts are then gathered: reduce_scatter, all_gather,
                          or both for an all_reduce */
  tri_dtype type;
  const int64_t *begins;  /* [size + 1]: the parts, as in comm.h, valid until the call is done; NULL: equal parts of
                             `count` (tri_part_begin) */
  int64_t count;          /* elements of `values` */
  char *values;           /* device memory */
  tri_queue *queue;       /* queue of the additions */
  tri_device_event ready; /* event that is passed when `values` are written and no other work uses them */
  char *scratch;          /* TRI_DEVICE_AWARE_SCRATCH_BYTES of device memory, in use until the call is done */
} tri_device_aware_call;

enum { TRI_DEVICE_AWARE_SCRATCH_BYTES = 16 << 20 };

typedef struct tri_device_aware tri_device_aware;

/* COLLECTIVE over a group of several ranks. Starts a call. All ranks start their calls in the same order, each after
 * the previous one is done. Release with tri_device_aware_release. Fails with TRI_UNSUPPORTED if the group has too
 * many ranks for the scratch memory. */
tri_status tri_device_aware_start(const tri_device_aware_call *call, tri_device_aware **out);
/* LOCAL. Advances the call: if `wait` is true until it is done, else as far as possible without waiting. Sets *done to
 * whether all messages are finished; the result is then in `values` after the event *after. */
tri_status tri_device_aware_advance(tri_device_aware *reached, bool wait, bool *done, tri_device_event *after);
/* LOCAL. Frees the call, which must be done. */
void tri_device_aware_release(tri_device_aware *reached);

#endif
