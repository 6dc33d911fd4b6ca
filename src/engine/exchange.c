/* Staged collectives, blocking and in the background.
 *
 * The problem: neither the host nor MPI can access the device's memory, so the values of a collective have to pass
 * through host memory, which is small. Several collectives may be in progress on one rank, over different groups, while
 * the rank waits in another one. They must overlap with computation, and must never deadlock.
 *
 * The idea: a staged collective is cut into pieces. Each piece is copied from the device to host memory, communicated,
 * and copied back; two host buffers alternate. Copies on one queue run in order, so a buffer whose copy to the device
 * has been queued may be queued for the next copy from the device at once.
 *
 * Blocking collectives have two buffers of their own. Background collectives have two others, which they use one after
 * the other in the order in which they were started, whatever their groups.
 *
 * Why this cannot deadlock: the ranks of a stage run one program, each with its own groups of the same domains. So they
 * start all collectives in the same order, and wait for the same ones at the same instruction. Suppose that a rank
 * which is least advanced in the program waits for a collective. All other ranks of its group are at the same
 * instruction or further. A rank that is further has completed its part of this collective. A rank at the same
 * instruction waits for the same collectives in the same order, and makes progress on them. So the least advanced rank
 * can continue.
 *
 * Two invariants:
 * - a rank that waits in a blocking collective or for a message makes progress on its background collectives and
 *   messages (tri_exchange_wait_for). The exception is a staged all_maximum, which blocks in tri_all_maximum;
 * - only calls that all ranks of a stage make in the same order are started in the background. Messages between stages
 *   (messages.c) need no such order.
 *
 * Example: a reduce-scatter of 10 MiB on 2 ranks. A piece of 4 MiB has 2 MiB of each rank's part, so there are 3
 * pieces. Pieces 0 and 1 are copied to buffers 0 and 1. When piece 0 is in host memory, the ranks add it up; its sum is
 * queued to be copied back, and the copy of piece 2 into buffer 0 is queued after it, while the ranks add up piece 1.
 */
#include "engine/exchange_internal.h"

#include "base/memory.h"
#include "comm/device_collectives.h"

#include <string.h>

tri_status tri_exchange_create(tri_device *device, const tri_exchange_memory *memory, tri_exchange **out) {
  tri_exchange *x = NULL;
  TRI_TRY(tri_alloc("collectives", 1, sizeof *x, &x));
  x->queue = device->queue;
  x->staging = memory->staging;
  x->sums = memory->sums;
  x->transfer = memory->transfer;
  tri_status status = memory->staging == NULL ? TRI_OK : tri_queue_create(device, &x->copies);
  if (status == TRI_OK) *out = x;
  if (status != TRI_OK) tri_free(x);
  return status;
}

void tri_exchange_destroy(tri_exchange *x) {
  if (x == NULL) return;
  tri_queue_destroy(x->copies);
  tri_free(x);
}

int64_t tri_exchange_waits(const tri_exchange *x) { return x->waits; }

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static int64_t num_parts(const tri_exchange_request *r) { return r->begins == NULL ? 1 : r->group.size; }

static int64_t part_begin(const tri_exchange_request *r, int64_t part) {
  return r->begins == NULL ? part * r->count : r->begins[part];
}

/* Computes the elements of a part in a piece: [*first, *first + *count) of the values. */
static void range_of(const tri_exchange_request *r, int64_t piece, int64_t part, int64_t *first, int64_t *count) {
  int64_t begin = part_begin(r, part), end = part_begin(r, part + 1);
  int64_t from = begin + piece * r->piece_elements, to = from + r->piece_elements;
  if (from > end) from = end;
  *first = from;
  *count = (to < end ? to : end) - from;
}

/* Return whether a part of a piece is copied to the host before the ranks communicate the piece (comes_down), and
 * whether it is copied back afterwards (goes_up). */
static bool comes_down(const tri_exchange_request *r, int64_t part) {
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE:
    case EXCHANGE_ALL_MAXIMUM:
    case EXCHANGE_REDUCE_SCATTER: return true;
    case EXCHANGE_ALL_GATHER: return part == r->group.rank;
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: break; /* messages have no pieces */
  }
  return false;
}

static bool goes_up(const tri_exchange_request *r, int64_t part) {
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE:
    case EXCHANGE_ALL_MAXIMUM: return true;
    case EXCHANGE_REDUCE_SCATTER: return part == r->group.rank;
    case EXCHANGE_ALL_GATHER: return part != r->group.rank;
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: break;
  }
  return false;
}

