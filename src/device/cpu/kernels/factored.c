/* Adafactor, and sums of squares along the sides of a matrix: bound by memory bandwidth. No sum depends on the number
 * of threads. */
#include "base/count.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <float.h>
#include <math.h>

enum {
  STRIP = 256,       /* columns that one thread sums */
  ROWS_AT_ONCE = 64, /* rows of a strip whose squares are added in fp32, before double */
  PIECE = 8192       /* elements of a row whose squares are added in fp32, before double; elements of a step per task */
};

/* ---- squares ----------------------------------------------------------------------------------------------------- */

/* Returns the sum of squares of a row. Pieces of the row are added in double. */
static double row_squares(int64_t columns, float scale, const float *row) {
  double sum = 0;
  for (int64_t first = 0; first < columns; first += PIECE) {
    const int64_t end = first + PIECE < columns ? first + PIECE : columns;
    vf squares = {0};
    FOR_VECTORS(i, count, first, end, {
      const vf g = vf_get(TRI_FP32, row, i, count) * scale;
      squares += g * g;
    });
    sum += vf_sum_double(squares);
  }
  return sum;
}

/* Computes the sums of squares of columns [first, end), at most STRIP. */
static void strip_squares(const tri_matrix_squares *sides, int64_t first, int64_t end, float scale, const float *in,
                          float *out) {
  double sums[STRIP] = {0};
  for (int64_t begin = 0; begin < sides->rows; begin += ROWS_AT_ONCE) {
    const int64_t stop = begin + ROWS_AT_ONCE < sides->rows ? begin + ROWS_AT_ONCE : sides->rows;
    float some[STRIP] = {0};
    for (int64_t r = begin; r < stop; r++) {
      const float *row = in + r * sides->columns + first;
      FOR_VECTORS(i, count, 0, end - first, {
        const vf g = vf_get(TRI_FP32, row, i, count) * scale;
        vf_put(TRI_FP32, some, i, count, vf_get(TRI_FP32, some, i, count) + g * g);
      });
    }
    for (int64_t c = 0; c < end - first; c++) sums[c] += (double)some[c];
  }
  for (int64_t c = 0; c < end - first; c++) out[first + c] = (float)(sides->column_factor * sums[c]);
}

static tri_status matrix_squares(tri_queue *queue, tri_dtype type, const tri_matrix_squares *sides,
                                 const tri_step_values *values, const void *in, void *row_sums, void *column_sums) {
  (void)type;
  const float scale = values == NULL ? 1.0f : (float)values->gradient_scale;
  const int64_t elements = sides->rows * sides->columns;
  float *of_rows = row_sums, *of_columns = column_sums;
#pragma omp parallel num_threads(THREADS) if (elements > TRI_ALONE)
  {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < (of_rows == NULL ? 0 : sides->rows); r++) {
      const float *row = (const float *)in + r * sides->columns;
      of_rows[r] = (float)(sides->row_factor * row_squares(sides->columns, scale, row));
    }
#pragma omp for schedule(static)
    for (int64_t first = 0; first < (of_columns == NULL ? 0 : sides->columns); first += STRIP) {
      const int64_t end = first + STRIP < sides->columns ? first + STRIP : sides->columns;
      strip_squares(sides, first, end, scale, in, of_columns);
    }
  }
  return TRI_OK;
}

/* ---- Adafactor --------------------------------------------------------------------------------------------------- */

INLINE void direction_row(int64_t columns, float ratio, float least, float scale, const float *column,
                          float *direction) {
  FOR_VECTORS(i, count, 0, columns, {
    const vf v = vf_max(vf_get(TRI_FP32, column, i, count) * ratio, vf_splat(least));
    vf_put(TRI_FP32, direction, i, count, vf_get(TRI_FP32, direction, i, count) * scale / vf_root(v));
  });
}

static tri_status adafactor_direction(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                      const tri_step_values *values, const void *row, const void *column,
                                      const tri_adafactor_sums *sums, void *direction) {
  (void)type;
  const float least = (float)tri_larger_double(options->eps[0] * options->eps[0], FLT_MIN);
  const double mean = row == NULL ? 1.0 : tri_larger_double(sums->rows / options->all_rows, options->eps[0]);
  const float scale = (float)values->gradient_scale, *of_rows = row;
#pragma omp parallel for schedule(static) num_threads(THREADS) if (options->rows * options->columns > TRI_ALONE)
  for (int64_t r = 0; r < options->rows; r++) {
    const float ratio = of_rows == NULL ? 1.0f : (float)((double)of_rows[r] / mean);
    direction_row(options->columns, ratio, least, scale, column, (float *)direction + r * options->columns);
  }
  return TRI_OK;
}

static tri_status adafactor_step(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                 const tri_step_values *values, const tri_adafactor_sums *sums, const void *direction,
                                 void *parameter, void *narrow) {
  const bool narrows = narrow != NULL && type == TRI_BF16;
  const int64_t elements = options->rows * options->columns;
  const double lr = values->lr * options->lr_scale, root = 1.0 / sqrt((double)values->update);
  const double size = tri_larger_double(options->eps[1], sqrt(sums->parameter / options->all_elements));
  const double rms = sqrt(sums->direction / options->all_elements);
  const float rate = (float)(size * (lr < root ? lr : root) / tri_larger_double(1.0, rms / options->d));
  const float decay = (float)(1.0 - lr * options->weight_decay);
#pragma omp parallel for schedule(static) num_threads(THREADS) if (elements > TRI_ALONE)
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t end = first + PIECE < elements ? first + PIECE : elements;
    FOR_VECTORS(i, count, first, end, {
      const vf p = vf_get(TRI_FP32, parameter, i, count) * decay - vf_get(TRI_FP32, direction, i, count) * rate;
      vf_put(TRI_FP32, parameter, i, count, p);
      if (narrows) vf_put(TRI_BF16, narrow, i, count, p);
    });
  }
  return TRI_OK;
}

void TRI_KERNEL(table_factored)(tri_device_kernels *table) {
  table->matrix_squares = matrix_squares;
  table->adafactor_direction = adafactor_direction;
  table->adafactor_step = adafactor_step;
}
