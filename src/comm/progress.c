/* Progress of requests, and waiting for them.
 *
 * There is no thread in the background: MPI moves messages, and the ranks of a node add values, only inside calls. So a
 * wait for one request makes progress on all requests of all groups, because another rank may be waiting for this rank
 * in one of them. */
#include "base/clock.h"
#include "base/memory.h"
#include "comm/internal.h"

#include <math.h>
#include <sched.h>
#include <time.h>

enum { TURNS_OF_CHECK = 64 }; /* iterations of a wait, about 3 us, in which only the request's group advances */

/* Time of waiting before a rank calls sched_yield. A rank with its own core gains nothing by yielding it, and if
 * another process takes the core, gets it back only after milliseconds. If ranks share cores, the rank that is waited
 * for may need this core, so a crowded rank yields at once. */
static const double SPIN_S = 200e-6;

/* After a long wait yielding is not enough: the system returns the core at once, and a rank that waits for a stopped or
 * busy rank would occupy a core that another process could use. So the rank sleeps repeatedly, each time for a
 * hundredth of the time that it has waited so far: a wait is lengthened by at most that share and the system's timer
 * latency. If ranks share cores, sleeping begins earlier, since the rank that is waited for needs a core. */
static const double SLEEPS_AFTER_S = 20e-3, CROWDED_SLEEPS_AFTER_S = 2e-3, SLEEP_SHARE = 0.01, LONGEST_SLEEP_S = 1e-3;

/* Longest sleep of a rank that has no work, as in an idle server. */
static const double LONGEST_IDLE_SLEEP_S = 20e-3;

/* ---- the current wait, for other threads ------------------------------------------------------------------------- */

/* The current wait, in a sequence lock: one thread writes, others read at any time. A reader accepts the data if
 * `version` was even, and the same before and after. Exists once in a process, as the job's state. */
static struct {
  atomic_uint version;
  _Atomic(const char *) operation, group;
  _Atomic(uint64_t) number;
  _Atomic(size_t) bytes;
  atomic_int behind;
  _Atomic(double) since_s;
} waiting;

static void show_waiting(const tri_request *request, double since_s) {
  unsigned version = atomic_load_explicit(&waiting.version, memory_order_relaxed);
  atomic_store(&waiting.version, version + 1);
  atomic_store(&waiting.operation, request != NULL ? tri_operation_name(request->operation) : NULL);
  if (request != NULL) {
    atomic_store(&waiting.group, request->group->name);
    atomic_store(&waiting.number, request->number);
    atomic_store(&waiting.bytes, request->bytes);
    atomic_store(&waiting.behind, request->is_message ? request->peer : tri_collective_behind(request->group));
    atomic_store(&waiting.since_s, since_s);
  }
  atomic_store(&waiting.version, version + 2);
}

tri_comm_wait tri_comm_state(void) {
  for (;;) {
    unsigned version = atomic_load(&waiting.version);
    tri_comm_wait now = {.operation = atomic_load(&waiting.operation),
                         .group = atomic_load(&waiting.group),
                         .number = atomic_load(&waiting.number),
                         .bytes = atomic_load(&waiting.bytes),
                         .behind = atomic_load(&waiting.behind),
                         .since_s = atomic_load(&waiting.since_s)};
    if (version % 2 == 0 && atomic_load(&waiting.version) == version) return now;
  }
}

/* ---- progress ---------------------------------------------------------------------------------------------------- */

static void unlink_message(const tri_request *request) {
  for (tri_request **link = &tri_comm_job()->messages; *link != NULL; link = &(*link)->next) {
    if (*link != request) continue;
    *link = request->next;
    return;
  }
}

static tri_status go_on(bool *moved) {
  tri_job *job = tri_comm_job();
  for (tri_group_impl *group = job->busy, *next; group != NULL; group = next) {
    next = group->next_busy;
    TRI_TRY(tri_collective_advance(group, moved));
  }
  for (tri_request *request = job->messages, *next; request != NULL; request = next) {
    next = request->next;
    TRI_TRY(tri_message_advance(request));
    if (!request->done) continue;
    tri_recorder_end(request->ticket);
    unlink_message(request);
    *moved = true;
  }
  return TRI_OK;
}

/* Advances all requests. This thread also computes the sums of collectives. */
tri_status tri_comm_progress(void) {
  bool moved = false;
  const tri_job *job = tri_comm_job();
  if (!job->joined) return TRI_OK;
  TRI_TRY(tri_comm_check());
  if (job->busy == NULL) return go_on(&moved);
  tri_record record = tri_record_make(TRI_RECORD_PROGRESS, "progress");
  record.group = job->busy->name;
  double begin_s = tri_clock_s();
  TRI_TRY(go_on(&moved));
  if (moved) tri_recorder_note(&record, begin_s);
  return TRI_OK;
}