static tri_status copy_piece(tri_exchange_request *r, int64_t piece, bool up) {
  size_t element = tri_dtype_bytes(r->type);
  char *host = r->buffers[piece % 2];
  for (int64_t part = 0; part < num_parts(r); part++) {
    int64_t first, count;
    range_of(r, piece, part, &first, &count);
    size_t bytes = (size_t)count * element;
    char *device = r->values + (size_t)first * element;
    if (up && goes_up(r, part)) TRI_TRY(tri_queue_upload(r->x->copies, device, host, bytes));
    if (!up && comes_down(r, part)) TRI_TRY(tri_queue_download(r->x->copies, host, device, bytes));
    host += bytes;
  }
  return TRI_OK;
}

static tri_status send_down(tri_exchange_request *r) {
  tri_queue_at(r->x->copies, r->group.name, -1, "staging");
  TRI_TRY(copy_piece(r, r->down, false));
  TRI_TRY(tri_queue_mark(r->x->copies, &r->arrived[r->down % 2]));
  r->down++;
  return TRI_OK;
}

static tri_status work(tri_exchange_request *r) {
  char *host = r->buffers[r->up % 2];
  int64_t elements = 0;
  for (int64_t part = 0; part < num_parts(r); part++) {
    int64_t first, count;
    range_of(r, r->up, part, &first, &count);
    if (r->begins != NULL) r->piece_begins[part] = elements;
    elements += count;
  }
  if (r->begins != NULL) r->piece_begins[r->group.size] = elements;
  r->working = true;
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE: return tri_all_reduce_start(&r->group, r->type, elements, host, &r->comm);
    case EXCHANGE_ALL_MAXIMUM: return tri_all_maximum(&r->group, r->type, elements, host);
    case EXCHANGE_REDUCE_SCATTER: return tri_reduce_scatter_start(&r->group, r->type, r->piece_begins, host, &r->comm);
    case EXCHANGE_ALL_GATHER: return tri_all_gather_start(&r->group, r->type, r->piece_begins, host, &r->comm);
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: break;
  }
  return tri_fail_internal("a message has no pieces");
}

static tri_status send_up(tri_exchange_request *r) {
  r->working = false;
  TRI_TRY(copy_piece(r, r->up, true));
  r->up++;
  return r->up == r->pieces ? tri_queue_mark(r->x->copies, &r->done) : TRI_OK;
}

static tri_status advance_first(tri_exchange *x);

/* Returns whether a call other than `own` is in progress that other ranks may wait for. */
static bool has_others(const tri_exchange *x, const tri_exchange_request *own) {
  return x->pending != NULL || (x->first != NULL && x->first != own);
}

static tri_status advance_others(tri_exchange *x, const tri_exchange_request *own) {
  TRI_TRY(tri_exchange_messages_advance(x));
  if (x->first != own) TRI_TRY(advance_first(x));
  return tri_comm_progress();
}

tri_status tri_exchange_wait_for(tri_exchange *x, const tri_exchange_request *own, tri_request **request) {
  bool done = false;
  TRI_TRY(tri_request_test(*request, &done));
  while (!done && has_others(x, own)) {
    TRI_TRY(advance_others(x, own));
    TRI_TRY(tri_request_test(*request, &done));
  }
  return tri_request_wait(request);
}

static tri_status advance_reached(tri_exchange_request *r, bool wait) {
  do {
    const bool alone = !has_others(r->x, r);
    TRI_TRY(tri_device_aware_advance(r->reached, wait && alone, &r->through, &r->done));
    if (wait && !r->through) TRI_TRY(advance_others(r->x, r));
  } while (wait && !r->through);
  return TRI_OK;
}

static bool is_through(const tri_exchange_request *r) { return r->reached == NULL ? r->up == r->pieces : r->through; }

