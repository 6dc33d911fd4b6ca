/* A tiled matrix product for any shape. A block makes a square tile of c; it goes along k in pieces of 64 bytes, which
 * two pairs of tiles in shared memory take turns to hold: one is multiplied while the other is on its way. Tiles lie in
 * shared memory as they lie in device memory, transposed or not, and fragments are loaded either way.
 *
 * An element of c is summed up along k by one thread, so no result depends on how many blocks there are. */
#include "device/gpu/kernels/matmul.h"

#include "device/gpu/kernels/fragment.h"

enum { DEPTH = 64 / (int)sizeof(element), DEPTH_PITCH = DEPTH + VECTOR, MOST_FRAGMENTS = 4 };

/* Before the loop over fragments along DEPTH: two of bf16; unrolled, the four of fp64 do not fit into registers. */
#if TRI_GPU_TYPE == 16
#define STEPS UNROLL
#else
#define STEPS ONE_BY_ONE
#endif

/* Two of a and two of b. */
typedef union large_tiles {
  sixteen_bytes aligned;
  element at[4][MATMUL_LARGE * DEPTH_PITCH];
} large_tiles;
typedef union small_tiles {
  sixteen_bytes aligned;
  element at[4][MATMUL_SMALL * DEPTH_PITCH];
} small_tiles;

/* A piece of an operand, [side, DEPTH] from row `first` and depth `k` on; [DEPTH, side] where its rows go along k. */
DEVICE void load_piece(element *to, const element *from, int64_t ld, int64_t first, int64_t end, int64_t k,
                       int64_t depth, const int by_depth, int aligned, const int side, const int threads) {
  if (by_depth) {
    tile_load(to, side + VECTOR, from + k * ld + first, ld, DEPTH, side, depth - k, end - first, aligned, threads);
  } else {
    tile_load(to, DEPTH_PITCH, from + first * ld + k, ld, side, DEPTH, end - first, depth - k, aligned, threads);
  }
}

/* Which tile of c a block makes. Blocks that run at the same time share rows of a and columns of b: 8 tiles of rows are
 * gone through before the next column. */
DEVICE void find_tile(const matmul_arguments *p, const int side, int64_t *row, int64_t *column) {
  const int64_t rows = (p->m + side - 1) / side, columns = (p->n + side - 1) / side;
  const int64_t group = block_x() / (8 * columns), rest = block_x() % (8 * columns);
  const int64_t height = rows - 8 * group < 8 ? rows - 8 * group : 8;
  *row = (8 * group + rest % height) * side;
  *column = rest / height * side;
}

DEVICE void store_result(const matmul_arguments *p, int64_t row, int64_t column, wide value) {
  if (row >= p->m || column >= p->n) return;
  const int64_t at = row * p->ldc + column;
  if (p->bias != 0) value += ((const wide *)p->bias)[column];
  if (p->c_is_wide) {
    wide *c = (wide *)p->c + at;
    *c = p->accumulate ? *c + value : value;
  } else {
    element *c = (element *)p->c + at;
    store(c, p->accumulate ? load(c) + value : value);
  }
}

/* A warp's part of c: two rows of warps, each of `high` x `across` fragments, make the tile of `side`. */
typedef struct part {
  int64_t row, column; /* of c, where it begins */
  int tile_row, tile_column;
  int idle; /* all of it lies beyond c */
  fragment c[MOST_FRAGMENTS][MOST_FRAGMENTS];
} part;

DEVICE int part_high(const int side) { return side / 2 / FRAGMENT; }
DEVICE int part_across(const int side, const int threads) { return side / (threads / WARP / 2) / FRAGMENT; }