/* Calls MPI so that it makes progress. MPI may still hold messages in its queues when their requests are finished. */
static tri_status poke(void) {
  int there;
  const tri_group_impl *world = tri_comm_job()->world.impl;
  if (world == NULL) return TRI_OK; /* a job of one rank */
  TRI_MPI(world->name, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world->messages, &there, MPI_STATUS_IGNORE));
  return TRI_OK;
}

static inline void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

typedef struct patience {
  int64_t turns;  /* iterations of the loop since the last progress */
  double begin_s, /* time of the first look at the clock in this wait; 0: no look yet */
      idle_s;     /* time of the first look since the last progress */
  bool yields;
  double sleep_s;         /* seconds of sleep in each iteration; 0: no sleep */
  double longest_sleep_s; /* limit of sleep_s */
} patience;

static void sleep_for(double seconds) {
  const struct timespec time = {0, (long)(1e9 * seconds)};
  nanosleep(&time, NULL);
}

/* Decides from the time without progress whether the next iterations spin, yield or sleep. */
static void patience_look(patience *p, double now_s) {
  bool crowded = tri_comm_job()->crowded;
  if (p->turns == TURNS_OF_CHECK) p->idle_s = now_s;
  if (p->begin_s == 0) p->begin_s = now_s;
  double waited_s = now_s - p->idle_s;
  p->yields = crowded || waited_s > SPIN_S;
  p->sleep_s = waited_s > (crowded ? CROWDED_SLEEPS_AFTER_S : SLEEPS_AFTER_S)
                   ? fmin(SLEEP_SHARE * waited_s, p->longest_sleep_s)
                   : 0;
}

/* Pauses, yields or sleeps after a turn of a wait. `request` NULL: the wait is not shown. */
static tri_status tri_comm_waiting(const tri_request *request, patience *p) {
  if (++p->turns < TURNS_OF_CHECK) {
    relax();
    return TRI_OK;
  }
  if (p->turns % TURNS_OF_CHECK == 0 || p->sleep_s > 0) {
    patience_look(p, tri_clock_s());
    if (request != NULL) show_waiting(request, p->begin_s);
    TRI_TRY(poke());
  }
  if (p->sleep_s > 0) {
    sleep_for(p->sleep_s);
  } else if (p->yields) {
    sched_yield();
  } else {
    relax();
  }
  return TRI_OK;
}

tri_status tri_comm_finish(tri_request *request) {
  patience p = {.longest_sleep_s = LONGEST_SLEEP_S};
  while (!request->done) {
    bool moved = false;
    if (request->is_message || p.turns >= TURNS_OF_CHECK) {
      TRI_TRY(go_on(&moved));
    } else {
      TRI_TRY(tri_collective_advance(request->group, &moved));
    }
    if (request->done) break;
    if (moved) p.turns = 0;
    TRI_TRY(tri_comm_waiting(request, &p));
  }
  if (p.begin_s > 0) show_waiting(NULL, 0);
  return TRI_OK;
}

/* Waits for a background request, with an entry of its own in the flight recorder: the rank does no other work in the
 * meantime. */
static tri_status finish_on_record(tri_request *request) {
  if (request->done) return TRI_OK;
  tri_record record = tri_request_record(request);
  record.background = false;
  uint64_t ticket = tri_recorder_begin(&record);
  TRI_TRY(tri_comm_finish(request));
  tri_recorder_end(ticket);
  return TRI_OK;
}

tri_status tri_request_wait(tri_request **request) {
  tri_request *waited = *request;
  *request = NULL;
  if (waited == NULL) return TRI_OK;
  TRI_TRY(tri_comm_check());
  TRI_TRY(finish_on_record(waited)); /* on failure MPI may still write to the request, so it is not freed */
  tri_free(waited);
  return TRI_OK;
}

tri_status tri_request_test(tri_request *request, bool *done) {
  if (request != NULL && !request->done) TRI_TRY(tri_comm_progress());
  *done = request == NULL || request->done;
  return TRI_OK;
}

tri_status tri_request_wait_any(const tri_request *const *requests, int count, double idle_since_s, double limit_s) {
  patience p = {.turns = TURNS_OF_CHECK, .idle_s = idle_since_s, .longest_sleep_s = LONGEST_IDLE_SLEEP_S};
  const double end_s = tri_clock_s() + limit_s;
  while (tri_clock_s() < end_s) {
    bool moved = false;
    TRI_TRY(go_on(&moved));
    for (int i = 0; i < count; i++) {
      if (requests[i] != NULL && requests[i]->done) return TRI_OK;
    }
    if (moved) p.turns = 0;
    TRI_TRY(tri_comm_waiting(NULL, &p));
  }
  return TRI_OK;
}
