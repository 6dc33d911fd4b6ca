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
  tri_exchange_request *next; /* request that was started after this one, in the same list of the exchange */
  exchange_kind kind;
  tri_group group;
  tri_request *comm; /* request of comm.h: of the current piece if staged, else of the whole call */
  char *values;      /* device memory */

  /* Device-aware MPI: */
  tri_device_aware *reached;
  bool through; /* all messages are finished; the result is there after `done` */

  /* Staging: */
  bool staged;
  tri_dtype type;
  const int64_t *begins; /* offsets of the parts of the values; NULL: [0, count) is one part */
  int64_t count;
  int64_t piece_elements;   /* elements of each part in a piece */
  int64_t pieces, down, up; /* number of pieces; of pieces whose downloads were queued, and whose uploads were queued */
  bool working;             /* the ranks communicate piece `up` */
  char *buffers[2];
  tri_device_event arrived[2]; /* the downloads into the buffers */
  int64_t *piece_begins;       /* [group.size + 1], offsets in the current piece */
  tri_device_event done;       /* passed when the request's work on the device is done */

  /* Messages: */
  char *host; /* memory that MPI sends from or receives into */
  size_t bytes;
  int peer, tag;
  tri_device_event free; /* staged receive: the device memory is no longer in use */
};

struct tri_exchange {
  tri_queue *queue;  /* compute queue */
  tri_queue *copies; /* queue of staging copies and of sums; NULL if the host can access the memory */
  char *staging;
  char *sums; /* device memory; NULL: MPI cannot access it */
  tri_exchange_region transfer;
  tri_exchange_request *first;   /* background collectives, in the order in which they were started */
  tri_exchange_request *pending; /* messages that wait for the device */
  int64_t waits;
};

/* ---- exchange.c -------------------------------------------------------------------------------------------------- */

/* Returns whether MPI does this kind of call directly on device memory. */
bool tri_exchange_is_reached(const tri_exchange *x, exchange_kind kind);
/* Sets *out to whether the host can access device memory; if it can, waits until all queued work is done. */
tri_status tri_exchange_reach(tri_exchange *x, bool *out);
/* Lets later work of the copy queue wait for the work queued on the compute queue so far. */
tri_status tri_exchange_follow(tri_exchange *x);
/* Lets later work of the compute queue wait for the result. */
tri_status tri_exchange_join(tri_exchange_request *r);

tri_status tri_exchange_make(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
void tri_exchange_drop(tri_exchange_request **request);
/* Gives the call to the device library that the group has joined, if it has such a function; the library queues it on
 * the compute queue. *taken: whether it did. */
tri_status tri_exchange_ask_device(tri_exchange *x, const tri_exchange_request *r, bool *taken);

/* Waits for a request of comm.h, and meanwhile advances this rank's other staged calls, since other ranks may wait for
 * them. `own`: the collective that waits, or NULL. */
tri_status tri_exchange_wait_for(tri_exchange *x, const tri_exchange_request *own, tri_request **request);

/* ---- messages.c -------------------------------------------------------------------------------------------------- */

/* Begins a message, or queues it until it may begin. `what` has its kind, group, values, host, bytes, peer and tag. */
tri_status tri_exchange_message_start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
/* Waits until the message is sent or received. A staged received message is then being copied to the device, and
 * r->done is its place in the copy queue. */
tri_status tri_exchange_message_arrive(tri_exchange_request *r);
/* Waits as tri_exchange_wait does, but does not release the request. */
tri_status tri_exchange_message_finish(tri_exchange_request *r);
/* Begins queued messages as far as they may begin. */
tri_status tri_exchange_messages_advance(tri_exchange *x);

#endif
