/* Queues whose work runs only during waits and polls of the host.
 *
 * A wait for a place in a queue runs work until the place is passed: one item after the other, each from a queue that
 * is chosen at random among those that can advance. Each wait draws new weights of the queues, from 0 (the queue
 * advances only if no other can) to much more than the others. So every order that the waits between queues allow
 * occurs with some seed, and a missing wait shows as poison or as different numbers. */
#include "device/guarded/internal.h"

#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"

#include <stdio.h>

enum { AFTERWARDS = 8, A_LOOK = 4 }; /* maximum items of work that run after a wait has ended, and in a poll */

uint32_t tri_guarded_draw(tri_guarded_state *state, uint32_t below) {
  return (uint32_t)((uint64_t)tri_random_u32(state->random, state->drawn++) * below >> 32);
}

/* ---- queueing ---------------------------------------------------------------------------------------------------- */

static bool has_failed(const tri_guarded_queue *queue) { return queue->fault.status != TRI_OK; }

tri_status tri_guarded_queue_work(tri_guarded_queue *queue, const char *what, tri_guarded_run run, size_t data_bytes,
                                  tri_guarded_work **out) {
  tri_guarded_work *work = NULL;
  *out = NULL;
  if (has_failed(queue)) {
    queue->done = ++queue->queued;
    return TRI_OK;
  }
  TRI_TRY(tri_alloc("queued work", 1, sizeof *work + data_bytes, &work));
  work->what = what;
  work->run = run;
  work->origin = queue->queue->origin;
  if (queue->last == NULL) {
    atomic_store(&queue->first, work);
  } else {
    atomic_store(&queue->last->next, work);
  }
  queue->last = work;
  queue->queued++;
  *out = work;
  return TRI_OK;
}

static void drop_first(tri_guarded_queue *queue) {
  tri_guarded_work *work = atomic_load(&queue->first);
  atomic_store(&queue->first, atomic_load(&work->next));
  if (atomic_load(&queue->first) == NULL) queue->last = NULL;
  queue->done++;
  tri_free(work);
}

