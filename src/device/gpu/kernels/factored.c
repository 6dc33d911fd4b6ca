/* Adafactor, and sums of squares along the sides of a matrix [rows, columns]: bound by memory bandwidth. Sums are in
 * double, in an order that depends only on shapes. */
#include "device/gpu/kernels/factored.h"

#include "device/gpu/kernels/rows.h"
#include "device/gpu/kernels/wide.h"

/* Returns the factor of gradients; 1 without values. */
DEVICE wide scale_of(const tri_step_values *values) { return values == 0 ? (wide)1 : (wide)values->gradient_scale; }

DEVICE double larger(double x, double y) { return x > y ? x : y; }

/* ---- squares ----------------------------------------------------------------------------------------------------- */

/* Sums the squares of each row, with one warp per row. */
KERNEL(row_squares) {
  const wide *in = (const wide *)a.in;
  wide *out = (wide *)a.out;
  const wide scale = scale_of(a.values);
  for (int64_t r = block_x() * block_warps() + warp(); r < a.rows; r += blocks_x() * block_warps()) {
    double sum = 0;
    for (int64_t c = lane(); c < a.columns; c += WARP) {
      const wide g = in[r * a.columns + c] * scale;
      sum += (double)g * (double)g;
    }
    sum = warp_sum_double(sum);
    if (lane() == 0) out[r] = (wide)(a.factor * sum);
  }
}

enum { SQUARES_DOWN = column_squares_threads / SQUARES_ACROSS };

typedef struct column_sums {
  double at[SQUARES_DOWN][SQUARES_ACROSS];
} column_sums;

/* Sums the squares of each column, with one block per strip of SQUARES_ACROSS columns. The threads of a block form a
 * grid [SQUARES_DOWN, SQUARES_ACROSS]; each thread sums every SQUARES_DOWN-th row of a column. */
KERNEL(column_squares) {
  SHARED(column_sums, shared);
  const wide *in = (const wide *)a.in;
  wide *out = (wide *)a.out;
  const wide scale = scale_of(a.values);
  const int x = thread() % SQUARES_ACROSS, y = thread() / SQUARES_ACROSS;
  for (int64_t first = block_x() * SQUARES_ACROSS; first < a.columns; first += blocks_x() * SQUARES_ACROSS) {
    const int64_t c = first + x;
    double sum = 0;
    for (int64_t r = y; r < a.rows && c < a.columns; r += SQUARES_DOWN) {
      const wide g = in[r * a.columns + c] * scale;
      sum += (double)g * (double)g;
    }
    shared->at[y][x] = sum;
    barrier();
    for (int i = 1; i < SQUARES_DOWN && y == 0; i++) sum += shared->at[i][x];
    if (y == 0 && c < a.columns) out[c] = (wide)(a.factor * sum);
    barrier();
  }
}

/* ---- Adafactor --------------------------------------------------------------------------------------------------- */

#if TRI_GPU_TYPE == 64
#define LEAST_NORMAL 2.2250738585072014e-308
#else
#define LEAST_NORMAL 1.17549435e-38
#endif

/* Replaces the gradient by gradient_scale * gradient / sqrt(v), where v = row[r] column[c] / max(mean(row), eps).
 * Without `row` (a vector), v is column[c]. v is at least eps^2, and at least the smallest normal number. One block per
 * row. */
KERNEL(adafactor_direction) {
  const wide *row = (const wide *)a.row, *column = (const wide *)a.column;
  wide *direction = (wide *)a.direction;
  const wide scale = scale_of(a.values), least = (wide)larger(a.eps * a.eps, LEAST_NORMAL);
  const double mean = row == 0 ? 1.0 : larger(a.sums[0] / a.all_rows, a.eps);
  for (int64_t r = block_x(); r < a.rows; r += blocks_x()) {
    const wide ratio = row == 0 ? (wide)1 : (wide)((double)row[r] / mean);
    for (int64_t c = thread(); c < a.columns; c += threads()) {
      const wide v = ratio * column[c];
      wide *at = direction + r * a.columns + c;
      *at = *at * scale / wide_sqrt(v > least ? v : least);
    }
  }
}

/* Multiplies the parameter by 1 - lr weight_decay, and subtracts size * min(lr, 1 / sqrt(update)) / clip * direction.
 * size: root mean square of the parameter, at least eps. clip: root mean square of the direction divided by d, at
 * least 1. One thread per element. */
KERNEL(adafactor_step) {
  const wide *direction = (const wide *)a.direction;
  wide *parameter = (wide *)a.parameter;
  element *narrow = (element *)a.narrow;
  const double lr = a.values->lr * a.lr_scale, root = 1.0 / sqrt((double)a.values->update);
  const double size = larger(a.eps, sqrt(a.sums[1] / a.all_elements)), rms = sqrt(a.sums[2] / a.all_elements);
  const wide rate = (wide)(size * (lr < root ? lr : root) / larger(1.0, rms / a.d));
  const wide decay = (wide)(1.0 - lr * a.weight_decay);
  for (int64_t i = block_x() * threads() + thread(); i < a.count; i += blocks_x() * threads()) {
    const wide p = wide_multiply_add(parameter[i], decay, -(rate * direction[i]));
    parameter[i] = p;
    if (narrow != 0) store_narrow(narrow + i, p);
  }
}
