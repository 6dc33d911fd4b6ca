/* Matrix kernels of Muon other than GEMMs: bound by memory bandwidth. A transposition uses square tiles that stay in
 * the L1 cache, so that each cache line is read and written once; other kernels run along rows. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"
#include "device/exact_sum.h"

#include <math.h>

enum {
  SIDE = 64,             /* rows and columns of a square, the largest tile of a transposed copy */
  SQUARE_ROW = SIDE + 4, /* distance of the rows of a square, so that they begin in different sets of a cache */
  LONG = 8192            /* maximum columns of a tile if nothing is transposed */
};

typedef float square[SIDE][SQUARE_ROW];

/* The division of a matrix [rows, columns] into tiles [tile_rows, tile_columns]; `across` tiles are side by side. It
 * does not depend on the number of threads. */
typedef struct cut {
  int64_t rows, columns, tile_rows, tile_columns, across, tiles;
} cut;

typedef struct tile {
  int64_t row, column, rows, columns;
} tile;

static cut cut_of(int64_t rows, int64_t columns, bool turned) {
  const int64_t tile_rows = turned ? SIDE : 4, tile_columns = turned ? SIDE : LONG;
  const int64_t across = (columns + tile_columns - 1) / tile_columns;
  return (cut){rows, columns, tile_rows, tile_columns, across, (rows + tile_rows - 1) / tile_rows * across};
}

INLINE tile tile_of(const cut *all, int64_t number) {
  const int64_t row = number / all->across * all->tile_rows, column = number % all->across * all->tile_columns;
  const int64_t rows = all->rows - row, columns = all->columns - column;
  return (tile){row, column, rows < all->tile_rows ? rows : all->tile_rows,
                columns < all->tile_columns ? columns : all->tile_columns};
}

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

/* Transposes a square in blocks of four by four. Elements beyond the tile's rows and columns are written to memory that
 * is not read. */
INLINE void turn(int64_t rows, int64_t columns, const square from, square to) {
  for (int64_t r = 0; r < rows; r += 4) {
    for (int64_t c = 0; c < columns; c += 4) {
      const four x0 = *(const four *)&from[r][c], x1 = *(const four *)&from[r + 1][c];
      const four x2 = *(const four *)&from[r + 2][c], x3 = *(const four *)&from[r + 3][c];
      const four low0 = __builtin_shufflevector(x0, x1, 0, 4, 1, 5), low1 = __builtin_shufflevector(x2, x3, 0, 4, 1, 5);
      const four high0 = __builtin_shufflevector(x0, x1, 2, 6, 3, 7),
                 high1 = __builtin_shufflevector(x2, x3, 2, 6, 3, 7);
      *(four *)&to[c][r] = __builtin_shufflevector(low0, low1, 0, 1, 4, 5);
      *(four *)&to[c + 1][r] = __builtin_shufflevector(low0, low1, 2, 3, 6, 7);
      *(four *)&to[c + 2][r] = __builtin_shufflevector(high0, high1, 0, 1, 4, 5);
      *(four *)&to[c + 3][r] = __builtin_shufflevector(high0, high1, 2, 3, 6, 7);
    }
  }
}

/* Prefetches a tile's rows for writing, because each row is too short for the hardware prefetcher. */
INLINE void expect(const char *first, int64_t rows, int64_t row_bytes, int64_t bytes) {
  enum { LINE = 64 };
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch(first + r * row_bytes + at, 1, 2);
  }
}

INLINE void scale_row(tri_dtype from, tri_dtype to, int64_t columns, float factor, const void *in, int64_t in_at,
                      void *out, int64_t out_at) {
  FOR_VECTORS(i, count, 0, columns,
              { vf_put(to, out, out_at + i, count, vf_get(from, in, in_at + i, count) * factor); });
}

/* ---- over the norm ----------------------------------------------------------------------------------------------- */

INLINE void normalise_tile(tri_dtype type, const tri_matrix_copy *copy, tile t, float factor, const float *in,
                           void *out) {
  if (copy->out_column == 1) {
    for (int64_t r = t.row; r < t.row + t.rows; r++)
      scale_row(TRI_FP32, type, t.columns, factor, in, r * copy->in_row + t.column, out, r * copy->out_row + t.column);
    return;
  }
  square rows, columns;
  const int64_t bytes = (int64_t)tri_dtype_bytes(type);
  expect((char *)out + (t.row + t.column * copy->out_column) * bytes, t.columns, copy->out_column * bytes,
         t.rows * bytes);
  for (int64_t r = 0; r < t.rows; r++)
    scale_row(TRI_FP32, TRI_FP32, t.columns, factor, in, (t.row + r) * copy->in_row + t.column, rows[r], 0);
  turn(t.rows, t.columns, rows, columns);
  for (int64_t c = 0; c < t.columns; c++)
    scale_row(TRI_FP32, type, t.rows, 1.0f, columns[c], 0, out, t.row + (t.column + c) * copy->out_column);
}

