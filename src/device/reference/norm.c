/* Layer norm and RMS norm of pieces of rows (tri_norm). */
#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

/* Return the index of the first element of piece i in x, and in y. Pieces are numbered row after row. */
static int64_t x_at(const tri_norm *n, int64_t i) { return i / n->groups * n->x_row + i % n->groups * n->x_group; }
static int64_t y_at(const tri_norm *n, int64_t i) { return i / n->groups * n->y_row + i % n->groups * n->y_group; }

/* Returns the input of the norm: x if `branch` is NULL; else x + branch, stored in `sum`. */
static const void *add_branch(const tri_norm *norm, const void *x, const void *branch, void *sum) {
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups;
  if (branch == NULL) return x;
  for (int64_t i = 0; i < pieces; i++) {
    const int64_t first = x_at(norm, i);
    for (int64_t c = first; c < first + norm->width; c++) {
      store(norm->type, sum, c, load(norm->type, x, c) + load(norm->type, branch, c));
    }
  }
  return sum;
}

tri_status tri_reference_layer_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                            void *sum_out, const void *weight, const void *bias, void *y, void *mean,
                                            void *rstd) {
  (void)queue;
  x = add_branch(norm, x, branch, sum_out);
  const tri_dtype type = norm->type, wide = tri_dtype_wide(type);
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups, width = norm->width;
  for (int64_t i = 0; i < pieces; i++) {
    const int64_t x_first = x_at(norm, i), y_first = y_at(norm, i);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < width; c++) sum += load(type, x, x_first + c);
    double m = sum / (double)width;
    for (int64_t c = 0; c < width; c++) squares += pow(load(type, x, x_first + c) - m, 2.0);
    double s = 1.0 / sqrt(squares / (double)width + norm->eps);
    for (int64_t c = 0; c < width; c++) {
      double value = (load(type, x, x_first + c) - m) * s * (load(wide, weight, c) + norm->offset);
      if (bias != NULL) value += load(wide, bias, c);
      store(type, y, y_first + c, value);
    }
    store(wide, mean, i, m);
    store(wide, rstd, i, s);
  }
  return TRI_OK;
}

/* Computes dx. With n = (x - mean) rstd and g = dy (weight + offset): dx = rstd (g - mean(g) - n mean(g n)). RMS
 * norm is the same without means of x and g. */
static void norm_backward_piece(const tri_norm *norm, int64_t i, const void *gradient_y, const void *x,
                                const void *weight, bool centred, double m, double s, void *gradient_x,
                                bool accumulate) {
  const tri_dtype type = norm->type, wide = tri_dtype_wide(type);
  const int64_t width = norm->width, x_first = x_at(norm, i), y_first = y_at(norm, i);
  double mean_g = 0, mean_gn = 0;
  for (int64_t c = 0; c < width; c++) {
    double g = load(type, gradient_y, y_first + c) * (load(wide, weight, c) + norm->offset);
    mean_g += g / (double)width;
    mean_gn += g * (load(type, x, x_first + c) - m) * s / (double)width;
  }
  for (int64_t c = 0; c < width; c++) {
    double g = load(type, gradient_y, y_first + c) * (load(wide, weight, c) + norm->offset);
    double n = (load(type, x, x_first + c) - m) * s;
    double value = s * (g - (centred ? mean_g : 0.0) - n * mean_gn);
    if (accumulate) value += load(type, gradient_x, x_first + c);
    store(type, gradient_x, x_first + c, value);
  }
}

tri_status tri_reference_layer_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                   const void *x, const void *weight, const void *mean,
                                                   const void *rstd, void *gradient_x, bool accumulate) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(norm->type);
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups;
  for (int64_t i = 0; i < pieces; i++) {
    norm_backward_piece(norm, i, gradient_y, x, weight, true, load(wide, mean, i), load(wide, rstd, i), gradient_x,
                        accumulate);
  }
  return TRI_OK;
}

tri_status tri_reference_layer_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                    const void *x, const void *mean, const void *rstd,
                                                    void *gradient_weight, void *gradient_bias, bool accumulate) {
  (void)queue;
  const tri_dtype type = norm->type, wide = tri_dtype_wide(type);
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups, width = norm->width;
  for (int64_t c = 0; c < width; c++) {
    double weight = accumulate ? load(wide, gradient_weight, c) : 0.0;
    double bias = accumulate && gradient_bias != NULL ? load(wide, gradient_bias, c) : 0.0;
    for (int64_t i = 0; i < pieces; i++) {
      double dy = load(type, gradient_y, y_at(norm, i) + c);
      double m = mean == NULL ? 0.0 : load(wide, mean, i);
      weight += dy * (load(type, x, x_at(norm, i) + c) - m) * load(wide, rstd, i);
      bias += dy;
    }
    store(wide, gradient_weight, c, weight);
    if (gradient_bias != NULL) store(wide, gradient_bias, c, bias);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_forward(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch,
                                          void *sum, const void *weight, void *y, void *rstd) {
  (void)queue;
  x = add_branch(norm, x, branch, sum);
  const tri_dtype type = norm->type, wide = tri_dtype_wide(type);
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups, width = norm->width;
  for (int64_t i = 0; i < pieces; i++) {
    const int64_t x_first = x_at(norm, i), y_first = y_at(norm, i);
    double squares = 0;
    for (int64_t c = 0; c < width; c++) squares += pow(load(type, x, x_first + c), 2.0);
    double s = 1.0 / sqrt(squares / (double)width + norm->eps);
    for (int64_t c = 0; c < width; c++) {
      store(type, y, y_first + c, load(type, x, x_first + c) * s * (load(wide, weight, c) + norm->offset));
    }
    store(wide, rstd, i, s);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_backward_input(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                 const void *x, const void *weight, const void *rstd, void *gradient_x,
                                                 bool accumulate) {
  (void)queue;
  const tri_dtype wide = tri_dtype_wide(norm->type);
  const int64_t pieces = tri_rows_live(norm->rows) * norm->groups;
  for (int64_t i = 0; i < pieces; i++) {
    norm_backward_piece(norm, i, gradient_y, x, weight, false, 0.0, load(wide, rstd, i), gradient_x, accumulate);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_backward_weight(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                                  const void *x, const void *rstd, void *gradient_weight,
                                                  bool accumulate) {
  return tri_reference_layer_norm_backward_weight(queue, norm, gradient_y, x, NULL, rstd, gradient_weight, NULL,
                                                  accumulate);
}
