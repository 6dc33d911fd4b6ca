/* Parallel loops that end when their chunks are done. OpenMP's loops end when all threads have reached their end: if
 * other processes run on the same cores, each loop then waits for a preempted thread, even for one that had nothing to
 * do. Here the caller processes chunks as the helpers do, so a helper that is not running costs only its share of the
 * work; the caller waits only for chunks that a helper has begun.
 *
 * The word `claims` has the number of the loop in its upper half and the number of unclaimed chunks in its lower half.
 * A thread that decrements it has claimed a chunk of that loop, and the loop cannot end before that chunk is done: so
 * `body`, `context` and `chunks` are read after a claim, and need no atomics. A helper that was preempted between
 * reading the word and decrementing it finds another number, or fewer chunks, and fails.
 *
 * A waiting thread spins for SPIN_S and then sleeps on a futex. Both sides of a wait write their own word and then read
 * the other's, in sequentially consistent order (seq_cst): either the sleeper sees that there is work, or the other
 * side sees that it sleeps.
 *
 * A child of fork has no helpers, and runs its loops alone. */
#include "device/cpu/regions.h"

#include "base/clock.h"
#include "base/memory.h"

#include <limits.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Time in seconds that a waiting thread spins; longer than the time between two loops of a step. With two threads
 * and no other process, generation is 1.12 times as fast as with OpenMP's loops; with 5 us of spinning it is 0.88
 * times, with 20 us 1.05 times, and with 120 and 300 us 1.12 times as fast. Beside two busy processes 20 and 60 us
 * are the fastest (docs/performance.md). */
#define SPIN_S 60e-6

enum { LINE = 64, SPINS = 32 /* iterations between two reads of the clock */ };

typedef struct helper {
  tri_regions *of;
  pthread_t thread;
  cpu_set_t cores; /* cores of OpenMP's thread of this number, if has_cores */
  bool has_cores;
  int worker;
} helper;

/* Helpers spin on the first cache line, which changes with each claim. The caller spins on `unfinished`, on the second
 * line, which also has the members that are read to run a chunk. */
