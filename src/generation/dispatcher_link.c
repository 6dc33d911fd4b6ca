#include "generation/dispatcher_link.h"

#include "base/memory.h"

#include <string.h>

enum { TAG = 7 };

tri_status tri_link_append(tri_link *link, const void *data, size_t bytes) {
  tri_link_bytes *to = &link->filling;
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_reserve("messages between ranks", 1, to->count + bytes, &to->room, &to->data));
  memcpy(to->data + to->count, data, bytes);
  to->count += bytes;
  return TRI_OK;
}

/* Frees each request that is done. Sets *done to whether both are. */
static tri_status finish(tri_request *requests[2], bool *done) {
  *done = true;
  for (int i = 0; i < 2; i++) {
    bool one = false;
    TRI_TRY(tri_request_test(requests[i], &one));
    if (one) TRI_TRY(tri_request_wait(&requests[i]));
    *done = *done && one;
  }
  return TRI_OK;
}

tri_status tri_link_flush(tri_link *link) {
  bool sent = false;
  TRI_TRY(finish(link->sends, &sent));
  if (!sent || link->filling.count == 0) return TRI_OK;
  const tri_link_bytes used = link->sending;
  link->sending = link->filling;
  link->filling = used;
  link->filling.count = 0;
  link->sent_length = (int64_t)link->sending.count;
  TRI_TRY(tri_send_start(link->group, link->peer, TAG, sizeof link->sent_length, &link->sent_length, &link->sends[0]));
  return tri_send_start(link->group, link->peer, TAG, link->sending.count, link->sending.data, &link->sends[1]);
}

tri_status tri_link_flush_all(tri_link *link) {
  do {
    TRI_TRY(tri_request_wait(&link->sends[0]));
    TRI_TRY(tri_request_wait(&link->sends[1]));
    TRI_TRY(tri_link_flush(link));
  } while (link->sends[0] != NULL || link->sends[1] != NULL || link->filling.count > 0);
  return TRI_OK;
}

tri_status tri_link_poll(tri_link *link, bool *got) {
  bool there = false;
  *got = false;
  if (link->receives[1] == NULL) {
    if (link->receives[0] == NULL)
      TRI_TRY(tri_receive_start(link->group, link->peer, TAG, sizeof link->length, &link->length, &link->receives[0]));
    TRI_TRY(tri_request_test(link->receives[0], &there));
    if (!there) return TRI_OK;
    TRI_TRY(tri_request_wait(&link->receives[0]));
    link->received.count = 0;
    TRI_TRY(tri_reserve("messages between ranks", 1, (size_t)link->length, &link->received.room, &link->received.data));
    TRI_TRY(
        tri_receive_start(link->group, link->peer, TAG, (size_t)link->length, link->received.data, &link->receives[1]));
  }
  TRI_TRY(tri_request_test(link->receives[1], &there));
  if (!there) return TRI_OK;
  TRI_TRY(tri_request_wait(&link->receives[1]));
  link->received.count = (size_t)link->length;
  *got = true;
  return TRI_OK;
}

const tri_request *tri_link_awaited(const tri_link *link) {
  return link->receives[1] != NULL ? link->receives[1] : link->receives[0];
}

/* After a failure a message may still be on its way. MPI may then read or write its buffer, so no buffer is freed. */
void tri_link_release(tri_link *link) {
  if (link->sends[0] != NULL || link->sends[1] != NULL || link->receives[1] != NULL) return;
  tri_free(link->filling.data);
  tri_free(link->sending.data);
  tri_free(link->received.data);
}

tri_status tri_link_take(const tri_link_bytes *message, size_t *at, void *data, size_t bytes) {
  if (bytes > message->count - *at) return tri_fail_internal("a message between ranks ends after %zu bytes", *at);
  if (bytes > 0) memcpy(data, message->data + *at, bytes);
  *at += bytes;
  return TRI_OK;
}
