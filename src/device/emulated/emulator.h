/* Runs GPU kernels on the CPU. Each thread of a block is a fiber; the blocks run one after the other, and the fibers of
 * a block switch at barriers and shuffles. Both orders are random, from a seed, so that results which depend on them
 * differ.
 *
 * The launch fails with an error message if threads of a block reach different barriers, or if some end while others
 * wait. Shared memory is filled with NaN when a block first uses it, and ends at an inaccessible page. Asynchronous
 * copies arrive only when they are waited for. The emulator does not detect bank conflicts, races between two switches,
 * or reordering by the memory model of a GPU. */
#ifndef TRI_DEVICE_EMULATED_EMULATOR_H
#define TRI_DEVICE_EMULATED_EMULATOR_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* ---- for kernels (primitives_host.h) ----------------------------------------------------------------------------- */

/* Indices and sizes of a thread's block and grid; tri_emulator_now points to those of the running fiber. */
typedef struct tri_emulator_thread {
  int thread,       /* index of the thread in its block */
      threads;      /* threads of the block */
  int64_t block[3], /* index of the block in the grid */
      blocks_x;     /* blocks of the grid in the first dimension */
} tri_emulator_thread;

extern _Thread_local const tri_emulator_thread *tri_emulator_now;

/* Return the block's piece of shared memory: the piece that the source declares at `place`, and the dynamic one. An
 * error ends the launch. */
void *tri_emulator_shared(const void *place, size_t bytes);
void *tri_emulator_shared_asked(size_t bytes);
void tri_emulator_barrier(const char *file, int line);
void tri_emulator_warp_barrier(const char *file, int line);
float tri_emulator_shuffle_float(float x, int mask, const char *file, int line);
double tri_emulator_shuffle_double(double x, int mask, const char *file, int line);
int tri_emulator_shuffle_int(int x, int mask, const char *file, int line);
/* Copies 16 bytes, which arrive when the thread waits for the group of copies; until then the destination has
 * poison. Both addresses are aligned to 16. */
void tri_emulator_copy(void *to_shared, const void *from);
/* Ends a group of copies. */
void tri_emulator_copy_commit(void);
/* Waits for all groups except the last `pending`. */
void tri_emulator_copy_wait(int pending);

/* Shares `bytes` bytes of this lane, at most TRI_EMULATOR_SHARE_BYTES, with its warp. Returns the bytes of all lanes,
 * `bytes` apart, which are valid until this lane's second call after this one. For operations of a whole warp
 * (fragment.h). */
enum { TRI_EMULATOR_SHARE_BYTES = 64 };
const void *tri_emulator_share(const void *own, size_t bytes, const char *file, int line);

/* ---- for launching ----------------------------------------------------------------------------------------------- */

typedef struct tri_emulator tri_emulator;
typedef void tri_emulator_kernel(const void *arguments);

typedef struct tri_emulator_launch {
  tri_emulator_kernel *kernel;
  const void *arguments;
  uint32_t grid[3];
  uint32_t threads;    /* threads of a block: a multiple of the warp, at most 1024 */
  size_t shared_bytes; /* dynamic shared memory, in addition to the memory that the kernel declares */
} tri_emulator_launch;

/* Creates an emulator. `warp`: the size of a warp for which its kernels were compiled. seed 0: blocks and threads run
 * in order. */
tri_status tri_emulator_create(int warp, uint64_t seed, tri_emulator **out);
void tri_emulator_destroy(tri_emulator *emulator);

/* Runs a launch to its end. Fails with TRI_DEVICE_FAILED for sizes that no GPU supports and for mistakes of the
 * kernel. Launches of an emulator must not run at the same time. */
tri_status tri_emulator_run(tri_emulator *emulator, const tri_emulator_launch *launch);

#endif
