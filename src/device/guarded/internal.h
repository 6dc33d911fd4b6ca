/* What the files of the guarded device share. All but the report (report.c) is done under the device's lock. */
#ifndef TRI_DEVICE_GUARDED_INTERNAL_H
#define TRI_DEVICE_GUARDED_INTERNAL_H

#include "device/kernels.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tri_guarded_state tri_guarded_state;
typedef struct tri_guarded_queue tri_guarded_queue;
typedef struct tri_guarded_work tri_guarded_work;

/* ---- memory.c ---------------------------------------------------------------------------------------------------- */

/* What somebody has asked for. The addresses that others know (`given`) and the memory that kernels see (`open`) are
 * two mappings; the first has no access, ever. Host memory has one. Both stay reserved when it is released, so that
 * late work finds what it has lost. */
typedef struct tri_guarded_block {
  struct tri_guarded_block *_Atomic next; /* older */
  char *given, *open;                     /* its first byte */
  size_t bytes;
  int64_t number; /* of the device's, from 1 */
  bool host;
  atomic_bool released;
} tri_guarded_block;

/* Zeroed device memory, and host memory full of poison. Releasing either is the same. */
tri_status tri_guarded_memory_create(tri_guarded_state *state, size_t bytes, void **out);
tri_status tri_guarded_host_create(tri_guarded_state *state, size_t bytes, void **out);
void tri_guarded_memory_release(tri_guarded_state *state, const void *memory);
void tri_guarded_release_all(tri_guarded_state *state);
/* Bytes of device memory that have not been released. */
size_t tri_guarded_memory_held(tri_guarded_state *state);

/* Where kernels find `bytes` (at least one) bytes of device memory; fails for what is not, or no longer, or beyond its
 * end. `what` begins the message: "its argument 3". */
tri_status tri_guarded_open(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes,
                            void **out);
/* The same for an address that may be no device memory of this device's at all: then it stays as it is. */
tri_status tri_guarded_open_if_own(const tri_guarded_state *state, const char *what, const void *memory, void **out);
/* Fails for device memory, and for host memory of this device's that has been released. */
tri_status tri_guarded_check_host(const tri_guarded_state *state, const char *what, const void *memory, size_t bytes);

/* Not a number as fp64, fp32 and bf16, and no token's id as int32. */
void tri_guarded_poison(void *memory, size_t bytes);
bool tri_guarded_is_poison(const void *memory, size_t bytes);

/* ---- queues.c ---------------------------------------------------------------------------------------------------- */

typedef tri_status (*tri_guarded_run)(tri_guarded_queue *queue, const tri_guarded_work *work);

struct tri_guarded_work {
  tri_guarded_work *_Atomic next; /* of the queue */
  const char *what;               /* "kernel `matmul`"; lives as long as the program */
  tri_origin origin;
  tri_guarded_run run;
  const tri_guarded_queue *after; /* begins when that queue has passed that place; or NULL */
  uint64_t after_number;
  const char *told_to_fail; /* the option; or NULL */
  uint64_t count;           /* of its kind: what the option counts */
  const void *kind;         /* whatever `run` knows about */
  _Alignas(16) char data[]; /* the same */
};

struct tri_guarded_queue {
  tri_guarded_queue *_Atomic next; /* of the device */
  tri_queue *queue;
  tri_guarded_state *state;
  tri_guarded_work *_Atomic first, *last; /* what is yet to be done */
  uint64_t queued, done;                  /* counts */
  uint32_t eagerness;                     /* its weight in the present draw */
  uint64_t failed_at;                     /* the place of what failed, from 1 */
  bool told;
  tri_saved_error fault;
};

/* Puts work with room for data_bytes behind all else; for the caller to fill in before it gives up the lock. *out is
 * NULL if the queue has failed: then nothing more is done in it. */
tri_status tri_guarded_queue_work(tri_guarded_queue *queue, const char *what, tri_guarded_run run, size_t data_bytes,
                                  tri_guarded_work **out);

