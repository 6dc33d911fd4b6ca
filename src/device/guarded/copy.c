/* Copies run late, which exposes callers that do not wait for them. When a copy is queued, the destination of a
 * download is poisoned and the source of an upload is checksummed; both must be unchanged when the copy runs.
 *
 * Copies may use the same host memory one after the other: memory with a queued upload may be queued to be filled again
 * at once. So a copy examines host memory when all copies of that memory that were queued before it are complete. If it
 * runs while some are not, a wait for them is missing. */
#include "device/guarded/internal.h"

#include "device/queue.h"

#include <string.h>

typedef struct queued_copy {
  tri_copy copy;
  uint64_t serial; /* index among the device's copies, in the order in which they were queued */
  bool looked;     /* whether host memory has been examined: poisoned, or checksummed */
  uint64_t sum;    /* checksum of the host's bytes that an upload will read */
} queued_copy;

static tri_status run_copy(tri_guarded_queue *queue, const tri_guarded_work *work);

/* Returns the bytes from the first byte to the end of the last row. */
static size_t extent(const tri_copy *copy, size_t stride) { return (copy->rows - 1) * stride + copy->row_bytes; }

static uint64_t mix(uint64_t sum, const char *from, size_t bytes) {
  uint64_t word = 0;
  for (size_t at = 0; at < bytes; at += sizeof word) {
    size_t some = bytes - at < sizeof word ? bytes - at : sizeof word;
    word = 0;
    memcpy(&word, from + at, some);
    sum = (sum ^ word) *
          0x9e3779b97f4a7c15u; /* the factor is odd, so each step is a bijection of the word and of the sum */
    sum ^= sum >> 29;
  }
  return sum;
}

static uint64_t sum_of(const tri_copy *copy) {
  uint64_t sum = 0;
  for (size_t r = 0; r < copy->rows; r++) {
    sum = mix(sum, (const char *)copy->from + r * copy->from_stride, copy->row_bytes);
  }
  return sum;
}

static void poison_rows(const tri_copy *copy) {
  for (size_t r = 0; r < copy->rows; r++) {
    tri_guarded_poison((char *)copy->to + r * copy->to_stride, copy->row_bytes);
  }
}

static bool is_poison(const tri_copy *copy) {
  for (size_t r = 0; r < copy->rows; r++) {
    if (!tri_guarded_is_poison((const char *)copy->to + r * copy->to_stride, copy->row_bytes)) return false;
  }
  return true;
}

/* Sets *out to the address at which the bytes can be accessed. */
static tri_status reach(const tri_guarded_state *state, const char *what, tri_side side, const void *memory,
                        size_t bytes, void **out) {
  switch (side) {
    case TRI_SIDE_DEVICE: return tri_guarded_open(state, what, memory, bytes, out);
    case TRI_SIDE_HOST: break;
  }
  TRI_TRY(tri_guarded_check_host(state, what, memory, bytes));
  *out = (char *)(uintptr_t)memory;
  return TRI_OK;
}

static bool overlap(const tri_copy *copy) {
  uintptr_t to = (uintptr_t)copy->to, from = (uintptr_t)copy->from;
  return copy->rows == 1 && to < from + copy->row_bytes && from < to + copy->row_bytes;
}

/* ---- copies of the same host memory ------------------------------------------------------------------------------ */

typedef struct side {
  uintptr_t first;
  size_t rows, row_bytes, stride;
} side;

static size_t rows_of_host(tri_side which, size_t rows) {
  switch (which) {
    case TRI_SIDE_HOST: return rows;
    case TRI_SIDE_DEVICE: break;
  }
  return 0;
}

static side read_side(const tri_copy *copy) {
  return (side){(uintptr_t)copy->from, rows_of_host(copy->from_side, copy->rows), copy->row_bytes, copy->from_stride};
}

static side written_side(const tri_copy *copy) {
  return (side){(uintptr_t)copy->to, rows_of_host(copy->to_side, copy->rows), copy->row_bytes, copy->to_stride};
}

/* Returns whether a row of this side overlaps the bytes [first, first + bytes). It suffices to test the last row
 * that begins before their end, which extends farthest. */
static bool meets_row(const side *of, uintptr_t first, size_t bytes) {
  if (of->rows == 0 || first + bytes <= of->first) return false;
  size_t row = of->rows == 1 ? 0 : (first + bytes - 1 - of->first) / of->stride;
  if (row >= of->rows) row = of->rows - 1;
  return of->first + row * of->stride + of->row_bytes > first;
}

static bool meet(side a, side b) {
  for (size_t r = 0; r < a.rows; r++) {
    if (meets_row(&b, a.first + r * a.stride, a.row_bytes)) return true;
  }
  return false;
}

static bool conflict(const tri_copy *a, const tri_copy *b) {
  return meet(written_side(a), written_side(b)) || meet(written_side(a), read_side(b)) ||
         meet(read_side(a), written_side(b));
}

/* Returns whether an earlier copy of the same host memory is still incomplete. */
static bool comes_too_early(const tri_guarded_state *state, const queued_copy *queued) {
  for (const tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    for (const tri_guarded_work *work = atomic_load(&q->first); work != NULL; work = atomic_load(&work->next)) {
      const queued_copy *other = (const queued_copy *)(const void *)work->data;
      if (work->run == run_copy && other->serial < queued->serial && conflict(&other->copy, &queued->copy)) return true;
    }
  }
  return false;
}

