/* Shared by the tests of the emulator: a function that runs a small kernel. The tests' kernels are written and compiled
 * as all kernels are (kernels/primitives.h), for a warp of 32. */
#ifndef TRI_TESTS_EMULATOR_TEST_H
#define TRI_TESTS_EMULATOR_TEST_H

#include "check.h"

#include "device/emulated/emulator.h"
#include "device/kernels.h"

#define TRI_GPU_TYPE 32
#define TRI_GPU_WARP 32
#include "device/gpu/kernels/primitives.h"

enum { MOST = 1024, NUM_SEEDS = 8 };

typedef struct shape {
  int warp;
  uint64_t seed;
  uint32_t x, y, z, threads;
  size_t shared_bytes;
} shape;

static inline tri_status run_on(tri_emulator *emulator, const shape *s, tri_emulator_kernel *kernel,
                                const void *arguments) {
  const tri_emulator_launch launch = {
      kernel, arguments, {s->x, s->y == 0 ? 1 : s->y, s->z == 0 ? 1 : s->z}, s->threads, s->shared_bytes};
  return tri_emulator_run(emulator, &launch);
}

/* Runs the kernel on an emulator of its own. */
static inline tri_status run(const shape *s, tri_emulator_kernel *kernel, const void *arguments) {
  tri_emulator *emulator = NULL;
  CHECK_OK(tri_emulator_create(s->warp == 0 ? 32 : s->warp, s->seed, &emulator));
  tri_status status = run_on(emulator, s, kernel, arguments);
  tri_emulator_destroy(emulator);
  return status;
}

/* The kernel's symbol, as emulated.c defines it. */
#define SYMBOL(name) tri_emulated_##name##_32_w32

/* Shared memory that kernels declare, and shared memory requested by launches. */
typedef struct numbers {
  float each[MOST];
} numbers;

typedef struct asked {
  float each[100];
} asked;

typedef struct neighbour_arguments {
  float *out;
  int barrier_too; /* false: the kernel lacks its barrier */
} neighbour_arguments;

/* Each thread reads the result of its neighbour. */
KERNEL(neighbour) {
  SHARED(numbers, shared);
  shared->each[thread()] = (float)(thread() * 3 + block_x());
  if (a.barrier_too) barrier();
  a.out[block_x() * threads() + thread()] = shared->each[(thread() + 1) % threads()];
}

static inline int count_wrong(const float *out, int blocks, int threads) {
  int wrong = 0;
  for (int b = 0; b < blocks; b++)
    for (int t = 0; t < threads; t++) wrong += out[b * threads + t] != (float)((t + 1) % threads * 3 + b);
  return wrong;
}

#endif
