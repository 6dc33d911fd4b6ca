/* Types and functions that the files of the guarded device share. The device's lock is held while work is queued and
 * while it runs: tri_guarded_queue_work, tri_guarded_draw, tri_guarded_look_at_host and the functions that look up
 * memory (tri_guarded_open...) must be called with the lock held; all other functions take it, except
 * tri_guarded_release_all, which runs when no other function does. The report (report.c) reads without the lock. */
#ifndef TRI_DEVICE_GUARDED_INTERNAL_H
#define TRI_DEVICE_GUARDED_INTERNAL_H

#include "device/kernels.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tri_guarded_state tri_guarded_state;
typedef struct tri_guarded_queue tri_guarded_queue;
typedef struct tri_guarded_work tri_guarded_work;

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* An allocation. The addresses that callers get (`given`) and the memory that kernels access (`open`) are two mappings;
 * the first never allows access. Host memory has only one mapping. The addresses of the newest released blocks stay
 * reserved, so that accesses by late work are recognised. */
typedef struct tri_guarded_block {
  struct tri_guarded_block *_Atomic next; /* next older allocation */
  char *given, *open;                     /* address of the first byte in each mapping */
  size_t bytes;
  int64_t number; /* index among the device's allocations, from 1 */
  bool host;
  atomic_bool released;
  int64_t release; /* index among the releases, from 1; 0: not released */
} tri_guarded_block;

/* Allocate zeroed device memory, and host memory filled with poison. tri_guarded_memory_release releases both. Fail
 * with TRI_OUT_OF_MEMORY; for device memory also if the option fail_memory requests it. */
tri_status tri_guarded_memory_create(tri_guarded_state *state, size_t bytes, void **out);
tri_status tri_guarded_host_create(tri_guarded_state *state, size_t bytes, void **out);
void tri_guarded_memory_release(tri_guarded_state *state, const void *memory);
void tri_guarded_release_all(tri_guarded_state *state);
/* Returns the bytes of device memory that have not been released. */
size_t tri_guarded_memory_held(tri_guarded_state *state);

/* Sets *out to the address at which kernels access the device memory [memory, memory + bytes). Fails with
 * TRI_INTERNAL if `memory` is not in device memory, if that memory has been released, or if it has fewer bytes after
 * this address. If `bytes` is 0, only the address is checked. `what` begins the error message: "its argument 3". */
tri_status tri_guarded_open(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes,
                            void **out);
/* Does the same as tri_guarded_open for one byte, but sets *out to `memory` itself if that is not device memory of
 * this device. */
tri_status tri_guarded_open_if_own(const tri_guarded_state *state, const char *what, const void *memory, void **out);
/* Fails with TRI_INTERNAL for device memory, and for host memory of this device that has been released or has fewer
 * than `bytes` bytes after this address. */
tri_status tri_guarded_check_host(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes);

/* Fills memory with poison: bytes that are NaN as fp64, fp32 and bf16, and not a token id as int32. */
void tri_guarded_poison(void *memory, size_t bytes);
/* Returns whether all bytes are poison. */
bool tri_guarded_is_poison(const void *memory, size_t bytes);

/* ---- queues.c ---------------------------------------------------------------------------------------------------- */

typedef tri_status (*tri_guarded_run)(tri_guarded_queue *queue, const tri_guarded_work *work);

struct tri_guarded_work {
  tri_guarded_work *_Atomic next; /* next in the queue */
  const char *what;               /* name for messages, such as "kernel `matmul`"; a string constant */
  tri_origin origin;
  tri_guarded_run run;
  const tri_guarded_queue *after; /* queue that must have passed the place after_number before this work begins;
                                     NULL: no such queue */
  uint64_t after_number;
  const char *told_to_fail; /* option that makes this work fail; NULL: none */
  uint64_t count;           /* index among the device's copies or kernels, from 1, as fail_copy and fail_kernel count */
  const void *kind;         /* description of the kernel, for `run`; NULL: the work is not a kernel */
  _Alignas(16) char data[]; /* arguments of the work, for `run` */
};

struct tri_guarded_queue {
  tri_guarded_queue *_Atomic next; /* next queue of the device */
  tri_queue *queue;
  tri_guarded_state *state;
  tri_guarded_work *_Atomic first, *last; /* first and last item of incomplete work */
  uint64_t queued, done;                  /* number of items queued and completed so far */
  uint32_t eagerness;                     /* weight in the random choice of the next queue to advance */
  uint64_t failed_at;                     /* place of the work that failed, from 1; 0: none */
  bool reported;                          /* whether a wait has returned the error */
  tri_saved_error fault;
};

/* Appends work with data_bytes of data; the caller writes the data before it releases the lock. *out is NULL if the
 * queue has failed: no further work runs in it. */
tri_status tri_guarded_queue_work(tri_guarded_queue *queue, const char *what, tri_guarded_run run, size_t data_bytes,
                                  tri_guarded_work **out);

