/* A connection between the first rank of a dispatcher and another rank; for generation/ only. The first rank sends
 * verbs, and the other rank sends events (dispatcher.h). Only tri_link_flush_all waits for the other rank.
 * tri_link_flush sends all bytes appended so far as one message: the length, then the bytes. */
#ifndef TRI_GENERATION_DISPATCHER_LINK_H
#define TRI_GENERATION_DISPATCHER_LINK_H

#include "comm/comm.h"

/* Bytes of a message, [count]. */
typedef struct tri_link_bytes {
  char *data;
  size_t count, room;
} tri_link_bytes;

typedef struct tri_link {
  const tri_group *group;
  int peer;                        /* rank of the group at the other end */
  tri_link_bytes filling, sending; /* bytes appended for the next message; bytes of the message in transit */
  int64_t sent_length;             /* length of the message in transit */
  tri_request *sends[2];           /* sends of that length and of `sending`; NULL: completed, or none was started */
  int64_t length;                  /* length of the message that is being received */
  tri_request *receives[2];        /* receives of `length` and of the bytes; NULL: not started, or completed */
  tri_link_bytes received;         /* bytes of the message that is being received, or of the last complete one */
} tri_link;

/* Appends data[bytes] to the next message. */
tri_status tri_link_append(tri_link *link, const void *data, size_t bytes);
/* Sends the appended bytes if the last message has been sent; otherwise they stay for a later call. */
tri_status tri_link_flush(tri_link *link);
/* Waits until all appended bytes are sent. */
tri_status tri_link_flush_all(tri_link *link);
/* Sets *got to whether a message has arrived. The message is in link->received until the next call of this
 * function. */
tri_status tri_link_poll(tri_link *link, bool *got);
/* Returns the receive in progress; NULL before the first call of tri_link_poll, and after one that found a message.
 * When the receive is done, tri_link_poll may find a message. */
const tri_request *tri_link_awaited(const tri_link *link);
/* Frees the buffers. Does not end sends and receives that are in progress. */
void tri_link_release(tri_link *link);

/* Copies `bytes` bytes of the message from offset *at on to `data`, and moves *at past them. Fails with TRI_INTERNAL if
 * the message has fewer bytes left. */
tri_status tri_link_take(const tri_link_bytes *message, size_t *at, void *data, size_t bytes);

#endif
