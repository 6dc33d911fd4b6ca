#include "device/emulated/emulator.h"

#include "base/memory.h"
#include "device/emulated/fiber.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  MOST_THREADS = 1024,
  MOST_SHARED = 8,          /* maximum pieces of shared memory that a kernel declares */
  SHARED_BYTES = 256 << 10, /* bytes of shared memory; more than any chip has */
  MOST_COPIES = 256,        /* maximum asynchronous copies of a thread that have not been waited for */
  SHARE_ROUNDS = 3          /* buffers of tri_emulator_share */
};

typedef enum waiting { WAITING_FOR_NOTHING, WAITING_FOR_BLOCK, WAITING_FOR_WARP, WAITING_NO_MORE } waiting;

typedef struct copy {
  void *to;
  const void *from;
  int group; /* number of the thread's calls of tri_emulator_copy_commit before the copy */
} copy;

typedef struct emulated_thread {
  tri_emulator_thread self; /* first member: the kernel's pointer to it is also the thread's address */
  tri_emulator *emulator;
  waiting waiting;
  const char *file; /* source position of the wait */
  int line;
  unsigned shared_rounds;     /* number of the thread's calls of tri_emulator_share in this block */
  int first_copy, num_copies, /* range of `copies` that has not arrived */
      group;                  /* number of the thread's calls of tri_emulator_copy_commit in this block */
  copy *copies; /* a ring of MOST_COPIES; allocated separately, so that threads are close to each other in memory */
} emulated_thread;

typedef struct emulated_warp {
  int arrived; /* number of lanes that have reached a barrier of the warp */
  _Alignas(16) unsigned char given[SHARE_ROUNDS][64][TRI_EMULATOR_SHARE_BYTES];
} emulated_warp;

/* A piece of shared memory is at the end of its mapping, before an inaccessible page. */
typedef struct shared_piece {
  char *mapping;
  const void *place; /* declaration in the source, which identifies the piece */
  void *memory;
} shared_piece;

struct tri_emulator {
  int warp;             /* threads of a warp */
  uint64_t seed, drawn; /* seed, and number of draws so far */
  tri_fiber *fibers;
  emulated_thread *threads;
  copy *copies;
  emulated_warp *warps;
  int order[MOST_THREADS]; /* threads in the order in which they are visited */
  const tri_emulator_launch *launch;
  int arrived, /* number of threads that have reached a barrier of the block */
      ended;   /* number of threads that have ended */
  shared_piece shared[MOST_SHARED];
  int num_shared;
  bool failed;
  tri_saved_error fault; /* error of the thread that gave up, if `failed` */
};

_Thread_local const tri_emulator_thread *tri_emulator_now;

static emulated_thread *own_thread(void) { return (emulated_thread *)(uintptr_t)tri_emulator_now; }

/* Returns a random number below `below`: a hash of the seed and of the count of draws (the finaliser of SplitMix64).
 * Each block draws its own order. */
static uint32_t draw(tri_emulator *e, uint32_t below) {
  uint64_t z = e->seed * 0xd1342543de82ef95u + ++e->drawn * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z >> 32) * below >> 32);
}

/* ---- failure of a block ------------------------------------------------------------------------------------------ */