static void drop_all(tri_guarded_queue *queue) {
  while (atomic_load(&queue->first) != NULL) drop_first(queue);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static bool can_go_on(const tri_guarded_queue *queue) {
  const tri_guarded_work *work = atomic_load(&queue->first);
  return work != NULL && (work->after == NULL || work->after->done >= work->after_number);
}

static void name_work(const tri_guarded_work *work, char *out, size_t out_bytes) {
  (void)tri_origin_of_work(work->what, &work->origin, out, out_bytes);
}

static tri_status run_work(tri_guarded_queue *queue, const tri_guarded_work *work) {
  char name[192], number[32];
  tri_status status = TRI_OK;
  name_work(work, name, sizeof name);
  if (work->told_to_fail != NULL) {
    return tri_fail(TRI_DEVICE_FAILED, "%s failed: the device fails the %s, as requested (%s)", name,
                    tri_guarded_ordinal(work->count, number), work->told_to_fail);
  }
  status = work->run(queue, work);
  return status == TRI_OK ? TRI_OK : tri_fail(status, "%s: %s", name, tri_status_message());
}

/* Returns whether the work waits for a place of another queue that failed before that place. If so, fails this queue
 * with the same error message. */
static bool follows_failure(tri_guarded_queue *queue, const tri_guarded_work *work) {
  const tri_guarded_queue *after = work->after;
  if (after == NULL || !has_failed(after) || work->after_number < after->failed_at) return false;
  queue->fault = after->fault;
  return true;
}

static void remember(tri_guarded_state *state, const tri_guarded_queue *queue, const tri_guarded_work *work) {
  state->past[state->num_past % TRI_GUARDED_HISTORY] =
      (tri_guarded_past){work->what, work->origin, queue->queue->number};
  state->num_past++;
}

/* Runs the first item of a queue. A failure is stored for the next wait, and does not change this thread's error
 * message. */
static void run_first(tri_guarded_queue *queue) {
  tri_guarded_state *state = queue->state;
  const tri_guarded_work *work = atomic_load(&queue->first);
  tri_saved_error before = {.status = TRI_OK};
  tri_error_save(&before, TRI_INTERNAL);
  if (!follows_failure(queue, work) && work->run != NULL) {
    remember(state, queue, work);
    atomic_store(&state->running, true);
    tri_error_save(&queue->fault, run_work(queue, work));
    atomic_store(&state->running, false);
  }
  if (has_failed(queue)) {
    queue->failed_at = queue->done + 1;
    drop_all(queue);
    (void)tri_saved_error_restore(&before);
  } else {
    drop_first(queue);
  }
  tri_guarded_look_at_host(state);
}

static void draw_eagerness(tri_guarded_state *state) {
  static const uint32_t weights[] = {0, 1, 8};
  for (tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    q->eagerness = weights[tri_guarded_draw(state, sizeof weights / sizeof weights[0])];
  }
}

/* Runs one item of one queue. Returns false if no queue can advance. */
static bool advance(tri_guarded_state *state) {
  uint32_t eager = 0, able = 0;
  for (tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    if (!can_go_on(q)) continue;
    eager += q->eagerness;
    able++;
  }
  if (able == 0) return false;
  uint32_t at = tri_guarded_draw(state, eager > 0 ? eager : able);
  for (tri_guarded_queue *q = atomic_load(&state->queues); q != NULL; q = atomic_load(&q->next)) {
    if (!can_go_on(q)) continue;
    uint32_t weight = eager > 0 ? q->eagerness : 1;
    if (at < weight) {
      run_first(q);
      return true;
    }
    at -= weight;
  }
  return false;
}

static void advance_some(tri_guarded_state *state, uint32_t most) {
  for (uint32_t left = tri_guarded_draw(state, most + 1); left > 0 && advance(state); left--) continue;
}

static tri_status stuck(const tri_guarded_queue *queue, uint64_t number) {
  const tri_guarded_work *work = atomic_load(&queue->first);
  char name[192];
  if (work == NULL) {
    return tri_fail_internal(
        "the host waits for place %llu of queue %llu of the device, but only %llu were ever queued there: a "
        "mistake of this program's",
        (unsigned long long)number, (unsigned long long)queue->queue->number, (unsigned long long)queue->queued);
  }
  name_work(work, name, sizeof name);
  return tri_fail_internal(
      "the host waits for queue %llu of the device, which waits (%s) for place %llu of queue %llu, and that "
      "will never be passed: it is at %llu of %llu. A mistake of this program's",
      (unsigned long long)queue->queue->number, name, (unsigned long long)work->after_number,
      (unsigned long long)work->after->queue->number, (unsigned long long)work->after->done,
      (unsigned long long)work->after->queued);
}

static tri_status run_until(tri_guarded_queue *queue, uint64_t number) {
  tri_guarded_state *state = queue->state;
  draw_eagerness(state);
  while (queue->done < number) {
    if (!advance(state)) return stuck(queue, number);
  }
  if (tri_guarded_draw(state, 2) == 1) advance_some(state, AFTERWARDS);
  return TRI_OK;
}

/* ---- marks and waits --------------------------------------------------------------------------------------------- */

uint64_t tri_guarded_queue_place(tri_guarded_queue *queue) {
  tri_guarded_lock(queue->state);
  uint64_t place = queue->queued;
  tri_guarded_unlock(queue->state);
  return place;
}

tri_status tri_guarded_queue_follow(tri_guarded_queue *queue, const tri_guarded_queue *other, uint64_t place) {
  tri_guarded_work *work = NULL;
  tri_guarded_lock(queue->state);
  tri_status status = tri_guarded_queue_work(queue, "wait", NULL, 0, &work);
  if (work != NULL) {
    work->after = other;
    work->after_number = place;
  }
  tri_guarded_unlock(queue->state);
  return status;
}

tri_status tri_guarded_queue_reach(tri_guarded_queue *queue, uint64_t place) {
  tri_guarded_lock(queue->state);
  tri_status status = run_until(queue, place);
  if (status == TRI_OK && has_failed(queue) && place >= queue->failed_at) {
    queue->reported = true;
    status = tri_saved_error_restore(&queue->fault);
  }
  tri_guarded_unlock(queue->state);
  return status;
}

bool tri_guarded_queue_has_passed(tri_guarded_queue *queue, uint64_t place) {
  tri_guarded_lock(queue->state);
  draw_eagerness(queue->state);
  if (queue->done < place) advance_some(queue->state, A_LOOK);
  bool passed = queue->done >= place;
  tri_guarded_unlock(queue->state);
  return passed;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

tri_status tri_guarded_queue_create(tri_guarded_state *state, tri_queue *queue, tri_guarded_queue **out) {
  tri_guarded_queue *own = NULL;
  TRI_TRY(tri_alloc("a queue", 1, sizeof *own, &own));
  own->queue = queue;
  own->state = state;
  tri_guarded_lock(state);
  atomic_store(&own->next, atomic_load(&state->queues));
  atomic_store(&state->queues, own);
  tri_guarded_unlock(state);
  *out = own;
  return TRI_OK;
}

static void remove_queue(tri_guarded_queue *queue) {
  tri_guarded_queue *_Atomic *link = &queue->state->queues;
  while (atomic_load(link) != queue) link = &atomic_load(link)->next;
  atomic_store(link, atomic_load(&queue->next));
}

/* Removes the queue, whose work is all complete, from the waits of other queues. */
static void forget_in_waits(const tri_guarded_queue *queue) {
  for (tri_guarded_queue *q = atomic_load(&queue->state->queues); q != NULL; q = atomic_load(&q->next)) {
    for (tri_guarded_work *work = atomic_load(&q->first); work != NULL; work = atomic_load(&work->next)) {
      if (work->after == queue) work->after = NULL;
    }
  }
}

void tri_guarded_queue_destroy(tri_guarded_queue *own) {
  tri_guarded_state *state = own->state;
  tri_guarded_lock(state);
  tri_status status = run_until(own, own->queued);
  if (status != TRI_OK) {
    tri_warn("%s", tri_status_message());
  } else if (has_failed(own) && !own->reported) {
    tri_warn("work failed, and was not waited for: %s", own->fault.message);
  }
  drop_all(own);
  remove_queue(own);
  forget_in_waits(own);
  tri_guarded_unlock(state);
  tri_free(own);
}
