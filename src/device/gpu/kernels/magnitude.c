/* DoRA's magnitudes: y = magnitude / sqrt(squares) * (x - offset) + offset, for x [rows, width]. The other arrays have
 * a number for each column: `squares` is the sum of the squares of the column's weights, and `offset` is its bias,
 * which is not scaled. magnitude_sums has stage 1 of the sums down columns (columns.h) for the gradient of the
 * magnitudes. */
#include "device/gpu/kernels/magnitude.h"

#include "device/gpu/kernels/columns.h"

/* Returns 1 / sqrt(squares[column]): 0 if the sum of squares is 0, and NaN if it is NaN. */
DEVICE wide inverse_root(const void *squares, int64_t column) {
  const wide square = ((const wide *)squares)[column];
  return square > 0 ? 1 / wide_sqrt(square) : square;
}

/* Returns a column's offset, 0 without offsets. */
DEVICE wide offset_at(const void *offsets, int64_t column) {
  return offsets ? ((const wide *)offsets)[column] : (wide)0;
}

/* Computes y, with one thread per element. */
KERNEL(magnitude_forward) {
  const int64_t count = live_rows(a.capacity, a.count) * a.width;
  for (int64_t i = block_x() * threads() + thread(); i < count; i += blocks_x() * threads()) {
    const int64_t row = quotient(i, a.width), column = i - row * a.width, at = row * a.ld + column;
    const wide factor = ((const wide *)a.magnitudes)[column] * inverse_root(a.squares, column);
    const wide offset = offset_at(a.offsets, column);
    store((element *)a.y + at, factor * (load((const element *)a.x + at) - offset) + offset);
  }
}

/* Computes stage 1 for the gradient of the magnitudes, with one block per slab and strip of columns. A thread sums
 * VECTOR columns, one after the other. */
KERNEL(magnitude_sums) {
  SHARED(column_shared, shared);
  const int64_t live = live_rows(a.capacity, a.count);
  const column_place at = column_place_of(&a.cut, a.width, live);
  if ((a.cut.first_slab + at.slab) * a.cut.slab_rows >= live) return; /* all threads of the block return */
  wide sums[VECTOR];
  for (int j = 0; j < VECTOR; j++) {
    const int64_t column = at.column + j;
    sums[j] = 0;
    if (column >= a.width) continue;
    const wide offset = offset_at(a.offsets, column);
    for (int64_t r = at.row; r < at.end; r += at.down) {
      const int64_t place = r * a.ld + column;
      sums[j] += load((const element *)a.gradient_y + place) * (load((const element *)a.x + place) - offset);
    }
    sums[j] *= inverse_root(a.squares, column);
  }
  add_up_columns(&at, sums, shared, (wide *)a.slabs + at.slab * a.width);
}