/* Advances a collective: to its end if `wait`, else as far as possible without waiting. */
static tri_status advance(tri_exchange_request *r, bool wait) {
  if (r->reached != NULL) return advance_reached(r, wait);
  while (r->up < r->pieces) {
    while (r->down < r->pieces && r->down < r->up + 2) TRI_TRY(send_down(r));
    if (!r->working) {
      const tri_device_event *arrived = &r->arrived[r->up % 2];
      if (!wait && !tri_device_event_passed(arrived)) return TRI_OK;
      r->x->waits++;
      TRI_TRY(tri_device_event_wait(arrived));
      TRI_TRY(work(r));
    }
    bool done = false;
    TRI_TRY(tri_request_test(r->comm, &done));
    if (!wait && !done) return TRI_OK;
    TRI_TRY(tri_exchange_wait_for(r->x, r, &r->comm));
    TRI_TRY(send_up(r));
  }
  return TRI_OK;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

tri_status tri_exchange_follow(tri_exchange *x) {
  tri_device_event computed;
  TRI_TRY(tri_queue_mark(x->queue, &computed));
  return tri_queue_wait(x->copies, &computed);
}

static tri_status start_staged(tri_exchange_request *r, char *buffers) {
  int64_t longest = 1;
  for (int64_t part = 0; part < num_parts(r); part++) {
    int64_t length = part_begin(r, part + 1) - part_begin(r, part);
    if (length > longest) longest = length;
  }
  r->staged = true;
  r->piece_elements = TRI_EXCHANGE_PIECE_BYTES / (int64_t)tri_dtype_bytes(r->type) / num_parts(r);
  if (r->piece_elements < 1) {
    return tri_fail(TRI_UNSUPPORTED, "%d ranks are more than %d bytes of staging serve", r->group.size,
                    TRI_EXCHANGE_PIECE_BYTES);
  }
  r->pieces = (longest + r->piece_elements - 1) / r->piece_elements;
  r->buffers[0] = buffers;
  r->buffers[1] = buffers + TRI_EXCHANGE_PIECE_BYTES;
  if (r->begins == NULL) return TRI_OK;
  return tri_alloc("a collective", (size_t)r->group.size + 1, sizeof *r->piece_begins, &r->piece_begins);
}

bool tri_exchange_is_reached(const tri_exchange *x, exchange_kind kind) {
  return x->sums != NULL && kind != EXCHANGE_ALL_MAXIMUM;
}

static tri_status start_reached(tri_exchange_request *r, char *scratch) {
  tri_exchange *x = r->x;
  tri_device_aware_call call = {.group = r->group,
                                .reduce = r->kind != EXCHANGE_ALL_GATHER,
                                .gather = r->kind != EXCHANGE_REDUCE_SCATTER,
                                .type = r->type,
                                .begins = r->begins,
                                .count = r->count,
                                .values = r->values,
                                .queue = x->copies,
                                .scratch = scratch};
  TRI_TRY(tri_queue_mark(x->queue, &call.ready));
  return tri_device_aware_start(&call, &r->reached);
}

static void release(tri_exchange_request *r) {
  if (r == NULL) return;
  tri_device_aware_release(r->reached);
  tri_free(r->piece_begins);
  tri_free(r);
}

/* Finishes `last` and all background collectives that were started before it. */
static tri_status finish_up_to(tri_exchange *x, const tri_exchange_request *last) {
  for (bool found = false; x->first != NULL && !found;) {
    tri_exchange_request *r = x->first;
    TRI_TRY(advance(r, true));
    found = r == last;
    x->first = r->next;
    r->next = NULL;
  }
  return TRI_OK;
}

static bool is_of(const tri_exchange_request *r, const tri_group *group) { return r->group.impl == group->impl; }

/* Finishes the background collectives of a group, before a blocking collective of the same group. */
static tri_status finish_group(tri_exchange *x, const tri_group *group) {
  const tri_exchange_request *last = NULL;
  for (const tri_exchange_request *r = x->first; r != NULL; r = r->next) {
    if (is_of(r, group)) last = r;
  }
  return last == NULL ? TRI_OK : finish_up_to(x, last);
}

tri_status tri_exchange_join(tri_exchange_request *r) { return tri_queue_wait(r->x->queue, &r->done); }

static tri_status run_reached(tri_exchange *x, tri_exchange_request *r) {
  tri_status status = finish_group(x, &r->group);
  if (status == TRI_OK) status = start_reached(r, x->sums);
  if (status == TRI_OK) status = advance(r, true);
  if (status == TRI_OK) status = tri_exchange_join(r);
  tri_device_aware_release(r->reached);
  return status;
}

static tri_status run_staged(tri_exchange *x, tri_exchange_request *r) {
  tri_status status = start_staged(r, x->staging);
  if (status == TRI_OK) status = finish_group(x, &r->group);
  if (status == TRI_OK) status = tri_exchange_follow(x);
  if (status == TRI_OK) status = advance(r, true);
  if (status == TRI_OK) status = tri_exchange_join(r);
  tri_free(r->piece_begins);
  return status;
}

tri_status tri_exchange_reach(tri_exchange *x, bool *out) {
  *out = x->copies == NULL;
  return *out ? tri_queue_finish(x->queue) : TRI_OK;
}

static tri_status run_direct(const tri_exchange_request *r) {
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE: return tri_all_reduce(&r->group, r->type, r->count, r->values);
    case EXCHANGE_ALL_MAXIMUM: return tri_all_maximum(&r->group, r->type, r->count, r->values);
    case EXCHANGE_REDUCE_SCATTER: return tri_reduce_scatter(&r->group, r->type, r->begins, r->values);
    case EXCHANGE_ALL_GATHER: return tri_all_gather(&r->group, r->type, r->begins, r->values);
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: break;
  }
  return tri_fail_internal("a message that is waited for at once");
}

