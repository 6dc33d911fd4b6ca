#include "device/reference/reference.h"

#include <math.h>

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_layer_norm_forward(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width, double eps,
                                            const void *x, const void *weight, const void *bias, void *y, void *mean,
                                            void *rstd) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < width; c++) sum += load(type, x, r * width + c);
    double m = sum / (double)width;
    for (int64_t c = 0; c < width; c++) squares += pow(load(type, x, r * width + c) - m, 2.0);
    double s = 1.0 / sqrt(squares / (double)width + eps);
    for (int64_t c = 0; c < width; c++) {
      double value = (load(type, x, r * width + c) - m) * s * load(wide, weight, c);
      if (bias != NULL) value += load(wide, bias, c);
      store(type, y, r * width + c, value);
    }
    store(wide, mean, r, m);
    store(wide, rstd, r, s);
  }
  return TRI_OK;
}

/* With n = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - n mean(g n)). RMS norm is the same without
 * means of x and g. */
static void norm_backward_row(tri_dtype type, int64_t width, int64_t r, const void *gradient_y, const void *x,
                              const void *weight, bool centred, double m, double s, void *gradient_x, bool accumulate) {
  tri_dtype wide = tri_dtype_wide(type);
  double mean_g = 0, mean_gn = 0;
  for (int64_t c = 0; c < width; c++) {
    double g = load(type, gradient_y, r * width + c) * load(wide, weight, c);
    mean_g += g / (double)width;
    mean_gn += g * (load(type, x, r * width + c) - m) * s / (double)width;
  }
  for (int64_t c = 0; c < width; c++) {
    double g = load(type, gradient_y, r * width + c) * load(wide, weight, c);
    double n = (load(type, x, r * width + c) - m) * s;
    double value = s * (g - (centred ? mean_g : 0.0) - n * mean_gn);
    if (accumulate) value += load(type, gradient_x, r * width + c);
    store(type, gradient_x, r * width + c, value);
  }
}

tri_status tri_reference_layer_norm_backward_input(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width,
                                                   const void *gradient_y, const void *x, const void *weight,
                                                   const void *mean, const void *rstd, void *gradient_x,
                                                   bool accumulate) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    norm_backward_row(type, width, r, gradient_y, x, weight, true, load(wide, mean, r), load(wide, rstd, r), gradient_x,
                      accumulate);
  }
  return TRI_OK;
}

tri_status tri_reference_layer_norm_backward_weight(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width,
                                                    const void *gradient_y, const void *x, const void *mean,
                                                    const void *rstd, void *gradient_weight, void *gradient_bias,
                                                    bool accumulate) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t c = 0; c < width; c++) {
    double weight = accumulate ? load(wide, gradient_weight, c) : 0.0;
    double bias = accumulate && gradient_bias != NULL ? load(wide, gradient_bias, c) : 0.0;
    for (int64_t r = 0; r < rows; r++) {
      double dy = load(type, gradient_y, r * width + c);
      double m = mean == NULL ? 0.0 : load(wide, mean, r);
      weight += dy * (load(type, x, r * width + c) - m) * load(wide, rstd, r);
      bias += dy;
    }
    store(wide, gradient_weight, c, weight);
    if (gradient_bias != NULL) store(wide, gradient_bias, c, bias);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_forward(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width, double eps,
                                          const void *x, const void *weight, void *y, void *rstd) {
  (void)queue;
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < rows; r++) {
    double squares = 0;
    for (int64_t c = 0; c < width; c++) squares += pow(load(type, x, r * width + c), 2.0);
    double s = 1.0 / sqrt(squares / (double)width + eps);
    for (int64_t c = 0; c < width; c++) {
      store(type, y, r * width + c, load(type, x, r * width + c) * s * load(wide, weight, c));
    }
    store(wide, rstd, r, s);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_backward_input(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width,
                                                 const void *gradient_y, const void *x, const void *weight,
                                                 const void *rstd, void *gradient_x, bool accumulate) {
  (void)queue;
  for (int64_t r = 0; r < rows; r++) {
    norm_backward_row(type, width, r, gradient_y, x, weight, false, 0.0, load(tri_dtype_wide(type), rstd, r),
                      gradient_x, accumulate);
  }
  return TRI_OK;
}

tri_status tri_reference_rms_norm_backward_weight(tri_queue *queue, tri_dtype type, int64_t rows, int64_t width,
                                                  const void *gradient_y, const void *x, const void *rstd,
                                                  void *gradient_weight, bool accumulate) {
  return tri_reference_layer_norm_backward_weight(queue, type, rows, width, gradient_y, x, NULL, rstd, gradient_weight,
                                                  NULL, accumulate);
}
