/* Layer norm, RMS norm, and sums over rows.
 *
 * Along a row: a thread owns whole pieces of rows. Each piece is read from memory once, and then from the L1 cache.
 * Down the columns (gradients of weights and biases): a thread owns a strip of columns and walks down all rows, with
 * the sums in registers; every BLOCK rows they are added to a total, which keeps the rounding error of long sums small.
 * No result depends on the number of threads. */
#include "device/cpu/kernels/by_type.h"
#include "device/cpu/kernels/kernels.h"
#include "device/cpu/kernels/vector.h"

#include <math.h>
#include <stddef.h>

/* ---- along rows -------------------------------------------------------------------------------------------------- */

INLINE float row_sum(tri_dtype type, const void *x, int64_t at, int64_t width) {
  vf sum = (vf){0};
  FOR_VECTORS(c, count, 0, width, { sum += vf_get(type, x, at + c, count); });
  return vf_sum(sum);
}

/* Returns the sum of (x - mean)^2; lanes beyond the row must not count. */
INLINE float row_squares(tri_dtype type, const void *x, int64_t at, int64_t width, float mean) {
  vf sum = (vf){0};
  int64_t c = 0;
  for (; c + LANES <= width; c += LANES) {
    vf d = vf_load(type, x, at + c) - mean;
    sum += d * d;
  }
  if (c < width) {
    vf d = vf_load_some(type, x, at + c, width - c, mean) - mean;
    sum += d * d;
  }
  return vf_sum(sum);
}

/* Indices of the first element of a piece in x and in y. Pieces are numbered row after row. */
typedef struct place {
  int64_t x, y;
} place;

INLINE place norm_piece_place(const tri_norm *norm, int64_t i) {
  int64_t row = i / norm->groups, group = i % norm->groups;
  return (place){row * norm->x_row + group * norm->x_group, row * norm->y_row + group * norm->y_group};
}

INLINE vf factor_of(const float *weight, float offset, int64_t c, int64_t count) {
  return vf_get(TRI_FP32, weight, c, count) + offset;
}

INLINE void norm_piece(tri_dtype type, const tri_norm *norm, place at, const void *x, const float *weight,
                       const float *bias, float mean, float rstd, void *y) {
  const float offset = (float)norm->offset;
  FOR_VECTORS(c, count, 0, norm->width, {
    vf value = (vf_get(type, x, at.x + c, count) - mean) * rstd * factor_of(weight, offset, c, count);
    if (bias != NULL) value += vf_get(TRI_FP32, bias, c, count);
    vf_put(type, y, at.y + c, count, value);
  });
}

/* Returns the input of the norm: x, or, with a branch, x + branch, which is stored in `sum` and still in the L1
 * cache. */
INLINE const void *add_branch(tri_dtype type, int64_t width, int64_t at, const void *x, const void *branch, void *sum) {
  if (branch == NULL) return x;
  FOR_VECTORS(c, count, 0, width, {
    vf_put(type, sum, at + c, count, vf_get(type, x, at + c, count) + vf_get(type, branch, at + c, count));
  });
  return sum;
}

/* Begins the loop of the kernels along rows: over the pieces, which the threads share. */
#define PARALLEL_PIECES                                                                                                \
  const tri_dtype type = norm->type;                                                                                   \
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups;                                                     \
  _Pragma(                                                                                                             \
      "omp parallel for schedule(static) num_threads(THREADS) if (pieces * norm->width > TRI_ALONE)") /* the loop */   \
      for (int64_t i = 0; i < pieces; i++)

INLINE void layer_norm_piece(tri_dtype type, const tri_norm *norm, int64_t i, const void *given, const void *branch,
                             void *sum, const float *weight, const float *bias, void *y, float *mean, float *rstd) {
  const int64_t width = norm->width;
  const place at = norm_piece_place(norm, i);
  const void *x = add_branch(type, width, at.x, given, branch, sum);
  float m = row_sum(type, x, at.x, width) / (float)width;
  float variance = row_squares(type, x, at.x, width, m) / (float)width;
  float s = (float)(1.0 / sqrt((double)variance + norm->eps));
  norm_piece(type, norm, at, x, weight, bias, m, s, y);
  mean[i] = m;
  rstd[i] = s;
}

static tri_status layer_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                     void *sum, const void *weight, const void *bias, void *y, void *mean, void *rstd) {
  PARALLEL_PIECES { BY_TYPE(layer_norm_piece, norm, i, x, branch, sum, weight, bias, y, mean, rstd); }
  return TRI_OK;
}

