/* All-to-alls, and passes from rank to rank.
 *
 * A device library that the group has joined does both (comm/device_collectives.h). Otherwise, if the host can access
 * device memory, the functions of comm.h do. On other devices both are messages, whose sizes only the two ranks
 * involved know. On a staged device a message is cut into pieces: one is copied to the host while another is
 * communicated and a third is copied to the device. All these messages have the tag TAG, and those between two ranks
 * are matched in program order. */
#include "base/memory.h"
#include "comm/device_collectives.h"
#include "engine/exchange_internal.h"

#include <string.h>

/* device_aware.c uses the next tag, and stage buffers of pipelines use small ones. */
enum { TAG = 32766 };

struct tri_transfer {
  tri_request *comm; /* request of comm.h, if the host can access device memory; else NULL */
  /* Messages in the order in which they were started [num_messages]; none if `comm` is used. */
  tri_exchange_request **messages;
  int64_t num_messages;
};

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Sets *out to the address of the host copy of a range of the transfer buffer, or to NULL if MPI accesses device memory
 * itself. Fails with TRI_INTERNAL if the range is not in the buffer. */
static tri_status host_of(const tri_exchange *x, const void *memory, size_t bytes, void **out) {
  const tri_exchange_region *region = &x->transfer;
  *out = NULL;
  if (tri_exchange_is_reached(x, EXCHANGE_SEND)) return TRI_OK;
  const uintptr_t begin = (uintptr_t)region->device, at = (uintptr_t)memory;
  if (region->host == NULL || at < begin || at - begin > region->bytes || bytes > region->bytes - (at - begin)) {
    return tri_fail_internal("%zu bytes that pass between ranks are outside of the memory that was planned for them",
                             bytes);
  }
  *out = (char *)region->host + (at - begin);
  return TRI_OK;
}

/* Returns the largest number of bytes of a message. If MPI accesses device memory itself, messages are not cut. */
static size_t piece_bytes(const tri_exchange *x) {
  return tri_exchange_is_reached(x, EXCHANGE_SEND) ? SIZE_MAX : TRI_EXCHANGE_PIECE_BYTES;
}

static int64_t pieces_of(const tri_exchange *x, size_t bytes) {
  return (int64_t)(bytes / piece_bytes(x) + (bytes % piece_bytes(x) != 0));
}

static tri_status add_messages(tri_exchange *x, tri_transfer *p, exchange_kind kind, const tri_group *group, int peer,
                               const void *memory, size_t bytes) {
  for (size_t at = 0, piece; at < bytes; at += piece) {
    void *host = NULL;
    piece = bytes - at < piece_bytes(x) ? bytes - at : piece_bytes(x);
    char *values = (char *)(uintptr_t)memory + at;
    TRI_TRY(host_of(x, values, piece, &host));
    const tri_exchange_request what = {
        .kind = kind, .group = *group, .values = values, .host = host, .bytes = piece, .peer = peer, .tag = TAG};
    TRI_TRY(tri_exchange_message_start(x, &what, &p->messages[p->num_messages]));
    p->num_messages++;
  }
  return TRI_OK;
}

static tri_status make(int64_t messages, tri_transfer **out) {
  tri_transfer *p = NULL;
  TRI_TRY(tri_alloc("a pass between ranks", 1, sizeof *p + (size_t)messages * sizeof *p->messages, &p));
  p->messages = (tri_exchange_request **)(void *)(p + 1);
  *out = p;
  return TRI_OK;
}

/* Waits for the messages in the order in which they were started: receives first, so that one is copied to the device
 * while the next one arrives. Afterwards the compute queue sees the received values, and host memory may be reused. */
static tri_status finish_messages(tri_exchange *x, tri_transfer *p) {
  /* Last message that is copied to the device; all copies have ended when its copy has, since they run in order. */
  tri_exchange_request *last = NULL;
  for (int64_t i = 0; i < p->num_messages; i++) {
    tri_exchange_request *r = p->messages[i];
    TRI_TRY(tri_exchange_message_arrive(r));
    if (r->staged && r->kind == EXCHANGE_RECEIVE) last = r;
  }
  if (last != NULL) {
    TRI_TRY(tri_exchange_join(last));
    x->waits++;
    TRI_TRY(tri_device_event_wait(&last->done));
  }
  for (int64_t i = 0; i < p->num_messages; i++) tri_exchange_drop(&p->messages[i]);
  return TRI_OK;
}

/* ---- all-to-all -------------------------------------------------------------------------------------------------- */

/* An all-to-all: elements [from_begins[r], from_begins[r + 1]) of `from` go to rank r, and elements [to_begins[r],
 * to_begins[r + 1]) of `to` come from it. */
typedef struct parts {
  const tri_group *group;
  tri_dtype type;
  const int64_t *from_begins, *to_begins;
  const char *from;
  char *to;
} parts;

static size_t part_at(const parts *p, const int64_t *begins, int rank) {
  return (size_t)begins[rank] * tri_dtype_bytes(p->type);
}

static size_t part_bytes(const parts *p, const int64_t *begins, int rank) {
  return part_at(p, begins, rank + 1) - part_at(p, begins, rank);
}

static tri_status keep_own(tri_exchange *x, const parts *p) {
  const int own = p->group->rank;
  const size_t bytes = part_bytes(p, p->from_begins, own);
  if (bytes != part_bytes(p, p->to_begins, own)) {
    return tri_fail_internal("all_to_all over %s: rank %d gives %zu bytes to itself and expects %zu", p->group->name,
                             own, bytes, part_bytes(p, p->to_begins, own));
  }
  if (bytes == 0) return TRI_OK;
  return tri_queue_move(x->queue, p->to + part_at(p, p->to_begins, own), p->from + part_at(p, p->from_begins, own),
                        bytes);
}

