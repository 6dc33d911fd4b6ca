#include "comm/device_aware.h"

#include "base/memory.h"
#include "comm/internal.h"
#include "device/kernels.h"
#include "mesh/parts.h"

#include <stdlib.h>
#include <string.h>

#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

/* ---- whether MPI is device-aware --------------------------------------------------------------------------------- */

/* Returns whether Cray's MPICH is GPU-aware. It has no function to query this: the variable switches it on, and MPI
 * fails if the program was not linked for it. */
static bool cray_reaches(void) {
  const char *enabled = getenv("MPICH_GPU_SUPPORT_ENABLED");
  return enabled != NULL && strcmp(enabled, "1") == 0;
}

static bool reaches_cuda(void) {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)
  int yes = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &yes) == MPI_SUCCESS && yes;
#else
  return false;
#endif
}

static bool reaches_rocm(void) {
#if defined(MPIX_ROCM_AWARE_SUPPORT)
  return MPIX_Query_rocm_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_HIP)
  int yes = 0;
  return MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &yes) == MPI_SUCCESS && yes;
#else
  return false;
#endif
}

bool tri_comm_is_device_aware(tri_device_peer peer) {
  if (!tri_comm_job()->joined) return false;
  switch (peer) {
    case TRI_PEER_NONE: return false;
    case TRI_PEER_HOST: return true;
    case TRI_PEER_CUDA: return cray_reaches() || reaches_cuda();
    case TRI_PEER_ROCM: return cray_reaches() || reaches_rocm();
  }
  return false;
}

/* ---- a collective ------------------------------------------------------------------------------------------------ */

/* One tag is enough: messages of one group are matched in the order in which they are sent, and all ranks call the
 * collectives in the same order. It is the largest tag that every MPI supports, and no pipeline message has it. */
enum { TAG = 32767, HALF_BYTES = TRI_DEVICE_AWARE_SCRATCH_BYTES / 2, ALIGNMENT = 64 };

/* The phases of one piece. */
typedef enum reached_phase {
  REACHED_BEGIN,    /* waits while other work may still use values and scratch */
  REACHED_EXCHANGE, /* every rank sends each part of its values to the rank that adds the part */
  REACHED_ADD,      /* the device adds; the result is then sent */
  REACHED_GATHER,   /* every rank sends its part to all others */
} reached_phase;

struct tri_device_aware {
  tri_device_aware_call call;
  reached_phase phase;
  int64_t piece,          /* number of the current piece, from 0 */
      pieces,             /* number of pieces */
      piece_elements;     /* elements of each part in a piece */
  tri_request **requests; /* [2 * group.size] */
  int num_requests, num_finished;
  bool begun;
  tri_device_event
      added[2]; /* events that are passed when the additions that read each half of the scratch memory are done */
  tri_device_event after; /* event that is passed when the last additions are done */
};

static bool is_narrow(tri_dtype type) { return tri_dtype_wide(type) != type; }

static int64_t part_begin(const tri_device_aware *d, int part) {
  const tri_device_aware_call *call = &d->call;
  return call->begins == NULL ? tri_part_begin(call->count, call->group.size, part) : call->begins[part];
}

/* Returns the number of elements of a part in this piece; *first is the index of the first one. */
static int64_t slice_of(const tri_device_aware *d, int part, int64_t *first) {
  int64_t end = part_begin(d, part + 1), from = part_begin(d, part) + d->piece * d->piece_elements;
  *first = from < end ? from : end;
  return end - *first < d->piece_elements ? end - *first : d->piece_elements;
}

static size_t element_bytes(const tri_device_aware *d) { return tri_dtype_bytes(d->call.type); }

static char *value_at(const tri_device_aware *d, int64_t index) {
  return d->call.values + (size_t)index * element_bytes(d);
}