struct tri_regions {
  alignas(LINE) _Atomic uint64_t claims;
  atomic_bool ends;
  alignas(LINE) _Atomic uint32_t unfinished; /* unfinished chunks of the loop; its caller sleeps on this word */
  atomic_bool caller_sleeps;                 /* whether the caller is asleep */
  atomic_bool busy;
  bool started; /* whether helpers are started; this and the members up to `chunks` are set by the thread that set
                   `busy` */
  int num_helpers;
  tri_region_body *body;
  const void *context;
  int64_t chunks;
  helper *helpers; /* [num_helpers], with room for `threads` */
  int threads;
  _Atomic uint32_t bell;     /* word on which helpers sleep; changes when there is work for them */
  _Atomic uint32_t sleepers; /* helpers that sleep, or are about to */
};

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Sleeps while the word has the value `value`; may return earlier. */
static void sleep_while(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, (void *)word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, int count) {
  syscall(SYS_futex, (void *)word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void pause_thread(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool is_over(tri_regions *r) { return atomic_load(&r->unfinished) == 0; }
static bool has_work(tri_regions *r) { return (uint32_t)atomic_load(&r->claims) != 0 || atomic_load(&r->ends); }

/* Spins; returns whether `wanted` became true. */
static bool spin_until(bool (*wanted)(tri_regions *r), tri_regions *r) {
  if (wanted(r)) return true;
  const double end_s = tri_clock_s() + SPIN_S;
  do {
    for (int i = 0; i < SPINS; i++) {
      pause_thread();
      if (wanted(r)) return true;
    }
  } while (tri_clock_s() < end_s);
  return false;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

/* Claims a chunk. Sets *left to the number of chunks that were unclaimed, this one included. Returns false if no
 * chunk is left. */
static bool claim(tri_regions *r, int64_t *left) {
  uint64_t seen = atomic_load(&r->claims);
  while ((uint32_t)seen != 0) {
    if (atomic_compare_exchange_weak(&r->claims, &seen, seen - 1)) {
      *left = (uint32_t)seen;
      return true;
    }
  }
  return false;
}

static void run_chunks(tri_regions *r, int worker) {
  for (int64_t left = 0; claim(r, &left);) {
    r->body(r->context, r->chunks - left, worker);
    if (atomic_fetch_sub(&r->unfinished, 1) == 1 && atomic_load(&r->caller_sleeps)) wake(&r->unfinished, 1);
  }
}

static void run_alone(int64_t chunks, tri_region_body *body, const void *context) {
  for (int64_t chunk = 0; chunk < chunks; chunk++) body(context, chunk, 0);
}

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

static void *help(void *context) {
  const helper *h = context;
  tri_regions *r = h->of;
  while (!atomic_load(&r->ends)) {
    run_chunks(r, h->worker);
    if (spin_until(has_work, r)) continue;
    const uint32_t bell = atomic_load(&r->bell);
    atomic_fetch_add(&r->sleepers, 1);
    if (!has_work(r)) sleep_while(&r->bell, bell);
    atomic_fetch_sub(&r->sleepers, 1);
  }
  return NULL;
}

static void ring(tri_regions *r, int count) {
  atomic_fetch_add(&r->bell, 1);
  wake(&r->bell, count);
}

static bool start_helper(helper *h) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  if (h->has_cores) pthread_attr_setaffinity_np(&attributes, sizeof h->cores, &h->cores);
  const bool started = pthread_create(&h->thread, &attributes, help, h) == 0;
  pthread_attr_destroy(&attributes);
  return started;
}

/* Starts as many helpers as OpenMP would use, on the same cores; fewer if the system has no more threads. Helpers block
 * all signals except those of a fault in a body. */
static void start_helpers(tri_regions *r) {
  int given = 1;
#pragma omp parallel num_threads(r->threads)
  {
    const int thread = omp_get_thread_num();
    if (thread == 0) given = omp_get_num_threads();
    if (thread > 0) {
      helper *h = &r->helpers[thread - 1];
      h->has_cores = sched_getaffinity(0, sizeof h->cores, &h->cores) == 0;
    }
  }
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
  sigset_t blocked, old;
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) sigdelset(&blocked, faults[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &old);
  for (int i = 0; i < given - 1; i++) {
    r->helpers[i].of = r;
    r->helpers[i].worker = i + 1;
    if (!start_helper(&r->helpers[i])) break;
    r->num_helpers++;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  r->started = true;
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static void run_shared(tri_regions *r, int64_t chunks, tri_region_body *body, const void *context) {
  r->body = body;
  r->context = context;
  r->chunks = chunks;
  atomic_store(&r->unfinished, (uint32_t)chunks);
  atomic_store(&r->claims, ((atomic_load(&r->claims) >> 32) + 1) << 32 | (uint64_t)chunks);
  if (atomic_load(&r->sleepers) > 0) ring(r, chunks > INT_MAX ? INT_MAX : (int)chunks - 1);
  run_chunks(r, 0);
  if (spin_until(is_over, r)) return;
  atomic_store(&r->caller_sleeps, true);
  for (uint32_t left; (left = atomic_load(&r->unfinished)) != 0;) sleep_while(&r->unfinished, left);
  atomic_store(&r->caller_sleeps, false);
}

void tri_regions_run(tri_regions *regions, int64_t chunks, tri_region_body *body, const void *context) {
  if (regions == NULL || regions->threads == 1 || chunks <= 1 || chunks > UINT32_MAX ||
      atomic_exchange(&regions->busy, true)) {
    run_alone(chunks, body, context);
    return;
  }
  if (!regions->started && !omp_in_parallel()) start_helpers(regions);
  if (regions->num_helpers > 0) {
    run_shared(regions, chunks, body, context);
  } else {
    run_alone(chunks, body, context);
  }
  atomic_store(&regions->busy, false);
}

int tri_regions_threads(const tri_regions *regions) { return regions->threads; }

tri_status tri_regions_create(int threads, tri_regions **out) {
  tri_regions *r = NULL;
  TRI_TRY(tri_alloc("the threads of a device", 1, sizeof *r, &r));
  tri_status status = tri_alloc("the threads of a device", (size_t)threads, sizeof(helper), &r->helpers);
  if (status != TRI_OK) {
    tri_free(r);
    return status;
  }
  r->threads = threads;
  *out = r;
  return TRI_OK;
}

void tri_regions_destroy(tri_regions *regions) {
  if (regions == NULL) return;
  atomic_store(&regions->ends, true);
  ring(regions, INT_MAX);
  for (int i = 0; i < regions->num_helpers; i++) pthread_join(regions->helpers[i].thread, NULL);
  tri_free(regions->helpers);
  tri_free(regions);
}
