/* Tiles in shared memory: pieces of matrices in device memory, padded with zeros beyond a matrix. */
#ifndef TRI_DEVICE_GPU_KERNELS_TILE_H
#define TRI_DEVICE_GPU_KERNELS_TILE_H

#include "device/gpu/kernels/primitives.h"

/* Written before a loop. UNROLL: the loop is unrolled completely, because it indexes an array that must be in
 * registers. UNROLL_SOME: where it pays, a few iterations are unrolled, so that they overlap. ONE_BY_ONE: the loop is
 * not unrolled, because it is rarely executed and its code must be small. */
#if defined(TRI_GPU_HOST)
#define UNROLL
#define UNROLL_SOME
#define ONE_BY_ONE
#else
#define UNROLL _Pragma("unroll")
#if TRI_GPU_TYPE == 16 && defined(TRI_GPU_HIP)
#define UNROLL_SOME /* empty, because matrix instructions prevent unrolling a loop of unknown length, and clang would  \
                       warn */
#elif TRI_GPU_TYPE == 16
#define UNROLL_SOME _Pragma("unroll 4")
#else
#define UNROLL_SOME _Pragma("unroll 1") /* an iteration has enough work, and needs many registers */
#endif
#define ONE_BY_ONE _Pragma("unroll 1")
#endif

/* Returns whether all rows of a matrix, `stride` elements apart, are aligned to 16 bytes. */
DEVICE int rows_are_aligned(const element *from, int64_t stride) { return is_aligned(from) && stride % VECTOR == 0; }

/* Copies the first `live` of VECTOR elements (none if `live` is below 1), and stores zeros for the others. Called by
 * one thread. */
DEVICE void tile_put_some(element *to, const element *from, int64_t live) {
  ONE_BY_ONE
  for (int j = 0; j < VECTOR; j++) store(to + j, j < live ? load(from + j) : 0);
}

/* Starts to load a tile of rows x columns elements from `from`, whose rows are `stride` elements apart, to `to`, whose
 * rows are `pitch` elements apart; `columns` is a multiple of VECTOR. Elements beyond live_rows x live_columns become
 * zero. aligned: whether all rows of `from` are aligned to 16 bytes; those of `to` always are. All `threads` threads of
 * a block call it. The tile is visible to the block after copy_async_commit, copy_async_wait and a barrier. */
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