tri_status tri_exchange_ask_device(tri_exchange *x, const tri_exchange_request *r, bool *taken) {
  const tri_device_collectives *d = r->group.device;
  void *member = r->group.member;
  *taken = false;
  if (d == NULL) return TRI_OK;
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE:
      *taken = d->all_reduce != NULL;
      return *taken ? d->all_reduce(member, x->queue, r->type, r->count, r->values) : TRI_OK;
    case EXCHANGE_ALL_MAXIMUM:
      *taken = d->all_maximum != NULL;
      return *taken ? d->all_maximum(member, x->queue, r->type, r->count, r->values) : TRI_OK;
    case EXCHANGE_REDUCE_SCATTER:
      *taken = d->reduce_scatter != NULL;
      return *taken ? d->reduce_scatter(member, x->queue, r->type, r->begins, r->values) : TRI_OK;
    case EXCHANGE_ALL_GATHER:
      *taken = d->all_gather != NULL;
      return *taken ? d->all_gather(member, x->queue, r->type, r->begins, r->values) : TRI_OK;
    case EXCHANGE_SEND:
      *taken = d->send != NULL;
      return *taken ? d->send(member, x->queue, r->peer, r->tag, r->bytes, r->values) : TRI_OK;
    case EXCHANGE_RECEIVE:
      *taken = d->receive != NULL;
      return *taken ? d->receive(member, x->queue, r->peer, r->tag, r->bytes, r->values) : TRI_OK;
  }
  return TRI_OK;
}

static tri_status run(tri_exchange *x, tri_exchange_request *r) {
  bool taken, direct;
  if (r->group.size == 1) return TRI_OK;
  TRI_TRY(tri_exchange_ask_device(x, r, &taken));
  if (taken) return TRI_OK;
  if (tri_exchange_is_reached(x, r->kind)) return run_reached(x, r);
  TRI_TRY(tri_exchange_reach(x, &direct));
  return direct ? run_direct(r) : run_staged(x, r);
}

tri_status tri_exchange_all_reduce(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                   void *values) {
  tri_exchange_request r = {
      .x = x, .kind = EXCHANGE_ALL_REDUCE, .group = *group, .type = type, .count = count, .values = values};
  return run(x, &r);
}

tri_status tri_exchange_all_maximum(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                    void *values) {
  tri_exchange_request r = {
      .x = x, .kind = EXCHANGE_ALL_MAXIMUM, .group = *group, .type = type, .count = count, .values = values};
  return run(x, &r);
}

tri_status tri_exchange_reduce_scatter(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                       void *values) {
  tri_exchange_request r = {
      .x = x, .kind = EXCHANGE_REDUCE_SCATTER, .group = *group, .type = type, .begins = begins, .values = values};
  return run(x, &r);
}

tri_status tri_exchange_all_gather(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                   void *values) {
  tri_exchange_request r = {
      .x = x, .kind = EXCHANGE_ALL_GATHER, .group = *group, .type = type, .begins = begins, .values = values};
  return run(x, &r);
}

/* ---- background -------------------------------------------------------------------------------------------------- */

tri_status tri_exchange_make(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out) {
  TRI_TRY(tri_alloc("a collective", 1, sizeof **out, out));
  **out = *what;
  (*out)->x = x;
  return TRI_OK;
}

void tri_exchange_drop(tri_exchange_request **request) {
  release(*request);
  *request = NULL;
}