/* Returns the address of a rank's values in the current half of the scratch memory. A half has the values of each of
 * the other ranks, then three arrays of the wide type: the sum over all nodes, the sum over one node, and a term that
 * had to be converted to the wide type. */
static char *scratch_of(const tri_device_aware *d, int rank) {
  const int place = rank < d->call.group.rank ? rank : rank - 1;
  return d->call.scratch + d->piece % 2 * HALF_BYTES + (size_t)place * (size_t)d->piece_elements * element_bytes(d);
}

enum { SUM_OF_ALL, SUM_OF_NODE, SUM_TERM, NUM_SUM_ARRAYS }; /* indices of the arrays */

static char *array_of(const tri_device_aware *d, int which) {
  char *behind = d->call.scratch + d->piece % 2 * HALF_BYTES +
                 (size_t)(d->call.group.size - 1) * (size_t)d->piece_elements * element_bytes(d);
  return behind + (size_t)which * (size_t)d->piece_elements * tri_dtype_bytes(tri_dtype_wide(d->call.type));
}

tri_status tri_device_aware_start(const tri_device_aware_call *call, tri_device_aware **out) {
  tri_device_aware *d = NULL;
  const size_t size = (size_t)call->group.size, bytes = tri_dtype_bytes(call->type);
  const size_t each = (size - 1) * bytes + NUM_SUM_ARRAYS * tri_dtype_bytes(tri_dtype_wide(call->type));
  int64_t longest = 0;
  TRI_TRY(tri_alloc("a collective", 1, sizeof *d, &d));
  d->call = *call;
  d->piece_elements = (int64_t)(HALF_BYTES / each / ALIGNMENT * ALIGNMENT);
  for (int part = 0; part < call->group.size; part++) {
    int64_t length = part_begin(d, part + 1) - part_begin(d, part);
    if (length > longest) longest = length;
  }
  tri_status status = TRI_OK;
  if (d->piece_elements == 0) {
    status =
        tri_fail(TRI_UNSUPPORTED, "%d ranks are more than %d bytes of scratch serve", call->group.size, HALF_BYTES);
  }
  if (status == TRI_OK) status = tri_alloc("messages", 2 * size, sizeof(tri_request *), &d->requests);
  if (status != TRI_OK) {
    tri_device_aware_release(d);
    return status;
  }
  d->pieces = (longest + d->piece_elements - 1) / d->piece_elements;
  *out = d;
  return TRI_OK;
}

