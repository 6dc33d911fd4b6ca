/* Sums down the columns of many rows, in two stages, so that every processor has work and no sum depends on the order
 * in which blocks run. Stage 1: a block sums `slab_rows` rows (a slab) of a strip of columns; its threads form a grid,
 * `across` of them along columns, VECTOR columns each, and 256 / across along rows. Stage 2, the kernel column_totals,
 * sums the slabs in order. Slabs begin at the same rows for any number of rows, so the sums do not depend on the
 * capacity for further rows. */
#ifndef TRI_DEVICE_GPU_KERNELS_COLUMNS_H
#define TRI_DEVICE_GPU_KERNELS_COLUMNS_H

#include "device/gpu/kernels/rows.h"
#include "device/gpu/kernels/sums.h"

enum { COLUMN_THREADS = 256 };

/* The position of a thread in stage 1. */
typedef struct column_place {
  int64_t slab, row, end; /* slab: index. row: the thread's first row. end: end of the slab's rows */
  int64_t column, width;  /* column: the thread's first column. width: number of columns */
  int across, down;       /* across: threads along columns. down: threads along rows */
} column_place;

/* Returns the thread's position; at.slab counts from the first slab of the launch. */
DEVICE column_place column_place_of(const column_slabs *s, int64_t width, int64_t live) {
  column_place at;
  const int64_t strips = quotient(width + s->across * VECTOR - 1, s->across * VECTOR);
  at.slab = quotient(block_x(), strips);
  at.width = width;
  at.across = s->across;
  at.down = COLUMN_THREADS / s->across;
  at.column = ((block_x() - at.slab * strips) * s->across + thread() % s->across) * VECTOR;
  at.row = (s->first_slab + at.slab) * s->slab_rows;
  at.end = at.row + s->slab_rows < live ? at.row + s->slab_rows : live;
  at.row += thread() / s->across;
  return at;
}

/* The sums of all threads of a block: [down, across * VECTOR]. */
typedef struct column_shared {
  wide sums[COLUMN_THREADS * VECTOR];
} column_shared;

/* Sums each column over the threads, in the order of their rows, and writes the strip's columns of `out` [width], the
 * slab's row of sums. own: the thread's sums of its VECTOR columns. All threads of the block call it; has two barriers.
 */
DEVICE void add_up_columns(const column_place *at, const wide own[VECTOR], column_shared *shared, wide *out) {
  const int columns = at->across * VECTOR;
  const int64_t first = at->column - thread() % at->across * VECTOR;
  barrier();
  for (int j = 0; j < VECTOR; j++) shared->sums[thread() * VECTOR + j] = own[j];
  barrier();
  for (int c = thread(); c < columns && first + c < at->width; c += COLUMN_THREADS) {
    wide sum = 0;
    for (int y = 0; y < at->down; y++) sum += shared->sums[y * columns + c];
    out[first + c] = sum;
  }
}

#endif