/* c += a * b of the tiles in shared memory. */
DEVICE void multiply_piece(part *own, const element *a, const element *b, const int side, const int threads,
                           const int a_by_depth, const int b_by_depth) {
  const int a_pitch = a_by_depth ? side + VECTOR : DEPTH_PITCH, b_pitch = b_by_depth ? side + VECTOR : DEPTH_PITCH;
  fragment_b right[MOST_FRAGMENTS];
  STEPS
  for (int k = 0; k < DEPTH; k += FRAGMENT_K) {
    UNROLL
    for (int j = 0; j < MOST_FRAGMENTS; j++) {
      if (j >= part_across(side, threads)) continue;
      const int at = own->tile_column + j * FRAGMENT;
      right[j] = fragment_load_b(b + (b_by_depth ? k * b_pitch + at : at * b_pitch + k), b_pitch, !b_by_depth);
    }
    UNROLL
    for (int i = 0; i < MOST_FRAGMENTS; i++) {
      if (i >= part_high(side)) continue;
      const int at = own->tile_row + i * FRAGMENT;
      const fragment_a left =
          fragment_load_a(a + (a_by_depth ? k * a_pitch + at : at * a_pitch + k), a_pitch, a_by_depth);
      UNROLL
      for (int j = 0; j < MOST_FRAGMENTS; j++)
        if (j < part_across(side, threads)) fragment_multiply_add(&own->c[i][j], &left, &right[j]);
    }
  }
}

/* While a piece is multiplied, the next is on its way. */
DEVICE void multiply(const matmul_arguments *p, part *own, int64_t row, int64_t column, element *tiles, const int side,
                     const int threads, const int a_by_depth, const int b_by_depth) {
  const element *a = (const element *)p->a, *b = (const element *)p->b;
  const int a_aligned = rows_are_aligned(a, p->lda), b_aligned = rows_are_aligned(b, p->ldb);
  const int tile = side * DEPTH_PITCH;
  const int64_t pieces = (p->k + DEPTH - 1) / DEPTH;
  for (int64_t piece = 0; piece <= pieces; piece++) {
    element *next = tiles + piece % 2 * 2 * tile, *now = tiles + (piece + 1) % 2 * 2 * tile;
    if (piece < pieces) {
      load_piece(next, a, p->lda, row, p->m, piece * DEPTH, p->k, a_by_depth, a_aligned, side, threads);
      load_piece(next + tile, b, p->ldb, column, p->n, piece * DEPTH, p->k, b_by_depth, b_aligned, side, threads);
    }
    copy_async_commit();
    copy_async_wait(1);
    barrier();
    if (piece > 0 && !own->idle) multiply_piece(own, now, now + tile, side, threads, a_by_depth, b_by_depth);
    barrier();
  }
}

DEVICE void multiply_tile(const matmul_arguments *p, element *tiles, const int side, const int threads) {
  part own;
  int64_t row, column;
  find_tile(p, side, &row, &column);
  own.tile_row = warp() % 2 * part_high(side) * FRAGMENT;
  own.tile_column = warp() / 2 * part_across(side, threads) * FRAGMENT;
  own.row = row + own.tile_row;
  own.column = column + own.tile_column;
  own.idle = own.row >= p->m || own.column >= p->n;
  UNROLL
  for (int i = 0; i < MOST_FRAGMENTS; i++) {
    if (i >= part_high(side)) continue;
    UNROLL
    for (int j = 0; j < MOST_FRAGMENTS; j++)
      if (j < part_across(side, threads)) fragment_clear(&own.c[i][j]);
  }
  if (p->a_transposed) {
    if (p->b_transposed) {
      multiply(p, &own, row, column, tiles, side, threads, 1, 0);
    } else {
      multiply(p, &own, row, column, tiles, side, threads, 1, 1);
    }
  } else {
    if (p->b_transposed) {
      multiply(p, &own, row, column, tiles, side, threads, 0, 0);
    } else {
      multiply(p, &own, row, column, tiles, side, threads, 0, 1);
    }
  }
  UNROLL
  for (int i = 0; i < MOST_FRAGMENTS; i++) {
    if (i >= part_high(side)) continue;
    UNROLL
    for (int j = 0; j < MOST_FRAGMENTS; j++) {
      if (j >= part_across(side, threads)) continue;
      UNROLL
      for (int r = 0; r < FRAGMENT_ROWS; r++) {
        UNROLL
        for (int s = 0; s < FRAGMENT_COLUMNS; s++)
          store_result(p, own.row + i * FRAGMENT + fragment_row(r), own.column + j * FRAGMENT + fragment_column(s),
                       own.c[i][j].at[r][s]);
      }
    }
  }
}

KERNEL(matmul_large) {
  SHARED(large_tiles, tiles);
  multiply_tile(&a, tiles->at[0], MATMUL_LARGE, matmul_large_threads);
}

KERNEL(matmul_small) {
  SHARED(small_tiles, tiles);
  multiply_tile(&a, tiles->at[0], MATMUL_SMALL, matmul_small_threads);
}

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