void tri_device_aware_release(tri_device_aware *d) {
  if (d == NULL) return;
  tri_free(d->requests);
  tri_free(d);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static tri_status post_send(tri_device_aware *d, int to, const char *from, int64_t count) {
  tri_device *device = d->call.queue->device;
  if (count == 0) return TRI_OK;
  return tri_send_start(&d->call.group, to, TAG, (size_t)count * element_bytes(d),
                        device->driver->peer_address(device, (void *)(uintptr_t)from), &d->requests[d->num_requests++]);
}

static tri_status post_receive(tri_device_aware *d, int from, char *to, int64_t count) {
  tri_device *device = d->call.queue->device;
  if (count == 0) return TRI_OK;
  return tri_receive_start(&d->call.group, from, TAG, (size_t)count * element_bytes(d),
                           device->driver->peer_address(device, to), &d->requests[d->num_requests++]);
}

static tri_status post_exchange(tri_device_aware *d) {
  const int own = d->call.group.rank;
  int64_t first, count, theirs;
  const int64_t mine = slice_of(d, own, &first);
  for (int r = 0; r < d->call.group.size; r++) {
    if (r != own) TRI_TRY(post_receive(d, r, scratch_of(d, r), mine));
  }
  for (int r = 0; r < d->call.group.size; r++) {
    count = slice_of(d, r, &theirs);
    if (r != own) TRI_TRY(post_send(d, r, value_at(d, theirs), count));
  }
  return TRI_OK;
}

static tri_status post_gather(tri_device_aware *d) {
  const int own = d->call.group.rank;
  int64_t first, theirs;
  const int64_t mine = slice_of(d, own, &first);
  for (int r = 0; r < d->call.group.size; r++) {
    const int64_t count = slice_of(d, r, &theirs);
    if (r != own) TRI_TRY(post_receive(d, r, value_at(d, theirs), count));
  }
  for (int r = 0; r < d->call.group.size; r++) {
    if (r != own) TRI_TRY(post_send(d, r, value_at(d, first), mine));
  }
  return TRI_OK;
}

static tri_status finish_messages(tri_device_aware *d, bool wait, bool *through) {
  *through = false;
  while (d->num_finished < d->num_requests) {
    bool done = false;
    TRI_TRY(tri_request_test(d->requests[d->num_finished], &done));
    if (!done && !wait) return TRI_OK;
    TRI_TRY(tri_request_wait(&d->requests[d->num_finished]));
    d->num_finished++;
  }
  d->num_finished = d->num_requests = 0;
  *through = true;
  return TRI_OK;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* A sum to which terms are added one by one (grow). */
typedef struct growing {
  const char *now; /* address of the sum so far, in `room` or elsewhere; NULL: no term so far */
  char *room;
} growing;

static tri_status grow(const tri_device_aware *d, growing *sum, const char *term, int64_t count, char *out) {
  tri_queue *queue = d->call.queue;
  if (sum->now == NULL) {
    sum->now = term;
    return TRI_OK;
  }
  TRI_KERNEL_CALL(queue, add, tri_dtype_wide(d->call.type), tri_all_rows(1), count, sum->now, term, out);
  sum->now = out;
  return TRI_OK;
}

/* Gets a rank's values in the wide type. Values that must be converted are written to the node's sum if the rank is the
 * first of its node (`leads`), else to SUM_TERM. */
static tri_status term_of(const tri_device_aware *d, int rank, int64_t first, int64_t count, bool leads,
                          const char **out) {
  tri_queue *queue = d->call.queue;
  char *values = rank == d->call.group.rank ? value_at(d, first) : scratch_of(d, rank);
  *out = values;
  if (!is_narrow(d->call.type)) return TRI_OK;
  char *wide = array_of(d, leads ? SUM_OF_NODE : SUM_TERM);
  TRI_KERNEL_CALL(queue, convert, count, d->call.type, values, tri_dtype_wide(d->call.type), wide);
  *out = wide;
  return TRI_OK;
}

/* Queues the sum over one node's ranks. *adds counts the additions so far. The last addition of all writes to the
 * result's final place, unless the type is narrow. */
static tri_status add_node(const tri_device_aware *d, int node, int64_t first, int64_t count, int *adds, growing *out) {
  const tri_group *group = &d->call.group;
  *out = (growing){NULL, array_of(d, SUM_OF_NODE)};
  for (int r = 0; r < group->size; r++) {
    const char *term = NULL;
    if (group->impl->nodes[r] != node) continue;
    TRI_TRY(term_of(d, r, first, count, out->now == NULL, &term));
    if (out->now != NULL) ++*adds;
    bool last = *adds == group->size - 1 && !is_narrow(d->call.type);
    TRI_TRY(grow(d, out, term, count, last ? value_at(d, first) : out->room));
  }
  return TRI_OK;
}

/* Queues the sum over all ranks of this rank's slice: over the ranks of each node, then over nodes. */
static tri_status queue_sums(tri_device_aware *d) {
  tri_queue *queue = d->call.queue;
  const tri_group *group = &d->call.group;
  int64_t first;
  const int64_t count = slice_of(d, group->rank, &first);
  growing all = {NULL, array_of(d, SUM_OF_ALL)};
  int adds = 0;
  if (count == 0) return TRI_OK;
  tri_queue_at(queue, group->name, -1, "sums");
  for (int node = 0; node < group->impl->num_nodes; node++) {
    growing own;
    TRI_TRY(add_node(d, node, first, count, &adds, &own));
    /* The next node's sum needs the array that holds the first node's sum, so the latter is moved. */
    if (all.now == NULL && group->impl->num_nodes > 1 && own.now == own.room) {
      TRI_TRY(tri_queue_move(queue, all.room, own.now, (size_t)count * tri_dtype_bytes(tri_dtype_wide(d->call.type))));
      own.now = all.room;
    }
    if (all.now != NULL) adds++;
    bool last = adds == group->size - 1 && !is_narrow(d->call.type);
    TRI_TRY(grow(d, &all, own.now, count, last ? value_at(d, first) : all.room));
  }
  if (!is_narrow(d->call.type)) return TRI_OK;
  TRI_KERNEL_CALL(queue, convert, count, tri_dtype_wide(d->call.type), all.now, d->call.type, value_at(d, first));
  return TRI_OK;
}

/* ---- going on ---------------------------------------------------------------------------------------------------- */

/* Sets *passed to whether the event has passed; if `wait` is true, waits for it first. A device fault counts as
 * passed, and the wait reports it. */
static tri_status pass(const tri_device_event *event, bool wait, bool *passed) {
  *passed = wait || tri_device_event_passed(event);
  return *passed ? tri_device_event_wait(event) : TRI_OK;
}

/* Makes this call's first use of the scratch memory follow the queued additions of the previous collective. */
static tri_status follow_before(tri_device_aware *d) {
  if (d->begun) return TRI_OK;
  d->begun = true;
  TRI_TRY(tri_queue_mark(d->call.queue, &d->added[0]));
  d->added[1] = d->added[0];
  return TRI_OK;
}

static tri_status begin(tri_device_aware *d, bool wait, bool *moved) {
  TRI_TRY(follow_before(d));
  TRI_TRY(pass(&d->call.ready, wait, moved));
  if (*moved) TRI_TRY(pass(&d->added[d->piece % 2], wait, moved));
  if (!*moved) return TRI_OK;
  d->phase = d->call.reduce ? REACHED_EXCHANGE : REACHED_GATHER;
  return d->call.reduce ? post_exchange(d) : post_gather(d);
}

static void next_piece(tri_device_aware *d) {
  d->piece++;
  d->phase = REACHED_BEGIN;
}

static tri_status add(tri_device_aware *d, bool wait, bool *moved) {
  TRI_TRY(finish_messages(d, wait, moved));
  if (!*moved) return TRI_OK;
  TRI_TRY(queue_sums(d));
  TRI_TRY(tri_queue_mark(d->call.queue, &d->after));
  d->added[d->piece % 2] = d->after;
  if (d->call.gather) {
    d->phase = REACHED_ADD;
  } else {
    next_piece(d);
  }
  return TRI_OK;
}

static tri_status hand_out(tri_device_aware *d, bool wait, bool *moved) {
  TRI_TRY(pass(&d->after, wait, moved));
  if (!*moved) return TRI_OK;
  d->phase = REACHED_GATHER;
  return post_gather(d);
}

static tri_status go_on(tri_device_aware *d, bool wait, bool *moved) {
  switch (d->phase) {
    case REACHED_BEGIN: return begin(d, wait, moved);
    case REACHED_EXCHANGE: return add(d, wait, moved);
    case REACHED_ADD: return hand_out(d, wait, moved);
    case REACHED_GATHER: break;
  }
  TRI_TRY(finish_messages(d, wait, moved));
  if (*moved) next_piece(d);
  return TRI_OK;
}

tri_status tri_device_aware_advance(tri_device_aware *d, bool wait, bool *done, tri_device_event *after) {
  bool moved = true;
  while (d->piece < d->pieces && moved) TRI_TRY(go_on(d, wait, &moved));
  *done = d->piece == d->pieces;
  *after = d->after;
  return TRI_OK;
}
