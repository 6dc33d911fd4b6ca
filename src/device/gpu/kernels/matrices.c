/* Matrix kernels other than GEMMs, bound by memory bandwidth:
 *
 *   matrix_normalise    out = in / (norm of in + eps), possibly transposed
 *   matrix_polynomial   out = factors[0] I + factors[1] a + factors[2] b, element by element
 *   matrix_step         parameter = decay * parameter - rate * x, with a possibly transposed x
 *
 * For matrix_normalise and matrix_step, blocks process tiles of SIDE x SIDE, in strides of the grid. A thread loads
 * VECTOR elements along a stored row of the input, and stores VECTOR elements along a stored row of the output. If one
 * of the two is transposed, the tile goes through shared memory. */
#include "device/gpu/kernels/matrices.h"

#include "device/gpu/kernels/rows.h"
#include "device/gpu/kernels/wide.h"

enum { SIDE = MATRIX_TILE, ACROSS = SIDE / VECTOR, PARTS = SIDE * ACROSS };

/* Rows are padded by one element, so that the elements of a column are in different banks. */
typedef struct square {
  wide at[SIDE][SIDE + 1];
} square;

/* The position of a tile in the matrix, and its size, which is smaller at the edges. */
typedef struct tile {
  int64_t row, column, rows, columns;
} tile;

/* Return tile `number`, counted along rows of tiles, and the number of tiles. */
DEVICE tile tile_of(int64_t number, int64_t rows, int64_t columns) {
  const int64_t across = (columns + SIDE - 1) / SIDE, row = quotient(number, across);
  tile t;
  t.row = row * SIDE;
  t.column = (number - row * across) * SIDE;
  t.rows = rows - t.row < SIDE ? rows - t.row : SIDE;
  t.columns = columns - t.column < SIDE ? columns - t.column : SIDE;
  return t;
}

DEVICE int64_t tiles_of(int64_t rows, int64_t columns) {
  return (rows + SIDE - 1) / SIDE * ((columns + SIDE - 1) / SIDE);
}

/* Returns whether all rows of an array, `row` elements of `bytes` apart, are aligned to 16 bytes. */
DEVICE int is_aligned_in_rows(const void *array, int64_t row, int bytes) {
  return is_aligned(array) && row * bytes % 16 == 0;
}

/* ---- division by the norm ---------------------------------------------------------------------------------------- */

typedef struct norm_shared {
  double each[MOST_WARPS];
} norm_shared;

/* Returns the norm, the root of the sum of squares, to all threads of the block, which all call it. The sum's limbs are
 * not negative, even before carries, so they can be rounded to doubles and summed; limb 34 counts units of 1
 * (tri_exact_sum). */
DEVICE double norm_of(const tri_exact_sum *squares, norm_shared *shared) {
  double part = 0;
  if (thread() < TRI_EXACT_SUM_LIMBS) {
    part = (double)squares->limbs[thread()];
    for (int i = thread(); i > 34; i--) part *= 4294967296.0;
    for (int i = thread(); i < 34; i++) part *= 1 / 4294967296.0;
  }
  part = block_sum_double(part, shared->each);
  return squares->not_finite > 0 ? (double)(wide_infinity() - wide_infinity()) : sqrt(part);
}

KERNEL(matrix_normalise) {
  SHARED(norm_shared, norms);
  SHARED(square, shared);
  const wide *in = (const wide *)a.in;
  element *out = (element *)a.out;
  const wide factor = (wide)(1.0 / (norm_of(a.squares, norms) + a.eps));
  const int in_aligned = is_aligned_in_rows(in, a.in_row, (int)sizeof(wide)), turned = a.out_column != 1;
  const int out_aligned = is_aligned_in_rows(out, turned ? a.out_column : a.out_row, (int)sizeof(element));
  for (int64_t n = block_x(); n < tiles_of(a.rows, a.columns); n += blocks_x()) {
    const tile t = tile_of(n, a.rows, a.columns);
    wide values[VECTOR];
    for (int i = thread(); i < PARTS; i += threads()) {
      const int r = i / ACROSS, c = i % ACROSS * VECTOR;
      if (r >= t.rows) break;
      load_wide_part(in + (t.row + r) * a.in_row + t.column + c, in_aligned, t.columns - c, values);
      for (int j = 0; j < VECTOR; j++) {
        values[j] *= factor;
        if (turned) shared->at[r][c + j] = values[j];
      }
      if (!turned) store_part(out + (t.row + r) * a.out_row + t.column + c, out_aligned, t.columns - c, values);
    }
    if (!turned) continue;
    barrier();
    for (int i = thread(); i < PARTS; i += threads()) {
      const int c = i / ACROSS, r = i % ACROSS * VECTOR;
      if (c >= t.columns) break;
      for (int j = 0; j < VECTOR; j++) values[j] = shared->at[r + j][c];
      store_part(out + (t.column + c) * a.out_column + t.row + r, out_aligned, t.rows - r, values);
    }
    barrier();
  }
}

