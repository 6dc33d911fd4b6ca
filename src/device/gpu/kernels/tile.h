/* Tiles in shared memory: pieces of matrices in device memory, with zeros where a matrix has ended. */
#ifndef TRI_DEVICE_GPU_KERNELS_TILE_H
#define TRI_DEVICE_GPU_KERNELS_TILE_H

#include "device/gpu/kernels/primitives.h"

/* Before a loop: over parts of an array that is to lie in registers; one whose rounds may overlap; and one that is
 * seldom taken, to be kept small. */
#if defined(TRI_GPU_HOST)
#define UNROLL
#define UNROLL_SOME
#define ONE_BY_ONE
#else
#define UNROLL _Pragma("unroll")
#if TRI_GPU_TYPE == 16 && defined(TRI_GPU_HIP)
#define UNROLL_SOME /* if the number of rounds is unknown, matrix products do not allow it, and clang says so */
#elif TRI_GPU_TYPE == 16
#define UNROLL_SOME _Pragma("unroll 4")
#else
#define UNROLL_SOME _Pragma("unroll 1") /* a round has work enough, and takes many registers */
#endif
#define ONE_BY_ONE _Pragma("unroll 1")
#endif

/* Whether all rows of a matrix begin where 16 bytes can be moved. */
DEVICE int rows_are_aligned(const element *from, int64_t stride) { return is_aligned(from) && stride % VECTOR == 0; }

/* Of VECTOR elements the first `live`, then zeros. */
DEVICE void tile_put_some(element *to, const element *from, int64_t live) {
  ONE_BY_ONE
  for (int j = 0; j < VECTOR; j++) store(to + j, j < live ? load(from + j) : 0);
}

/* rows x columns from `from`, whose rows lie `stride` apart, into `to`, where they lie `pitch` apart; what is not among
 * live_rows x live_columns becomes zero. All threads of a block do it. There for the block behind copy_async_wait and a
 * barrier. */
DEVICE void tile_load(element *to, const int pitch, const element *from, int64_t stride, const int rows,
                      const int columns, int64_t live_rows, int64_t live_columns, int aligned, const int threads) {
  const int vectors = columns / VECTOR, count = rows * vectors;
  if (aligned && live_rows >= rows && live_columns >= columns) {
    UNROLL
    for (int first = 0; first < count; first += threads) {
      const int i = first + thread(), row = i / vectors, column = i % vectors * VECTOR;
      if (count % threads == 0 || i < count) copy_async(to + row * pitch + column, from + row * stride + column);
    }
    return;
  }
  ONE_BY_ONE
  for (int i = thread(); i < count; i += threads) {
    const int row = i / vectors, column = i % vectors * VECTOR;
    const int64_t live = row < live_rows ? live_columns - column : 0;
    if (aligned && live >= VECTOR) {
      copy_async(to + row * pitch + column, from + row * stride + column);
    } else {
      tile_put_some(to + row * pitch + column, from + row * stride + column, live);
    }
  }
}

#endif