static tri_status start_parts(tri_exchange *x, const parts *p, tri_transfer *transfer) {
  const tri_group *group = p->group;
  for (int i = 1; i < group->size; i++) {
    const int from = (group->rank + group->size - i) % group->size;
    TRI_TRY(add_messages(x, transfer, EXCHANGE_RECEIVE, group, from, p->to + part_at(p, p->to_begins, from),
                         part_bytes(p, p->to_begins, from)));
  }
  for (int i = 1; i < group->size; i++) { /* each rank starts with a different receiver */
    const int to = (group->rank + i) % group->size;
    TRI_TRY(add_messages(x, transfer, EXCHANGE_SEND, group, to, p->from + part_at(p, p->from_begins, to),
                         part_bytes(p, p->from_begins, to)));
  }
  return TRI_OK;
}

static tri_status start_by_messages(tri_exchange *x, const parts *p, tri_transfer **out) {
  int64_t messages = 0;
  for (int r = 0; r < p->group->size; r++) {
    messages += pieces_of(x, part_bytes(p, p->from_begins, r)) + pieces_of(x, part_bytes(p, p->to_begins, r));
  }
  TRI_TRY(make(messages, out));
  TRI_TRY(start_parts(x, p, *out)); /* on failure the job ends; memory that MPI may still write to is not freed */
  return keep_own(x, p);
}

static tri_status start_directly(const parts *p, tri_transfer **out) {
  TRI_TRY(make(0, out));
  return tri_all_to_all_start(p->group, p->type, p->from_begins, p->from, p->to_begins, p->to, &(*out)->comm);
}

tri_status tri_exchange_all_to_all_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                         const int64_t *from_begins, const void *from, const int64_t *to_begins,
                                         void *to, tri_transfer **out) {
  const tri_device_collectives *d = group->device;
  const parts p = {group, type, from_begins, to_begins, from, to};
  bool direct;
  *out = NULL;
  if (group->size == 1) return keep_own(x, &p);
  if (d != NULL && d->all_to_all != NULL) {
    return d->all_to_all(group->member, x->queue, type, from_begins, from, to_begins, to);
  }
  TRI_TRY(tri_exchange_reach(x, &direct));
  return direct ? start_directly(&p, out) : start_by_messages(x, &p, out);
}

tri_status tri_exchange_all_to_all(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *from_begins,
                                   const void *from, const int64_t *to_begins, void *to) {
  const tri_device_collectives *d = group->device;
  tri_transfer *transfer = NULL;
  bool direct = false;
  if (group->size > 1 && (d == NULL || d->all_to_all == NULL)) TRI_TRY(tri_exchange_reach(x, &direct));
  if (direct) return tri_all_to_all(group, type, from_begins, from, to_begins, to);
  TRI_TRY(tri_exchange_all_to_all_start(x, group, type, from_begins, from, to_begins, to, &transfer));
  return tri_exchange_pass_wait(x, &transfer);
}

tri_status tri_exchange_gather_to_host(tri_exchange *x, const tri_group *group, size_t bytes, const void *values,
                                       void *all) {
  char *own = (char *)all + (size_t)group->rank * bytes;
  TRI_TRY(tri_queue_download_now(x->queue, own, values, bytes));
  return tri_gather_bytes(group, bytes, own, all);
}

/* ---- passes ------------------------------------------------------------------------------------------------------ */

static tri_status start_messages(tri_exchange *x, const tri_group *group, const tri_exchange_pass *pass,
                                 tri_transfer *transfer) {
  TRI_TRY(add_messages(x, transfer, EXCHANGE_RECEIVE, group, pass->from, pass->receive, pass->receive_bytes));
  return add_messages(x, transfer, EXCHANGE_SEND, group, pass->to, pass->send, pass->send_bytes);
}

/* Does a pass in a group of one rank: a copy. */
static tri_status keep_all(tri_exchange *x, const tri_exchange_pass *pass) {
  if (pass->send_bytes != pass->receive_bytes) {
    return tri_fail_internal("a rank passes %zu bytes to itself and expects %zu", pass->send_bytes,
                             pass->receive_bytes);
  }
  return pass->send_bytes == 0 ? TRI_OK : tri_queue_move(x->queue, pass->receive, pass->send, pass->send_bytes);
}

tri_status tri_exchange_pass_start(tri_exchange *x, const tri_group *group, const tri_exchange_pass *pass,
                                   tri_transfer **out) {
  const tri_device_collectives *d = group->device;
  tri_transfer *transfer = NULL;
  bool direct;
  *out = NULL;
  if (group->size == 1) return keep_all(x, pass);
  if (d != NULL && d->pass != NULL) {
    return d->pass(group->member, x->queue, pass->to, pass->send_bytes, pass->send, pass->from, pass->receive_bytes,
                   pass->receive);
  }
  TRI_TRY(tri_exchange_reach(x, &direct));
  TRI_TRY(make(direct ? 0 : pieces_of(x, pass->send_bytes) + pieces_of(x, pass->receive_bytes), &transfer));
  tri_status status = direct ? tri_ring_pass_start(group, pass->to, pass->send_bytes, pass->send, pass->from,
                                                   pass->receive_bytes, pass->receive, &transfer->comm)
                             : start_messages(x, group, pass, transfer);
  if (status == TRI_OK) *out = transfer; /* on failure the job ends; memory that MPI may still write to is not freed */
  return status;
}

tri_status tri_exchange_pass_wait(tri_exchange *x, tri_transfer **transfer) {
  tri_transfer *p = *transfer;
  if (p == NULL) return TRI_OK;
  TRI_TRY(p->comm != NULL ? tri_request_wait(&p->comm) : finish_messages(x, p));
  *transfer = NULL;
  tri_free(p);
  return TRI_OK;
}
