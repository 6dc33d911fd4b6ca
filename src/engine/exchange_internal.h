/* Internals of requests and of the exchange, shared by exchange.c, messages.c and device_all_to_all.c. */
#ifndef TRI_ENGINE_EXCHANGE_INTERNAL_H
#define TRI_ENGINE_EXCHANGE_INTERNAL_H

#include "engine/exchange.h"

typedef enum exchange_kind {
  EXCHANGE_ALL_REDUCE,
  EXCHANGE_ALL_MAXIMUM,
  EXCHANGE_REDUCE_SCATTER,
  EXCHANGE_ALL_GATHER,
  EXCHANGE_SEND,
  EXCHANGE_RECEIVE,
} exchange_kind;

struct tri_exchange_request {
  tri_exchange *x;
  /* Request after this one in a list of the exchange, in the order in which they were started. */
  tri_exchange_request *next;
  exchange_kind kind;
  tri_group group;
  tri_request *comm; /* request of comm.h, for the current piece if the call is staged, else for the whole call */
  char *values;      /* values of the call, in device memory */

  /* Members for device-aware MPI. */
  tri_device_aware *reached;
  bool through; /* whether all messages have ended, so that the result is complete when `done` has passed */

  /* Members for staging. */
  bool staged;
  tri_dtype type;
  const int64_t *begins; /* offsets of the parts of the values; NULL: [0, count) is one part */
  int64_t count;
  int64_t piece_elements; /* elements of each part in a piece */
  /* Number of pieces; number of pieces whose download has been queued; number of pieces whose upload has been queued.
   */
  int64_t pieces, down, up;
  bool working;                /* whether piece number `up` is being communicated */
  char *buffers[2];            /* host memory; piece p is in buffers[p % 2] */
  tri_device_event arrived[2]; /* events passed when the download into each buffer has ended */
  int64_t *piece_begins;       /* offsets of the parts in the current piece, in elements [group.size + 1] */
  tri_device_event done;       /* event passed when the request's work on the device is done */

  /* Members for messages. */
  char *host; /* memory that MPI sends from or receives into */
  size_t bytes;
  int peer, tag;
  tri_device_event free; /* event passed when earlier work no longer uses the device memory, for a staged receive */
};

struct tri_exchange {
  tri_queue *queue;  /* compute queue of the device */
  tri_queue *copies; /* queue of staging copies and of sums; NULL if the host can access device memory */
  char *staging;     /* host memory for the pieces of staged collectives; NULL: nothing is staged */
  char *sums;        /* scratch device memory for sums; NULL: MPI cannot access device memory */
  tri_exchange_region transfer;
  tri_exchange_request *first; /* background collectives in progress, in the order in which they were started */
  /* Messages that have not begun, because they wait for earlier work of the device. */
  tri_exchange_request *pending;
  int64_t waits; /* number of waits of the host for staging copies */
};

/* ---- exchange.c -------------------------------------------------------------------------------------------------- */

/* Returns whether MPI does this kind of call directly on device memory. */
bool tri_exchange_is_reached(const tri_exchange *x, exchange_kind kind);
/* Sets *out to whether the host can access device memory; if it can, waits until all queued work is done. */
tri_status tri_exchange_reach(tri_exchange *x, bool *out);
/* Lets later work of the copy queue wait for the work queued on the compute queue so far. */
tri_status tri_exchange_follow(tri_exchange *x);
/* Lets later work of the compute queue wait for the result of a request. */
tri_status tri_exchange_join(tri_exchange_request *r);

tri_status tri_exchange_make(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
void tri_exchange_drop(tri_exchange_request **request);
/* Calls the function for this kind of the device library that the group has joined, which queues the call on the
 * compute queue. Sets *taken to false if the group has not joined a library, or if the library has no such function. */
tri_status tri_exchange_ask_device(tri_exchange *x, const tri_exchange_request *r, bool *taken);

/* Waits for a request of comm.h, and meanwhile advances this rank's other staged calls, since other ranks may wait for
 * them. `own`: the collective that waits, or NULL. */
tri_status tri_exchange_wait_for(tri_exchange *x, const tri_exchange_request *own, tri_request **request);

/* ---- messages.c -------------------------------------------------------------------------------------------------- */

/* Begins a message, or adds it to x->pending until it may begin. `what` has its kind, group, values, host, bytes, peer
 * and tag. */
tri_status tri_exchange_message_start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
/* Waits until the message is sent or received. Queues the copy of a staged received message to the device, and marks
 * the end of the copy with r->done. */
tri_status tri_exchange_message_arrive(tri_exchange_request *r);
/* Waits as tri_exchange_wait does, but does not release the request. */
tri_status tri_exchange_message_finish(tri_exchange_request *r);
/* Begins pending messages, in order, until one has to wait. */
tri_status tri_exchange_messages_advance(tri_exchange *x);

#endif