/* Creates a queue. `queue` is the queue of a device with this state, and has the origin of the work.
 * tri_guarded_queue_destroy runs the queue's remaining work, and logs a warning if work failed that was not waited
 * for. */
tri_status tri_guarded_queue_create(tri_guarded_state *state, tri_queue *queue, tri_guarded_queue **out);
void tri_guarded_queue_destroy(tri_guarded_queue *queue);
/* Returns the place (number) that the queue passes when all work that is in it now is complete. */
uint64_t tri_guarded_queue_place(tri_guarded_queue *queue);
/* Makes work that is queued from now on wait until the queue `other` has passed the place `place`. */
tri_status tri_guarded_queue_follow(tri_guarded_queue *queue, const tri_guarded_queue *other, uint64_t place);
/* Waits until a place is passed; returns the error of work before it. Fails with TRI_INTERNAL if the place can never
 * be passed. */
tri_status tri_guarded_queue_reach(tri_guarded_queue *queue, uint64_t place);
/* Returns whether a place is passed. Each call advances the device a little, so that polling ends. */
bool tri_guarded_queue_has_passed(tri_guarded_queue *queue, uint64_t place);

/* ---- copy.c ------------------------------------------------------------------------------------------------------ */

/* Queues a copy, and examines the host's side of it. */
tri_status tri_guarded_queue_copy(tri_guarded_queue *queue, const tri_copy *copy);
/* Lets copies examine host memory if they have waited for work that is now complete. Called after each completed work.
 */
void tri_guarded_look_at_host(tri_guarded_state *state);
/* Queues work that fills device memory with poison. */
tri_status tri_guarded_queue_undefine(tri_guarded_queue *queue, void *memory, size_t bytes);

/* ---- kernels.c --------------------------------------------------------------------------------------------------- */

/* Sets the entries of kernels that the reference device has. */
void tri_guarded_fill_kernels(tri_device_kernels *out);

/* ---- report.c ---------------------------------------------------------------------------------------------------- */

/* Starts to watch: until unwatch, a forbidden access to this device's memory ends the process with a report. */
void tri_guarded_watch(tri_guarded_state *state);
void tri_guarded_unwatch(tri_guarded_state *state);

/* ---- the device -------------------------------------------------------------------------------------------------- */

enum { TRI_GUARDED_HISTORY = 8 };

/* Work that has run, for the report. */
typedef struct tri_guarded_past {
  const char *what;
  tri_origin origin;
  uint64_t queue;
} tri_guarded_past;

/* Options in the device's name. */
typedef struct tri_guarded_options {
  uint64_t seed;
  uint64_t fail_memory, fail_copy,
      fail_kernel; /* number of the allocation, copy or kernel that fails, from 1; 0: none */
  int64_t rank;    /* rank on which the allocation, copy or kernel fails; -1: all ranks */
} tri_guarded_options;

/* Checks the options in the name of a device of the kind `kind`: NAME=NUMBER,... `others`: further options of that
 * kind, for messages: "warp, peer, " or "". Fails with TRI_BAD_CONFIG if an option is unknown or its value is
 * illegal. */
tri_status tri_guarded_options_check(const char *kind, const char *others, const char *options);
/* Creates a state with these options, and starts to watch its memory. Fails with TRI_BAD_CONFIG if an option is
 * illegal. tri_guarded_state_destroy releases all memory of the device, too. */
tri_status tri_guarded_state_create(const char *kind, const char *others, const char *options, tri_guarded_state **out);
void tri_guarded_state_destroy(tri_guarded_state *state);

/* Takes the lock, which is held while work runs. If the thread that holds it takes it again, it has jumped out of a
 * crash in such work, as a test framework's handler of SIGSEGV does, and would deadlock: the process ends with an error
 * message. */
void tri_guarded_lock(tri_guarded_state *state);
void tri_guarded_unlock(tri_guarded_state *state);

struct tri_guarded_state {
  pthread_mutex_t lock;
  tri_guarded_options options;
  tri_device_kernels kernels;
  tri_guarded_state *_Atomic next_watched;
  tri_guarded_block *_Atomic blocks; /* list of allocations, newest first */
  int64_t num_blocks, num_releases;
  uintptr_t next_given; /* next address to try for device memory; 0 before the first */
  tri_guarded_queue *_Atomic queues;
  uint64_t memories, copies, kernels_queued; /* number of allocations, copies and kernels so far, for the options */
  int64_t unseeing;                          /* upper bound of copies that have not yet examined host memory */
  tri_random_key random;
  uint64_t drawn;                             /* number of random numbers drawn so far */
  tri_guarded_past past[TRI_GUARDED_HISTORY]; /* ring of the newest work */
  uint64_t num_past;
  atomic_bool running; /* whether the newest work in `past` is still running */
};

/* Returns a random number below `below`, from the device's seed. */
uint32_t tri_guarded_draw(tri_guarded_state *state, uint32_t below);

/* Writes "1st", "2nd", ... Returns buffer. */
char *tri_guarded_ordinal(uint64_t number, char buffer[32]);

#endif
