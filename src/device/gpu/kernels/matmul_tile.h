/* A tile of a GEMM, which one block computes: kernels/matmul.c, kernels/grouped.c.
 *
 * `side` is the number of rows and columns of the tile of c (MATMUL_LARGE or MATMUL_SMALL). The block advances along k
 * in *pieces* of DEPTH elements, 64 bytes. Shared memory has `stages` pairs of tiles, a [side, DEPTH] and b [side,
 * DEPTH], used in turn: while one pair is multiplied, the pairs of the next pieces are copied. An operand with a stored
 * row for each k (`by_depth`: a if it is transposed, b if it is not) has a tile [DEPTH, side] instead; the order of
 * elements is never changed, because fragments can be loaded from both orders.
 *
 * The warps of a block form two rows of warps. A warp has a *part* of the tile of c, part_high x part_across fragments
 * of 16 x 16 in registers: 4 x 2 of the large and 2 x 2 of the small tile with warps of 32.
 *
 * The invariant: an element of c is accumulated along k, from the start, in a register of one thread. So its bits
 * depend neither on the size of the tile nor on the element's place in it. `side`, `threads` and `by_depth` are
 * constants in each call, so that loops over fragments are unrolled. */
#ifndef TRI_DEVICE_GPU_KERNELS_MATMUL_TILE_H
#define TRI_DEVICE_GPU_KERNELS_MATMUL_TILE_H

#include "device/gpu/kernels/fragment.h"
#include "device/gpu/kernels/matmul.h"

enum { DEPTH = 64 / (int)sizeof(element), DEPTH_PITCH = DEPTH + VECTOR, MOST_FRAGMENTS = 4 };

/* Unrolling of the loop over fragments along DEPTH. It has two iterations in bf16, which are unrolled, and four in fp32
 * and fp64, which are not: in fp64 the unrolled loop would not fit into registers. */
#if TRI_GPU_TYPE == 16
#define STEPS UNROLL
#else
#define STEPS ONE_BY_ONE
#endif

/* Number of pairs of tiles. With warps of 64, copies are not asynchronous, so more than two pairs would be useless. */
enum {
  LARGE_STAGES = WARP == 64 ? MATMUL_STAGES_OF_64 : MATMUL_LARGE_STAGES,
  SMALL_STAGES = WARP == 64 ? MATMUL_STAGES_OF_64 : MATMUL_SMALL_STAGES
};
DEVICE int stages_of(const int side) { return side == MATMUL_LARGE ? LARGE_STAGES : SMALL_STAGES; }

/* The dynamic shared memory of a block: MATMUL_ROW_BYTES for each row of the tiles. */
typedef struct tile_memory {
  sixteen_bytes at[1];
} tile_memory;

/* Starts to copy a piece of an operand, [side, DEPTH] from row `first` and depth `k` on; [DEPTH, side] if by_depth.
 * Elements from row `end` and depth `depth` on are zero. All threads of the block call it. */
DEVICE void load_piece(element *to, const element *from, int64_t ld, int64_t first, int64_t end, int64_t k,
                       int64_t depth, const int by_depth, int aligned, const int side, const int threads) {
  if (by_depth) {
    tile_load(to, side + VECTOR, from + k * ld + first, ld, DEPTH, side, depth - k, end - first, aligned, threads);
  } else {
    tile_load(to, DEPTH_PITCH, from + first * ld + k, ld, side, DEPTH, end - first, depth - k, aligned, threads);
  }
}

/* Finds the first row and column of tile `number` of c. Numbers run through 8 tiles of a column before they go to the
 * next column, so that blocks that run at the same time share rows of a and columns of b. */
DEVICE void find_tile(const matmul_arguments *p, const int side, int64_t number, int64_t *row, int64_t *column) {
  const int64_t rows = (p->m + side - 1) / side, columns = (p->n + side - 1) / side;
  const int64_t group = number / (8 * columns), rest = number % (8 * columns);
  const int64_t height = rows - 8 * group < 8 ? rows - 8 * group : 8;
  *row = (8 * group + rest % height) * side;
  *column = rest / height * side;
}