static tri_status matrix_normalise(tri_queue *queue, tri_dtype type, const tri_matrix_copy *copy, const void *in,
                                   const tri_exact_sum *squares, double eps, void *out) {
  tri_exact_sum sum = *squares;
  const float factor = (float)(1.0 / (sqrt(tri_exact_sum_value(&sum)) + eps));
  const cut all = cut_of(copy->rows, copy->columns, copy->out_column != 1);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (copy->rows * copy->columns > TRI_ALONE)
  for (int64_t i = 0; i < all.tiles; i++) {
    const tile own = tile_of(&all, i);
    BY_TYPE(normalise_tile, copy, own, factor, in, out);
  }
  return TRI_OK;
}

/* ---- polynomial -------------------------------------------------------------------------------------------------- */

INLINE float one_of(tri_dtype type, const void *array, int64_t i) { return vf_load_some(type, array, i, 1, 0.0f)[0]; }

/* Computes a row of the polynomial. `out` may be b, because the element on the diagonal is read first. */
INLINE void polynomial_row(tri_dtype type, const float *factors, int64_t size, int64_t row, const void *a,
                           const void *b, void *out) {
  const int64_t at = row * size, diagonal = at + row;
  const float off = one_of(type, a, diagonal) * factors[1] + one_of(type, b, diagonal) * factors[2];
  FOR_VECTORS(i, count, at, at + size, {
    vf_put(type, out, i, count, vf_get(type, a, i, count) * factors[1] + vf_get(type, b, i, count) * factors[2]);
  });
  vf_store_some(type, out, diagonal, 1, vf_splat(off + factors[0]));
}

static tri_status matrix_polynomial(tri_queue *queue, tri_dtype type, const tri_matrix_polynomial *polynomial,
                                    const void *a, const void *b, void *out) {
  const int64_t size = polynomial->size;
  float factors[3];
  for (int i = 0; i < 3; i++) factors[i] = (float)polynomial->factors[i];
#pragma omp parallel for schedule(static) num_threads(THREADS) if (size * size > TRI_ALONE)
  for (int64_t row = 0; row < size; row++) BY_TYPE(polynomial_row, factors, size, row, a, b, out);
  return TRI_OK;
}

/* ---- step -------------------------------------------------------------------------------------------------------- */

typedef struct step_call {
  const tri_matrix_step *step;
  const void *x;
  float *parameter;
  uint16_t *narrow;
  bool narrows;
  float decay, rate;
} step_call;

INLINE void step_row(tri_dtype type, const step_call *call, int64_t columns, const void *x, int64_t x_at, int64_t at) {
  float *parameter = call->parameter;
  FOR_VECTORS(i, count, 0, columns, {
    vf p = vf_get(TRI_FP32, parameter, at + i, count) * call->decay - vf_get(type, x, x_at + i, count) * call->rate;
    vf_put(TRI_FP32, parameter, at + i, count, p);
  });
  if (!call->narrows) return;
  scale_row(TRI_FP32, TRI_BF16, columns, 1.0f, parameter, at, call->narrow, at);
}

INLINE void step_tile(tri_dtype type, const step_call *call, tile t) {
  const tri_matrix_step *step = call->step;
  if (step->x_column == 1) {
    for (int64_t r = t.row; r < t.row + t.rows; r++)
      step_row(type, call, t.columns, call->x, r * step->x_row + t.column, r * step->parameter_row + t.column);
    return;
  }
  square columns, rows;
  expect((const char *)(call->parameter + t.row * step->parameter_row + t.column), t.rows, step->parameter_row * 4,
         t.columns * 4);
  for (int64_t c = 0; c < t.columns; c++)
    scale_row(type, TRI_FP32, t.rows, 1.0f, call->x, t.row + (t.column + c) * step->x_column, columns[c], 0);
  turn(t.columns, t.rows, columns, rows);
  for (int64_t r = 0; r < t.rows; r++)
    step_row(TRI_FP32, call, t.columns, rows[r], 0, (t.row + r) * step->parameter_row + t.column);
}

static tri_status matrix_step(tri_queue *queue, tri_dtype type, const tri_matrix_step *step,
                              const tri_step_values *values, const void *x, void *parameter, void *narrow) {
  const double lr = values->lr * step->lr_scale;
  const cut all = cut_of(step->rows, step->columns, step->x_column != 1);
  const step_call call = {.step = step,
                          .x = x,
                          .parameter = parameter,
                          .narrow = narrow,
                          .narrows = narrow != NULL && type == TRI_BF16,
                          .decay = (float)(1.0 - lr * step->weight_decay),
                          .rate = (float)(lr * step->scale)};
#pragma omp parallel for schedule(static) num_threads(THREADS) if (step->rows * step->columns > TRI_ALONE)
  for (int64_t i = 0; i < all.tiles; i++) {
    const tile own = tile_of(&all, i);
    BY_TYPE(step_tile, &call, own);
  }
  return TRI_OK;
}

void TRI_KERNEL(table_matrices)(tri_device_kernels *table) {
  table->matrix_normalise = matrix_normalise;
  table->matrix_polynomial = matrix_polynomial;
  table->matrix_step = matrix_step;
}