static tri_status start_direct(tri_exchange_request *r) {
  switch (r->kind) {
    case EXCHANGE_ALL_REDUCE: return tri_all_reduce_start(&r->group, r->type, r->count, r->values, &r->comm);
    case EXCHANGE_REDUCE_SCATTER: return tri_reduce_scatter_start(&r->group, r->type, r->begins, r->values, &r->comm);
    case EXCHANGE_ALL_GATHER: return tri_all_gather_start(&r->group, r->type, r->begins, r->values, &r->comm);
    case EXCHANGE_ALL_MAXIMUM:
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: break;
  }
  return tri_fail_internal("a collective that has no start");
}

static tri_status enlist(tri_exchange *x, tri_exchange_request *r) {
  if (tri_exchange_is_reached(x, r->kind)) {
    TRI_TRY(start_reached(r, x->sums + TRI_DEVICE_AWARE_SCRATCH_BYTES));
  } else {
    TRI_TRY(start_staged(r, x->staging + 2 * TRI_EXCHANGE_PIECE_BYTES));
    TRI_TRY(tri_exchange_follow(x));
  }
  tri_exchange_request **last = &x->first;
  while (*last != NULL) last = &(*last)->next;
  *last = r;
  return TRI_OK;
}

static tri_status start(tri_exchange *x, const tri_exchange_request *what, tri_exchange_request **out) {
  bool taken, direct;
  if (what->group.size == 1) return TRI_OK;
  TRI_TRY(tri_exchange_ask_device(x, what, &taken));
  if (taken) return TRI_OK;
  TRI_TRY(tri_exchange_reach(x, &direct));
  TRI_TRY(tri_exchange_make(x, what, out));
  tri_status status = direct ? start_direct(*out) : enlist(x, *out);
  if (status != TRI_OK) {
    tri_exchange_drop(out);
    return status;
  }
  return direct ? TRI_OK : tri_exchange_progress(x);
}

tri_status tri_exchange_all_reduce_start(tri_exchange *x, const tri_group *group, tri_dtype type, int64_t count,
                                         void *values, tri_exchange_request **out) {
  tri_exchange_request r = {
      .kind = EXCHANGE_ALL_REDUCE, .group = *group, .type = type, .count = count, .values = values};
  return start(x, &r, out);
}

tri_status tri_exchange_reduce_scatter_start(tri_exchange *x, const tri_group *group, tri_dtype type,
                                             const int64_t *begins, void *values, tri_exchange_request **out) {
  tri_exchange_request r = {
      .kind = EXCHANGE_REDUCE_SCATTER, .group = *group, .type = type, .begins = begins, .values = values};
  return start(x, &r, out);
}

tri_status tri_exchange_all_gather_start(tri_exchange *x, const tri_group *group, tri_dtype type, const int64_t *begins,
                                         void *values, tri_exchange_request **out) {
  tri_exchange_request r = {
      .kind = EXCHANGE_ALL_GATHER, .group = *group, .type = type, .begins = begins, .values = values};
  return start(x, &r, out);
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static tri_status finish(tri_exchange_request *r) {
  switch (r->kind) {
    case EXCHANGE_SEND:
    case EXCHANGE_RECEIVE: return tri_exchange_message_finish(r);
    case EXCHANGE_ALL_REDUCE:
    case EXCHANGE_ALL_MAXIMUM:
    case EXCHANGE_REDUCE_SCATTER:
    case EXCHANGE_ALL_GATHER: break;
  }
  if (!r->staged && r->reached == NULL) return tri_request_wait(&r->comm);
  if (!is_through(r)) TRI_TRY(finish_up_to(r->x, r)); /* a request that is through is no longer in the list */
  return tri_exchange_join(r);
}

tri_status tri_exchange_wait(tri_exchange_request **request) {
  tri_exchange_request *r = *request;
  if (r == NULL) return TRI_OK;
  tri_status status = finish(r);
  *request = NULL;
  if (status == TRI_OK) release(r);
  return status;
}

/* Advances the background collectives in the order in which they were started, until one has to wait. */
static tri_status advance_first(tri_exchange *x) {
  while (x->first != NULL) {
    tri_exchange_request *r = x->first;
    TRI_TRY(advance(r, false));
    if (!is_through(r)) break;
    x->first = r->next;
    r->next = NULL;
  }
  return TRI_OK;
}

tri_status tri_exchange_progress(tri_exchange *x) {
  TRI_TRY(tri_exchange_messages_advance(x));
  TRI_TRY(advance_first(x));
  return tri_comm_progress();
}