/* Ends the running thread with an error, and does not return. */
static void give_up(emulated_thread *t) {
  tri_error_save(&t->emulator->fault, TRI_DEVICE_FAILED);
  t->emulator->failed = true;
  t->waiting = WAITING_NO_MORE;
  tri_fiber_leave(t->emulator->fibers, t->self.thread);
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static void differ(emulated_thread *t, const emulated_thread *other) {
  (void)tri_fail(TRI_DEVICE_FAILED,
                 "threads that should meet came to different places: thread %d to %s:%d, thread %d to %s:%d",
                 t->self.thread, file_name(t->file), t->line, other->self.thread, file_name(other->file), other->line);
  give_up(t);
}

/* Reports a deadlock: no thread can continue, and some wait. */
static tri_status stuck(const tri_emulator *e) {
  const emulated_thread *waits = NULL, *ended = NULL;
  for (int i = 0; i < (int)e->launch->threads; i++) {
    const emulated_thread *t = &e->threads[i];
    switch (t->waiting) {
      case WAITING_FOR_BLOCK:
      case WAITING_FOR_WARP: waits = waits == NULL ? t : waits; break;
      case WAITING_NO_MORE: ended = ended == NULL ? t : ended; break;
      case WAITING_FOR_NOTHING: break;
    }
  }
  if (waits == NULL) return tri_fail_internal("the emulator lost its threads: a mistake of this program's");
  if (ended == NULL) {
    return tri_fail(TRI_DEVICE_FAILED, "thread %d waits at %s:%d for threads that wait elsewhere", waits->self.thread,
                    file_name(waits->file), waits->line);
  }
  return tri_fail(TRI_DEVICE_FAILED, "thread %d waits at %s:%d, but thread %d ended without coming there",
                  waits->self.thread, file_name(waits->file), waits->line, ended->self.thread);
}

/* ---- barriers ---------------------------------------------------------------------------------------------------- */

static void go_on(emulated_thread *first, int count) {
  for (int i = 0; i < count; i++) first[i].waiting = WAITING_FOR_NOTHING;
}

/* Waits at a barrier of the `count` threads from `first` on; *arrived counts them. The last thread to arrive checks
 * that all came to the same place in the source. */
static void meet(emulated_thread *t, emulated_thread *first, int count, int *arrived, waiting what, const char *file,
                 int line) {
  t->file = file;
  t->line = line;
  t->waiting = what;
  if (++*arrived < count) {
    tri_fiber_leave(t->emulator->fibers, t->self.thread);
    tri_emulator_now = &t->self;
    return;
  }
  for (int i = 0; i < count; i++) {
    if (first[i].line != line || (first[i].file != file && strcmp(first[i].file, file) != 0)) differ(t, &first[i]);
  }
  *arrived = 0;
  go_on(first, count);
}

void tri_emulator_barrier(const char *file, int line) {
  emulated_thread *t = own_thread();
  tri_emulator *e = t->emulator;
  meet(t, e->threads, (int)e->launch->threads, &e->arrived, WAITING_FOR_BLOCK, file, line);
}

static void meet_warp(emulated_thread *t, const char *file, int line) {
  tri_emulator *e = t->emulator;
  int warp = t->self.thread / e->warp;
  meet(t, &e->threads[warp * e->warp], e->warp, &e->warps[warp].arrived, WAITING_FOR_WARP, file, line);
}

void tri_emulator_warp_barrier(const char *file, int line) { meet_warp(own_thread(), file, line); }

/* Uses three buffers in turn. No lane is more than one round ahead of another, so a lane does not overwrite the values
 * that a slower lane has received in this round or the round before. */
const void *tri_emulator_share(const void *own, size_t bytes, const char *file, int line) {
  emulated_thread *t = own_thread();
  emulated_warp *w = &t->emulator->warps[t->self.thread / t->emulator->warp];
  unsigned char *given = &w->given[t->shared_rounds++ % SHARE_ROUNDS][0][0];
  memcpy(given + (size_t)(t->self.thread % t->emulator->warp) * bytes, own, bytes);
  meet_warp(t, file, line);
  return given;
}

float tri_emulator_shuffle_float(float x, int mask, const char *file, int line) {
  const float *all = tri_emulator_share(&x, sizeof x, file, line);
  return all[(own_thread()->self.thread % own_thread()->emulator->warp) ^ mask];
}

double tri_emulator_shuffle_double(double x, int mask, const char *file, int line) {
  const double *all = tri_emulator_share(&x, sizeof x, file, line);
  return all[(own_thread()->self.thread % own_thread()->emulator->warp) ^ mask];
}

int tri_emulator_shuffle_int(int x, int mask, const char *file, int line) {
  const int *all = tri_emulator_share(&x, sizeof x, file, line);
  return all[(own_thread()->self.thread % own_thread()->emulator->warp) ^ mask];
}

/* ---- shared memory ----------------------------------------------------------------------------------------------- */

/* Fills memory with 0x7ff4, which is NaN in every floating-point type. */
static void poison(void *memory, size_t bytes) {
  static const unsigned char pattern[8] = {0xf4, 0x7f, 0xf4, 0x7f, 0xf4, 0x7f, 0xf4, 0x7f};
  unsigned char *to = memory;
  size_t i = 0;
  for (; i + sizeof pattern <= bytes; i += sizeof pattern) memcpy(to + i, pattern, sizeof pattern);
  memcpy(to + i, pattern, bytes - i);
}

void *tri_emulator_shared(const void *place, size_t bytes) {
  emulated_thread *t = own_thread();
  tri_emulator *e = t->emulator;
  for (int i = 0; i < e->num_shared; i++) {
    if (e->shared[i].place == place) return e->shared[i].memory;
  }
  if (e->num_shared == MOST_SHARED || bytes > SHARED_BYTES) {
    (void)tri_fail(TRI_DEVICE_FAILED,
                   "a kernel declares %d pieces of shared memory, the last of %zu bytes; there may be %d of %d",
                   e->num_shared + 1, bytes, MOST_SHARED, SHARED_BYTES);
    give_up(t);
  }
  shared_piece *piece = &e->shared[e->num_shared++];
  piece->place = place;
  piece->memory = piece->mapping + SHARED_BYTES - (bytes + 15) / 16 * 16;
  poison(piece->memory, bytes);
  return piece->memory;
}

void *tri_emulator_shared_asked(size_t bytes) {
  static const char place = 0;
  emulated_thread *t = own_thread();
  if (bytes > t->emulator->launch->shared_bytes) {
    (void)tri_fail(TRI_DEVICE_FAILED, "a kernel takes %zu bytes of shared memory, but its launch asked for %zu", bytes,
                   t->emulator->launch->shared_bytes);
    give_up(t);
  }
  return tri_emulator_shared(&place, t->emulator->launch->shared_bytes);
}

/* ---- asynchronous copies ----------------------------------------------------------------------------------------- */

void tri_emulator_copy(void *to_shared, const void *from) {
  emulated_thread *t = own_thread();
  if (((uintptr_t)to_shared | (uintptr_t)from) % 16 != 0 || t->num_copies == MOST_COPIES) {
    (void)tri_fail(TRI_DEVICE_FAILED,
                   "thread %d copies 16 bytes asynchronously from %p to %p, its %dth; both are aligned to 16, and "
                   "there may be %d at a time",
                   t->self.thread, from, to_shared, t->num_copies + 1, MOST_COPIES);
    give_up(t);
  }
  t->copies[(t->first_copy + t->num_copies++) % MOST_COPIES] = (copy){to_shared, from, t->group};
  poison(to_shared, 16);
}

void tri_emulator_copy_commit(void) { own_thread()->group++; }

void tri_emulator_copy_wait(int pending) {
  emulated_thread *t = own_thread();
  while (t->num_copies > 0 && t->copies[t->first_copy].group < t->group - pending) {
    const copy *c = &t->copies[t->first_copy];
    memcpy(c->to, c->from, 16);
    t->first_copy = (t->first_copy + 1) % MOST_COPIES;
    t->num_copies--;
  }
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void thread_entry(void *argument) {
  emulated_thread *t = argument;
  tri_emulator_now = &t->self;
  t->emulator->launch->kernel(t->emulator->launch->arguments);
  t->waiting = WAITING_NO_MORE;
  t->emulator->ended++;
  tri_fiber_leave(t->emulator->fibers, t->self.thread);
}

static void begin_block(tri_emulator *e, const uint32_t block[3]) {
  const tri_emulator_launch *l = e->launch;
  e->arrived = e->ended = e->num_shared = 0;
  for (int i = 0; i < (int)l->threads; i++) {
    emulated_thread *t = &e->threads[i];
    t->self = (tri_emulator_thread){i, (int)l->threads, {block[0], block[1], block[2]}, l->grid[0]};
    t->waiting = WAITING_FOR_NOTHING;
    t->shared_rounds = 0;
    t->first_copy = t->num_copies = t->group = 0;
    tri_fiber_begin(e->fibers, i, thread_entry, t);
    e->order[i] = i;
  }
  for (int w = 0; w < (int)l->threads / e->warp; w++) e->warps[w].arrived = 0;
  for (int i = (int)l->threads - 1; i > 0 && e->seed != 0; i--) {
    int j = (int)draw(e, (uint32_t)i + 1), swapped = e->order[i];
    e->order[i] = e->order[j];
    e->order[j] = swapped;
  }
}

static tri_status run_block(tri_emulator *e, const uint32_t block[3]) {
  const int threads = (int)e->launch->threads;
  begin_block(e, block);
  while (e->ended < threads) {
    int begin = e->seed == 0 ? 0 : (int)draw(e, (uint32_t)threads), step = e->seed % 2 == 0 ? 1 : threads - 1;
    bool some = false;
    for (int n = 0, i = begin; n < threads; n++, i = i + step < threads ? i + step : i + step - threads) {
      if (e->threads[e->order[i]].waiting != WAITING_FOR_NOTHING) continue;
      some = true;
      tri_fiber_enter(e->fibers, e->order[i]);
      if (e->failed) return tri_saved_error_restore(&e->fault);
    }
    if (!some) return stuck(e);
  }
  return TRI_OK;
}

/* Returns a random number from 1 to `of` that is coprime to it. */
static uint64_t coprime(tri_emulator *e, uint64_t of) {
  for (;;) {
    uint64_t candidate = 1 + draw(e, (uint32_t)(of < UINT32_MAX ? of : UINT32_MAX)), a = candidate, b = of;
    while (b != 0) {
      uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return candidate;
  }
}

static tri_status check_launch(const tri_emulator *e, const tri_emulator_launch *l) {
  if (l->grid[0] == 0 || l->grid[1] == 0 || l->grid[2] == 0 || l->threads == 0 || l->threads > MOST_THREADS ||
      l->threads % (uint32_t)e->warp != 0 || l->grid[0] > INT32_MAX || l->grid[1] > UINT16_MAX ||
      l->grid[2] > UINT16_MAX || l->shared_bytes > SHARED_BYTES) {
    return tri_fail(
        TRI_DEVICE_FAILED,
        "a launch of %u x %u x %u blocks of %u threads and %zu bytes of shared memory is not one that a GPU takes",
        l->grid[0], l->grid[1], l->grid[2], l->threads, l->shared_bytes);
  }
  return TRI_OK;
}

tri_status tri_emulator_run(tri_emulator *e, const tri_emulator_launch *l) {
  TRI_TRY(check_launch(e, l));
  const uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
  const uint64_t step = e->seed == 0 ? 1 : coprime(e, blocks);
  uint64_t at = e->seed == 0 ? 0 : draw(e, (uint32_t)(blocks < UINT32_MAX ? blocks : UINT32_MAX));
  const tri_emulator_thread *before = tri_emulator_now;
  tri_status status = TRI_OK;
  e->launch = l;
  e->failed = false;
  e->fault.status = TRI_OK;
  for (uint64_t i = 0; i < blocks && status == TRI_OK; i++, at = (at + step) % blocks) {
    const uint32_t block[3] = {(uint32_t)(at % l->grid[0]), (uint32_t)(at / l->grid[0] % l->grid[1]),
                               (uint32_t)(at / l->grid[0] / l->grid[1])};
    status = run_block(e, block);
  }
  tri_emulator_now = before;
  return status;
}

/* ---- creation and destruction ------------------------------------------------------------------------------------ */

static tri_status map_shared(shared_piece *piece) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *mapping =
      mmap(NULL, SHARED_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return tri_fail(TRI_OUT_OF_MEMORY, "the system does not give %d bytes of memory", SHARED_BYTES);
  mprotect(mapping + SHARED_BYTES, page, PROT_NONE);
  piece->mapping = mapping;
  return TRI_OK;
}

static tri_status allocate_emulator(tri_emulator *e) {
  for (int i = 0; i < MOST_SHARED; i++) TRI_TRY(map_shared(&e->shared[i]));
  TRI_TRY(tri_alloc("threads of the emulator", MOST_THREADS, sizeof *e->threads, &e->threads));
  TRI_TRY(tri_alloc("copies of the emulator", (size_t)MOST_THREADS * MOST_COPIES, sizeof *e->copies, &e->copies));
  for (int i = 0; i < MOST_THREADS; i++) {
    e->threads[i].emulator = e;
    e->threads[i].copies = e->copies + (size_t)i * MOST_COPIES;
  }
  TRI_TRY(tri_alloc("warps of the emulator", (size_t)(MOST_THREADS / e->warp), sizeof *e->warps, &e->warps));
  return tri_fibers_create(MOST_THREADS, &e->fibers);
}

tri_status tri_emulator_create(int warp, uint64_t seed, tri_emulator **out) {
  tri_emulator *e = NULL;
  TRI_TRY(tri_alloc("an emulator", 1, sizeof *e, &e));
  e->warp = warp;
  e->seed = seed;
  tri_status status = allocate_emulator(e);
  if (status == TRI_OK) *out = e;
  if (status != TRI_OK) tri_emulator_destroy(e);
  return status;
}

void tri_emulator_destroy(tri_emulator *e) {
  if (e == NULL) return;
  for (int i = 0; i < MOST_SHARED; i++) {
    if (e->shared[i].mapping != NULL) munmap(e->shared[i].mapping, SHARED_BYTES + (size_t)sysconf(_SC_PAGESIZE));
  }
  tri_fibers_destroy(e->fibers);
  tri_free(e->threads);
  tri_free(e->copies);
  tri_free(e->warps);
  tri_free(e);
}