/* Stores an element of c: the value plus the bias, if the call has one, plus the old element with `accumulate`. Does
 * nothing for positions beyond c. */
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

/* A warp's part of a tile of c. */
typedef struct part {
  int64_t row, column;       /* position in c */
  int tile_row, tile_column; /* position in the tile */
  int idle;                  /* whether the part is entirely beyond c */
  fragment c[MOST_FRAGMENTS][MOST_FRAGMENTS];
} part;

/* Return the numbers of fragments of a part: how many are one below the other, and how many are side by side. */
DEVICE int part_high(const int side) { return side / 2 / FRAGMENT; }
DEVICE int part_across(const int side, const int threads) { return side / (threads / WARP / 2) / FRAGMENT; }

/* c += a * b for one piece, whose tiles are in shared memory. Called by whole warps; does not synchronise. */
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

/* The operands of a block. a_aligned, b_aligned: whether all rows are aligned to 16 bytes. */
typedef struct operands {
  const element *a, *b;
  int a_aligned, b_aligned;
  int64_t row, column; /* position of the block's tile in c */
} operands;

/* Starts to copy piece `piece` of both operands to a pair of tiles. Commits a group of copies even if there are no more
 * pieces, because `multiply` waits for groups by their number. */
DEVICE void send_piece(const matmul_arguments *p, const operands *o, int piece, element *to, const int side,
                       const int threads, const int a_by_depth, const int b_by_depth) {
  const int64_t k = (int64_t)piece * DEPTH;
  if (k < p->k) {
    load_piece(to, o->a, p->lda, o->row, p->m, k, p->k, a_by_depth, o->a_aligned, side, threads);
    load_piece(to + side * DEPTH_PITCH, o->b, p->ldb, o->column, p->n, k, p->k, b_by_depth, o->b_aligned, side,
               threads);
  }
  copy_async_commit();
}

/* Accumulates the block's tile over all pieces. All threads of the block call it; it has a barrier for each piece,
 * after which all threads have multiplied the previous piece, whose tiles the next copy overwrites. */
DEVICE void multiply(const matmul_arguments *p, part *own, int64_t row, int64_t column, element *tiles, const int side,
                     const int threads, const int a_by_depth, const int b_by_depth) {
  operands o;
  const int stages = stages_of(side), pair = 2 * side * DEPTH_PITCH, pieces = (int)((p->k + DEPTH - 1) / DEPTH);
  int now = 0, next = stages - 1;
  o.a = (const element *)p->a;
  o.b = (const element *)p->b;
  o.a_aligned = rows_are_aligned(o.a, p->lda);
  o.b_aligned = rows_are_aligned(o.b, p->ldb);
  o.row = row;
  o.column = column;
  for (int i = 0; i < stages - 1; i++) send_piece(p, &o, i, tiles + i * pair, side, threads, a_by_depth, b_by_depth);
  for (int piece = 0; piece < pieces; piece++) {
    if (side == MATMUL_LARGE) {
      copy_async_wait(LARGE_STAGES - 2);
    } else {
      copy_async_wait(SMALL_STAGES - 2);
    }
    barrier();
    send_piece(p, &o, piece + stages - 1, tiles + next * pair, side, threads, a_by_depth, b_by_depth);
    const element *tile = tiles + now * pair;
    if (!own->idle) multiply_piece(own, tile, tile + pair / 2, side, threads, a_by_depth, b_by_depth);
    now = now + 1 == stages ? 0 : now + 1;
    next = next + 1 == stages ? 0 : next + 1;
  }
}

/* Computes tile `number` of c. All threads of the block call it. `tiles` is the block's shared memory. */
DEVICE void multiply_tile(const matmul_arguments *p, int64_t number, element *tiles, const int side,
                          const int threads) {
  part own;
  int64_t row, column;
  find_tile(p, side, number, &row, &column);
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

#endif