/* ---- polynomial -------------------------------------------------------------------------------------------------- */

/* Returns an element of the polynomial. */
DEVICE wide polynomial(const wide factors[3], int on_diagonal, wide x, wide y) {
  const wide sum = wide_multiply_add(factors[1], x, factors[2] * y);
  return on_diagonal ? sum + factors[0] : sum;
}

/* Computes the polynomial. A thread processes VECTOR elements at a time. The elements on the diagonal have the indices
 * that are multiples of size + 1. */
KERNEL(matrix_polynomial) {
  const element *x = (const element *)a.a, *y = (const element *)a.b;
  element *out = (element *)a.out;
  const wide factors[3] = {(wide)a.factors[0], (wide)a.factors[1], (wide)a.factors[2]};
  const int64_t count = a.size * a.size;
  const int aligned = is_aligned(x) && is_aligned(y) && is_aligned(out);
  wide left[VECTOR], right[VECTOR];
  for (int64_t i = (block_x() * threads() + thread()) * VECTOR; i < count; i += blocks_x() * threads() * VECTOR) {
    int64_t behind = i - quotient(i, a.size + 1) * (a.size + 1); /* i minus the last index <= i on the diagonal */
    load_part(x + i, aligned, count - i, left);
    load_part(y + i, aligned, count - i, right);
    for (int j = 0; j < VECTOR; j++) {
      left[j] = polynomial(factors, behind == 0, left[j], right[j]);
      behind = behind == a.size ? 0 : behind + 1;
    }
    store_part(out + i, aligned, count - i, left);
  }
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

/* Loads a tile of an x whose columns are contiguous (x_row 1): element [r, c] goes to at[r][c]. All threads of the
 * block call it; the caller synchronises. */
DEVICE void load_turned(const element *x, int64_t x_column, int aligned, const tile *t, square *to) {
  wide values[VECTOR];
  for (int i = thread(); i < PARTS; i += threads()) {
    const int c = i / ACROSS, r = i % ACROSS * VECTOR;
    if (c >= t->columns) break;
    load_part(x + (t->column + c) * x_column + t->row + r, aligned, t->rows - r, values);
    for (int j = 0; j < VECTOR; j++) to->at[r + j][c] = values[j];
  }
}

KERNEL(matrix_step) {
  SHARED(square, shared);
  const element *x = (const element *)a.x;
  wide *parameter = (wide *)a.parameter;
  element *narrow = (element *)a.narrow;
  const double lr = a.values->lr * a.lr_scale;
  const wide decay = (wide)(1.0 - lr * a.weight_decay), rate = (wide)(lr * a.scale);
  const int turned = a.x_column != 1;
  const int x_aligned = is_aligned_in_rows(x, turned ? a.x_column : a.x_row, (int)sizeof(element));
  const int aligned = is_aligned_in_rows(parameter, a.parameter_row, (int)sizeof(wide));
  const int narrow_aligned = is_aligned_in_rows(narrow, a.parameter_row, (int)sizeof(element));
  for (int64_t n = block_x(); n < tiles_of(a.rows, a.columns); n += blocks_x()) {
    const tile t = tile_of(n, a.rows, a.columns);
    if (turned) load_turned(x, a.x_column, x_aligned, &t, shared);
    if (turned) barrier();
    for (int i = thread(); i < PARTS; i += threads()) {
      const int r = i / ACROSS, c = i % ACROSS * VECTOR;
      const int64_t left = t.columns - c, at = (t.row + r) * a.parameter_row + t.column + c;
      wide values[VECTOR], steps[VECTOR];
      if (r >= t.rows) break;
      load_wide_part(parameter + at, aligned, left, values);
      if (turned) {
        for (int j = 0; j < VECTOR; j++) steps[j] = shared->at[r][c + j];
      } else {
        load_part(x + (t.row + r) * a.x_row + t.column + c, x_aligned, left, steps);
      }
      for (int j = 0; j < VECTOR; j++) values[j] = wide_multiply_add(values[j], decay, -(rate * steps[j]));
      store_wide_part(parameter + at, aligned, left, values);
      if (narrow != 0) store_part(narrow + at, narrow_aligned, left, values);
    }
    if (turned) barrier();
  }
}
