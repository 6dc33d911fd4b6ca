/* What the files of the exchange share: the inside of a request and of the exchange. Only they include it. */
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
  tri_exchange_request *next; /* of those in the background: started after this one */
  exchange_kind kind;
  tri_group group;
  tri_request *comm; /* of the piece that the ranks work on; of the whole where nothing is staged */
  char *values;      /* device memory */

  /* Reached by MPI where it is. */
  tri_device_aware *reached;
  bool through;

  /* Staged. */
  bool staged;
  tri_dtype type;
  const int64_t *begins; /* of the values; NULL: [0, count) is one part */
  int64_t count;
  int64_t piece_elements;   /* of each part in a piece */
  int64_t pieces, down, up; /* of `pieces`, those whose downloads and uploads were queued */
  bool working;
  char *buffers[2];
  tri_device_event arrived[2];
  int64_t *piece_begins; /* [group.size + 1]: of the piece being worked on */
  tri_device_event done;

  /* A message that waits for the device before it begins. */
  char *host; /* what MPI sends from, or receives into */
  size_t bytes;
  int peer, tag;
  tri_device_event free; /* of a staged one that is received: the device memory is not used any more */
};

struct tri_exchange {
  tri_queue *queue;  /* what computes */
  tri_queue *copies; /* staging's own, and of sums; NULL if the host sees the memory */
  char *staging;
  char *sums; /* device memory; NULL: MPI does not reach it */
  tri_exchange_region transfer;
  tri_exchange_request *first;   /* collectives in the background, in the order in which they were started */
  tri_exchange_request *pending; /* messages that wait for the device */
  int64_t waits;
};

/* ---- the exchange (exchange.c) ----------------------------------------------------------------------------------- */

/* Whether MPI does it from and to device memory. */
bool tri_exchange_is_reached(const tri_exchange *x, exchange_kind kind);
/* Whether the host may work on the values where they are; then all that is queued is done. */
tri_status tri_exchange_reach(tri_exchange *x, bool *out);
/* What is queued for copies from here on follows all that has been queued to compute so far. */
tri_status tri_exchange_follow(tri_exchange *x);
/* What is queued to compute from here on finds the result. */
tri_status tri_exchange_join(tri_exchange_request *r);

tri_status tri_exchange_make(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
void tri_exchange_drop(tri_exchange_request **request);
/* A library of the device's own is asked first: what it takes goes into the queue that computes. */
tri_status tri_exchange_ask_device(tri_exchange *x, const tri_exchange_request *r, bool *taken);

/* Others may wait for what this rank has under way in stages, so that goes on while it waits itself. `own` is the
 * collective that it waits in, or NULL. */
tri_status tri_exchange_wait_for(tri_exchange *x, const tri_exchange_request *own, tri_request **request);

/* ---- messages (messages.c) --------------------------------------------------------------------------------------- */

/* Begins one, or notes that it is to begin. `what` has its kind, group, values, host, bytes, peer and tag. */
tri_status tri_exchange_message_start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out);
/* It is through; a staged one that was received is on its way to the device, and r->done marks its place in the queue
 * of copies. */
tri_status tri_exchange_message_arrive(tri_exchange_request *r);
/* As tri_exchange_wait, but for what it leaves to be released. */
tri_status tri_exchange_message_finish(tri_exchange_request *r);
/* Messages that wait for the device begin as far as they may. */
tri_status tri_exchange_messages_advance(tri_exchange *x);

#endif