INLINE void rms_norm_piece(tri_dtype type, const tri_norm *norm, int64_t i, const void *given, const void *branch,
                           void *sum, const float *weight, void *y, float *rstd) {
  const int64_t width = norm->width;
  const place at = norm_piece_place(norm, i);
  const void *x = add_branch(type, width, at.x, given, branch, sum);
  float square = row_squares(type, x, at.x, width, 0.0f) / (float)width;
  float s = (float)(1.0 / sqrt((double)square + norm->eps));
  norm_piece(type, norm, at, x, weight, NULL, 0.0f, s, y);
  rstd[i] = s;
}

static tri_status rms_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch, void *sum,
                                   const void *weight, void *y, void *rstd) {
  PARALLEL_PIECES { BY_TYPE(rms_norm_piece, norm, i, x, branch, sum, weight, y, rstd); }
  return TRI_OK;
}

/* Computes dx. With n = (x - mean) rstd and g = dy (weight + offset): dx = rstd (g - mean(g) - n mean(g n)); RMS norm
 * does not have mean(g). */
INLINE void backward_piece(tri_dtype type, const tri_norm *norm, place at, const void *gradient_y, const void *x,
                           const float *weight, bool centred, float mean, float rstd, void *gradient_x,
                           bool accumulate) {
  const int64_t width = norm->width;
  const float offset = (float)norm->offset;
  vf sum_g = (vf){0}, sum_gn = (vf){0};
  FOR_VECTORS(c, count, 0, width, {
    vf g = vf_get(type, gradient_y, at.y + c, count) * factor_of(weight, offset, c, count);
    sum_g += g; /* 0 in lanes beyond the piece */
    sum_gn += g * ((vf_get(type, x, at.x + c, count) - mean) * rstd);
  });
  float mean_g = centred ? vf_sum(sum_g) / (float)width : 0.0f;
  float mean_gn = vf_sum(sum_gn) / (float)width;
  FOR_VECTORS(c, count, 0, width, {
    vf g = vf_get(type, gradient_y, at.y + c, count) * factor_of(weight, offset, c, count);
    vf n = (vf_get(type, x, at.x + c, count) - mean) * rstd;
    vf value = (g - mean_g - n * mean_gn) * rstd;
    if (accumulate) value += vf_get(type, gradient_x, at.x + c, count);
    vf_put(type, gradient_x, at.x + c, count, value);
  });
}

static tri_status layer_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                            const void *x, const void *weight, const void *mean, const void *rstd,
                                            void *gradient_x, bool accumulate) {
  PARALLEL_PIECES {
    const place at = norm_piece_place(norm, i);
    float m = ((const float *)mean)[i], s = ((const float *)rstd)[i];
    if (accumulate) {
      BY_TYPE(backward_piece, norm, at, gradient_y, x, weight, true, m, s, gradient_x, true);
    } else {
      BY_TYPE(backward_piece, norm, at, gradient_y, x, weight, true, m, s, gradient_x, false);
    }
  }
  return TRI_OK;
}

static tri_status rms_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                          const void *weight, const void *rstd, void *gradient_x, bool accumulate) {
  PARALLEL_PIECES {
    const place at = norm_piece_place(norm, i);
    float s = ((const float *)rstd)[i];
    BY_TYPE(backward_piece, norm, at, gradient_y, x, weight, false, 0.0f, s, gradient_x, accumulate);
  }
  return TRI_OK;
}

/* ---- down columns ------------------------------------------------------------------------------------------------ */

enum { STRIP = 4, BLOCK = 64 }; /* vectors of a strip; rows between additions to the total */

INLINE int64_t num_strips(int64_t width) { return (width + STRIP * LANES - 1) / (STRIP * LANES); }

INLINE int64_t strip_columns(int64_t width, int64_t column) {
  return width - column < STRIP * LANES ? width - column : STRIP * LANES;
}

typedef struct columns_job {
  tri_norm norm;
  const void *gradient_y, *x;             /* x is NULL if only gradient_bias is requested */
  const float *mean, *rstd;               /* mean is NULL for RMS norm */
  float *gradient_weight, *gradient_bias; /* may be NULL */
  bool accumulate;
} columns_job;

/* Computes sums over pieces of dy (bias) and of dy (x - mean) rstd (weight) for columns [column, column + columns).
 * If x is NULL, computes only the sums of dy. */
