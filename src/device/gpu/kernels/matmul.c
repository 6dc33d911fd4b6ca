/* GEMMs for any shape: c[m,n] (+)= a[m,k] * b[k,n] (+ bias[n]), by tiles of 128 x 128 (matmul_large) or 64 x 64
 * (matmul_small), one block each (matmul_tile.h). Blocks are numbered along x. matmul_pack converts operands. No result
 * depends on the number of blocks. */
#include "device/gpu/kernels/matmul.h"

#include "device/gpu/kernels/matmul_tile.h"

KERNEL(matmul_large) {
  SHARED_ASKED(tile_memory, tiles);
  multiply_tile(&a, block_x(), (element *)(void *)tiles, MATMUL_LARGE, matmul_large_threads);
}

KERNEL(matmul_small) {
  SHARED_ASKED(tile_memory, tiles);
  multiply_tile(&a, block_x(), (element *)(void *)tiles, MATMUL_SMALL, matmul_small_threads);
}

/* Converts rows to dense rows of elements. A thread converts VECTOR columns of a row at a time: 16 bytes of output. */
KERNEL(matmul_pack) {
  const wide *in_wide = (const wide *)a.in;
  const element *in = (const element *)a.in;
  element *out = (element *)a.out;
  const int64_t vectors = (a.width + VECTOR - 1) / VECTOR;
  const int aligned = is_aligned(in) && is_aligned(out) && a.ld % VECTOR == 0 && a.width % VECTOR == 0;
  wide values[VECTOR];
  for (int64_t i = block_x() * threads() + thread(); i < a.rows * vectors; i += blocks_x() * threads()) {
    const int64_t row = i / vectors, column = i % vectors * VECTOR;
    const int64_t from = row * a.ld + column, to = row * a.width + column;
    if (aligned) {
      if (a.in_is_wide) {
        load_wide_vector(in_wide + from, values);
      } else {
        load_vector(in + from, values);
      }
      store_vector(out + to, values);
      continue;
    }
    for (int j = 0; j < VECTOR && column + j < a.width; j++)
      store(out + to + j, a.in_is_wide ? in_wide[from + j] : load(in + from + j));
  }
}