/* Examines the host's side of a copy. Called when the copy is queued and, if earlier copies of the same memory are then
 * incomplete, again when these are complete. An error is reported when the copy runs. */
static void check_host_side(tri_guarded_state *state, queued_copy *queued) {
  const tri_copy *copy = &queued->copy;
  if (comes_too_early(state, queued)) return;
  queued->looked = true;
  if (copy->from_side == TRI_SIDE_HOST &&
      tri_guarded_check_host(state, "", copy->from, extent(copy, copy->from_stride)) == TRI_OK) {
    queued->sum = sum_of(copy);
  }
  if (copy->to_side == TRI_SIDE_HOST &&
      tri_guarded_check_host(state, "", copy->to, extent(copy, copy->to_stride)) == TRI_OK) {
    poison_rows(copy);
  }
}

void tri_guarded_look_at_host(tri_guarded_state *state) {
  if (state->unseeing == 0) return;
  state->unseeing = 0;
  for (tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    for (tri_guarded_work *work = atomic_load(&q->first); work != NULL; work = atomic_load(&work->next)) {
      queued_copy *queued = (queued_copy *)(void *)work->data;
      if (work->run != run_copy || queued->looked) continue;
      check_host_side(state, queued);
      state->unseeing += !queued->looked;
    }
  }
}

/* ---- a copy ------------------------------------------------------------------------------------------------------ */

static tri_status check_host(const tri_guarded_state *state, const queued_copy *queued) {
  const tri_copy *copy = &queued->copy;
  if (comes_too_early(state, queued)) {
    return tri_fail_internal(
        "another copy of the same host memory was queued before it, in another queue, and is not done: a "
        "missing wait between queues");
  }
  if (copy->from_side == TRI_SIDE_HOST && sum_of(copy) != queued->sum) {
    return tri_fail_internal("the host changed the memory that it reads, at %p, before it was done: a missing wait",
                             copy->from);
  }
  if (copy->to_side == TRI_SIDE_HOST && !is_poison(copy)) {
    return tri_fail_internal("the host changed the memory that it fills, at %p, before it was done: a missing wait",
                             copy->to);
  }
  return TRI_OK;
}

static tri_status run_copy(tri_guarded_queue *queue, const tri_guarded_work *work) {
  queued_copy queued;
  memcpy(&queued, work->data, sizeof queued);
  const tri_copy *copy = &queued.copy;
  void *to = NULL, *from = NULL;
  TRI_TRY(reach(queue->state, "the destination", copy->to_side, copy->to, extent(copy, copy->to_stride), &to));
  TRI_TRY(reach(queue->state, "the source", copy->from_side, copy->from, extent(copy, copy->from_stride), &from));
  if (overlap(copy)) return tri_fail_internal("the source and the destination overlap");
  TRI_TRY(check_host(queue->state, &queued));
  for (size_t r = 0; r < copy->rows; r++) {
    memcpy((char *)to + r * copy->to_stride, (const char *)from + r * copy->from_stride, copy->row_bytes);
  }
  return TRI_OK;
}

static tri_status queue_copy(tri_guarded_queue *queue, const tri_copy *copy) {
  tri_guarded_state *state = queue->state;
  tri_guarded_work *work = NULL;
  queued_copy queued = {.copy = *copy, .serial = ++state->copies};
  check_host_side(state, &queued);
  state->unseeing += !queued.looked;
  TRI_TRY(tri_guarded_queue_work(queue, "kernel `copy`", run_copy, sizeof queued, &work));
  if (work == NULL) return TRI_OK;
  memcpy(work->data, &queued, sizeof queued);
  work->count = queued.serial;
  if (queued.serial == state->options.fail_copy) work->told_to_fail = "fail_copy";
  return TRI_OK;
}

tri_status tri_guarded_queue_copy(tri_guarded_queue *own, const tri_copy *copy) {
  tri_guarded_lock(own->state);
  tri_status status = queue_copy(own, copy);
  tri_guarded_unlock(own->state);
  return status;
}

/* ---- undefined memory -------------------------------------------------------------------------------------------- */

typedef struct memory_range {
  void *memory;
  size_t bytes;
} memory_range;

static tri_status run_undefine(tri_guarded_queue *queue, const tri_guarded_work *work) {
  memory_range all;
  void *open = NULL;
  memcpy(&all, work->data, sizeof all);
  TRI_TRY(tri_guarded_open(queue->state, "the undefined range", all.memory, all.bytes, &open));
  tri_guarded_poison(open, all.bytes);
  return TRI_OK;
}

tri_status tri_guarded_queue_undefine(tri_guarded_queue *own, void *memory, size_t bytes) {
  const memory_range all = {memory, bytes};
  tri_guarded_work *work = NULL;
  tri_guarded_lock(own->state);
  tri_status status = tri_guarded_queue_work(own, "kernel `undefine`", run_undefine, sizeof all, &work);
  if (work != NULL) memcpy(work->data, &all, sizeof all);
  tri_guarded_unlock(own->state);
  return status;
}