INLINE void sum_strip(tri_dtype type, const columns_job *job, int64_t column, int64_t columns, const void *x,
                      const float *mean, vf total_b[STRIP], vf total_w[STRIP]) {
  const tri_norm *norm = &job->norm;
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups;
  const void *gradient_y = job->gradient_y;
  for (int v = 0; v < STRIP; v++) total_b[v] = total_w[v] = (vf){0};
  for (int64_t block = 0; block < pieces; block += BLOCK) {
    int64_t end = block + BLOCK < pieces ? block + BLOCK : pieces;
    int64_t row = block / norm->groups, group = block % norm->groups; /* row and group of piece r */
    vf b[STRIP], w[STRIP];
    for (int v = 0; v < STRIP; v++) b[v] = w[v] = (vf){0};
    for (int64_t r = block; r < end; r++) {
      int64_t y_at = row * norm->y_row + group * norm->y_group + column;
      int64_t x_at = row * norm->x_row + group * norm->x_group + column;
      float m = mean == NULL ? 0.0f : mean[r];
      float s = x == NULL ? 0.0f : job->rstd[r];
      for (int v = 0; v < STRIP; v++) {
        int64_t count = columns - v * LANES < LANES ? columns - v * LANES : LANES;
        if (count <= 0) break;
        vf dy = vf_get(type, gradient_y, y_at + v * LANES, count);
        b[v] += dy;
        if (x != NULL) w[v] += dy * ((vf_get(type, x, x_at + v * LANES, count) - m) * s);
      }
      if (++group == norm->groups) {
        group = 0;
        row++;
      }
    }
    for (int v = 0; v < STRIP; v++) {
      total_b[v] += b[v];
      total_w[v] += w[v];
    }
  }
}

INLINE void store_strip(float *out, int64_t column, int64_t columns, const vf total[STRIP], bool accumulate) {
  for (int v = 0; v < STRIP; v++) {
    int64_t count = columns - v * LANES < LANES ? columns - v * LANES : LANES;
    if (count <= 0) break;
    int64_t at = column + v * LANES;
    vf before = accumulate ? vf_get(TRI_FP32, out, at, count) : (vf){0};
    vf_put(TRI_FP32, out, at, count, before + total[v]);
  }
}

/* Computes the sums of a strip. The function is inlined once for each of its three callers, so that NULL arguments are
 * constants inside the loops. */
INLINE void columns_strip(tri_dtype type, const columns_job *job, const void *x, const float *mean, int64_t column) {
  int64_t columns = strip_columns(job->norm.width, column);
  vf total_b[STRIP], total_w[STRIP];
  if (columns == STRIP * LANES) {
    sum_strip(type, job, column, STRIP * LANES, x, mean, total_b, total_w);
  } else {
    sum_strip(type, job, column, columns, x, mean, total_b, total_w);
  }
  if (job->gradient_weight != NULL) store_strip(job->gradient_weight, column, columns, total_w, job->accumulate);
  if (job->gradient_bias != NULL) store_strip(job->gradient_bias, column, columns, total_b, job->accumulate);
}

static tri_status sum_columns(const tri_queue *queue, const columns_job *job) {
  const tri_norm *norm = &job->norm;
  const tri_dtype type = norm->type;
  int64_t strips = num_strips(norm->width);
#pragma omp parallel for schedule(static)                                                                              \
    num_threads(THREADS) if (tri_rows_live(norm->rows) * norm->groups * norm->width > TRI_ALONE)
  for (int64_t i = 0; i < strips; i++) {
    int64_t column = i * STRIP * LANES;
    if (job->x == NULL) {
      BY_TYPE(columns_strip, job, NULL, NULL, column);
    } else if (job->mean == NULL) {
      BY_TYPE(columns_strip, job, job->x, NULL, column);
    } else {
      BY_TYPE(columns_strip, job, job->x, job->mean, column);
    }
  }
  return TRI_OK;
}

static tri_status layer_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                             const void *x, const void *mean, const void *rstd, void *gradient_weight,
                                             void *gradient_bias, bool accumulate) {
  columns_job job = {*norm, gradient_y, x, mean, rstd, gradient_weight, gradient_bias, accumulate};
  return sum_columns(queue, &job);
}

static tri_status rms_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                           const void *x, const void *rstd, void *gradient_weight, bool accumulate) {
  columns_job job = {*norm, gradient_y, x, NULL, rstd, gradient_weight, NULL, accumulate};
  return sum_columns(queue, &job);
}

static tri_status column_sum(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld, const void *in,
                             void *out, bool accumulate) {
  columns_job job = {tri_norm_of_rows(type, rows, width, 0), in, NULL, NULL, NULL, NULL, out, accumulate};
  job.norm.y_row = ld;
  return sum_columns(queue, &job);
}

void TRI_KERNEL(table_norm)(tri_device_kernels *table) {
  table->layer_norm_forward = layer_norm_forward;
  table->layer_norm_backward_input = layer_norm_backward_input;
  table->layer_norm_backward_weight = layer_norm_backward_weight;
  table->rms_norm_forward = rms_norm_forward;
  table->rms_norm_backward_input = rms_norm_backward_input;
  table->rms_norm_backward_weight = rms_norm_backward_weight;
  table->column_sum = column_sum;
}