/* For a queue of a device of this state's; what it queues is said to come from there. */
tri_status tri_guarded_queue_create(tri_guarded_state *state, tri_queue *queue, tri_guarded_queue **out);
void tri_guarded_queue_destroy(tri_guarded_queue *queue);
/* The place behind all that is in the queue. */
uint64_t tri_guarded_queue_place(tri_guarded_queue *queue);
/* What is queued from here on begins when the other queue has passed a place. */
tri_status tri_guarded_queue_follow(tri_guarded_queue *queue, const tri_guarded_queue *other, uint64_t place);
/* The host waits until a place is passed, and is told of a fault before it. */
tri_status tri_guarded_queue_reach(tri_guarded_queue *queue, uint64_t place);
/* Whether it is passed. A look lets the device get on a little, so that who looks again and again comes to an end. */
bool tri_guarded_queue_has_passed(tri_guarded_queue *queue, uint64_t place);

/* ---- copy.c ------------------------------------------------------------------------------------------------------ */

tri_status tri_guarded_queue_copy(tri_guarded_queue *queue, const tri_copy *copy);
/* Work has gone: copies that had to wait for it before they could look at host memory do so. */
void tri_guarded_look_at_host(tri_guarded_state *state);
tri_status tri_guarded_queue_undefine(tri_guarded_queue *queue, void *memory, size_t bytes);

/* ---- kernels.c --------------------------------------------------------------------------------------------------- */

/* Those that the reference device has. */
void tri_guarded_fill_kernels(tri_device_kernels *out);

/* ---- report.c ---------------------------------------------------------------------------------------------------- */

/* From here on a touch of this device's memory from outside ends the process with a report. */
void tri_guarded_watch(tri_guarded_state *state);
void tri_guarded_unwatch(tri_guarded_state *state);

/* ---- the device -------------------------------------------------------------------------------------------------- */

enum { TRI_GUARDED_HISTORY = 8 };

/* What has run, for the report. */
typedef struct tri_guarded_past {
  const char *what;
  tri_origin origin;
  uint64_t queue;
} tri_guarded_past;

/* Of the device's name. 0: none. */
typedef struct tri_guarded_options {
  uint64_t seed;
  uint64_t fail_memory, fail_copy, fail_kernel; /* the n-th, from 1 */
  int64_t rank;                                 /* that fails; -1: all */
} tri_guarded_options;

/* `options` as in the name of the device whose kind is `kind`: NAME=NUMBER,... `others`: what that kind has beside
 * these, for messages: "warp, peer, " or "". */
tri_status tri_guarded_options_check(const char *kind, const char *others, const char *options);
tri_status tri_guarded_state_create(const char *kind, const char *others, const char *options, tri_guarded_state **out);
void tri_guarded_state_destroy(tri_guarded_state *state);

/* The lock is held while work runs. Who has it and comes again has jumped out of a crash in there, as a test
 * framework's handler of SIGSEGV does: it would wait for itself. The process says so and ends. */
void tri_guarded_lock(tri_guarded_state *state);
void tri_guarded_unlock(tri_guarded_state *state);

struct tri_guarded_state {
  pthread_mutex_t lock;
  tri_guarded_options options;
  tri_device_kernels kernels;
  tri_guarded_state *_Atomic next_watched;
  tri_guarded_block *_Atomic blocks; /* newest first */
  int64_t num_blocks;
  uintptr_t next_given; /* where addresses of device memory are looked for next; 0 before the first */
  tri_guarded_queue *_Atomic queues;
  uint64_t memories, copies, kernels_queued; /* so far: what options count */
  int64_t unseeing;                          /* copies that have yet to look at host memory, at most */
  tri_random_key random;
  uint64_t drawn;
  tri_guarded_past past[TRI_GUARDED_HISTORY];
  uint64_t num_past;
  atomic_bool running; /* the newest of the past */
};

/* Below `below`, from the device's seed. */
uint32_t tri_guarded_draw(tri_guarded_state *state, uint32_t below);

/* "1st", "2nd", ...: writes into buffer and returns it. */
char *tri_guarded_ordinal(uint64_t number, char buffer[32]);

#endif
