/* Messages from and to device memory. On a staged device, sent values are copied to the host before the message begins,
 * and received values are copied to the device after it has ended. If MPI can access device memory, a message begins
 * after the work that the device has queued before it. So messages begin later than they are started, but in the same
 * order, because messages with one tag are matched in order. */
#include "engine/exchange_internal.h"

static void enlist_message(tri_exchange *x, tri_exchange_request *r) {
  tri_exchange_request **last = &x->pending;
  while (*last != NULL) last = &(*last)->next;
  *last = r;
}

static void delist_message(tri_exchange *x, const tri_exchange_request *r) {
  for (tri_exchange_request **at = &x->pending; *at != NULL; at = &(*at)->next) {
    if (*at != r) continue;
    *at = r->next;
    return;
  }
}

static bool is_pending(const tri_exchange_request *r) {
  const tri_exchange_request *at = r->x->pending;
  while (at != NULL && at != r) at = at->next;
  return at != NULL;
}

/* Returns the address under which MPI accesses device memory. */
static void *reached_address(const tri_exchange *x, void *memory) {
  tri_device *device = x->queue->device;
  return device->driver->peer_address(device, memory);
}

/* Prepares a message that begins when r->done has passed. At that time the values are in host memory or, if MPI
 * accesses device memory, they are computed (send) or no longer read by earlier work (receive). */
static tri_status prepare_message(tri_exchange *x, tri_exchange_request *r) {
  if (tri_exchange_is_reached(x, r->kind)) {
    r->host = reached_address(x, r->values);
    return tri_queue_mark(x->queue, &r->done);
  }
  tri_queue_at(x->copies, "send", -1, "staging");
  TRI_TRY(tri_exchange_follow(x));
  TRI_TRY(tri_queue_download(x->copies, r->host, r->values, r->bytes));
  return tri_queue_mark(x->copies, &r->done);
}

static tri_status start_message(tri_exchange_request *r, void *memory) {
  switch (r->kind) {
    case EXCHANGE_SEND: return tri_send_start(&r->group, r->peer, r->tag, r->bytes, memory, &r->comm);
    case EXCHANGE_RECEIVE: return tri_receive_start(&r->group, r->peer, r->tag, r->bytes, memory, &r->comm);
    case EXCHANGE_ALL_REDUCE:
    case EXCHANGE_ALL_MAXIMUM:
    case EXCHANGE_REDUCE_SCATTER:
    case EXCHANGE_ALL_GATHER: break;
  }
  return tri_fail_internal("a collective is not a message");
}

/* Begins a message if r->done has passed. With `wait`, waits until it has passed. */
static tri_status advance_message(tri_exchange_request *r, bool wait) {
  if (!wait && !tri_device_event_passed(&r->done)) return TRI_OK;
  if (!tri_exchange_is_reached(r->x, r->kind)) r->x->waits++;
  TRI_TRY(tri_device_event_wait(&r->done));
  delist_message(r->x, r);
  return start_message(r, r->host);
}

/* Begins a pending message, and before it the pending messages that were started earlier. */
static tri_status begin_message(tri_exchange_request *r) {
  while (is_pending(r)) TRI_TRY(advance_message(r->x->pending, true));
  return TRI_OK;
}

tri_status tri_exchange_messages_advance(tri_exchange *x) {
  while (x->pending != NULL) {
    const tri_exchange_request *first = x->pending;
    TRI_TRY(advance_message(x->pending, false));
    if (x->pending == first) break;
  }
  return TRI_OK;
}

/* Begins a message, or adds it to the pending ones. A send waits until its values are computed, and a receive by MPI
 * into device memory until earlier work no longer reads this memory. A receive into host memory begins at once; only
 * its copy to the device waits. */
static tri_status begin_now(tri_exchange *x, tri_exchange_request *r, bool direct) {
  const bool reached = tri_exchange_is_reached(x, r->kind);
  r->staged = !direct && (r->kind == EXCHANGE_SEND || !reached);
  if (direct) return start_message(r, r->values);
  if (reached || r->kind == EXCHANGE_SEND) {
    TRI_TRY(prepare_message(x, r));
    enlist_message(x, r);
    return TRI_OK;
  }
  TRI_TRY(tri_queue_mark(x->queue, &r->free));
  return start_message(r, r->host);
}

tri_status tri_exchange_message_start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out) {
  bool direct;
  /* If the host can access device memory, all queued work is now done: sent values are computed, and the receive buffer
   * is no longer read. */
  TRI_TRY(tri_exchange_reach(x, &direct));
  TRI_TRY(tri_exchange_make(x, what, out));
  tri_status status = begin_now(x, *out, direct);
  if (status != TRI_OK) tri_exchange_drop(out);
  return status;
}

static tri_status start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out) {
  bool taken;
  TRI_TRY(tri_exchange_ask_device(x, what, &taken));
  return taken ? TRI_OK : tri_exchange_message_start(x, what, out);
}

tri_status tri_exchange_send_start(tri_exchange *x, const tri_group *group, int to, int tag, size_t bytes,
                                   const void *data, void *host, tri_exchange_request **out) {
  tri_exchange_request what = {.kind = EXCHANGE_SEND,
                               .group = *group,
                               .values = (char *)(uintptr_t)data,
                               .host = host,
                               .bytes = bytes,
                               .peer = to,
                               .tag = tag};
  return start(x, &what, out);
}

tri_status tri_exchange_receive_start(tri_exchange *x, const tri_group *group, int from, int tag, size_t bytes,
                                      void *data, void *host, tri_exchange_request **out) {
  tri_exchange_request what = {.kind = EXCHANGE_RECEIVE,
                               .group = *group,
                               .values = data,
                               .host = host,
                               .bytes = bytes,
                               .peer = from,
                               .tag = tag};
  return start(x, &what, out);
}

tri_status tri_exchange_message_arrive(tri_exchange_request *r) {
  tri_exchange *x = r->x;
  TRI_TRY(begin_message(r));
  TRI_TRY(tri_exchange_wait_for(x, NULL, &r->comm));
  if (!r->staged || r->kind == EXCHANGE_SEND) return TRI_OK;
  tri_queue_at(x->copies, "receive", -1, "staging");
  TRI_TRY(tri_queue_wait(x->copies, &r->free));
  TRI_TRY(tri_queue_upload(x->copies, r->values, r->host, r->bytes));
  return tri_queue_mark(x->copies, &r->done);
}

tri_status tri_exchange_message_finish(tri_exchange_request *r) {
  TRI_TRY(tri_exchange_message_arrive(r));
  if (!r->staged || r->kind == EXCHANGE_SEND) return TRI_OK;
  TRI_TRY(tri_exchange_join(r));
  r->x->waits++;
  return tri_device_event_wait(&r->done); /* the host's stage buffer may be reused */
}
