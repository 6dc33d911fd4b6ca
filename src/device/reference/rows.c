/* Element-wise kernels (add, scale, copies, activation functions, dropout, rotation), column sums, embedding tables. */
#include "base/random.h"
#include "device/reference/activations.h"
#include "device/reference/reference.h"

#include <math.h>
#include <string.h>

#define load tri_reference_load
#define store tri_reference_store

tri_status tri_reference_add(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a,
                             const void *b, void *out) {
  (void)queue;
  const int64_t live = tri_rows_live(rows) * width;
  for (int64_t i = 0; i < live; i++) store(type, out, i, load(type, a, i) + load(type, b, i));
  return TRI_OK;
}

tri_status tri_reference_scale(tri_queue *queue, tri_dtype type, int64_t count, double factor, const void *x, void *y) {
  const double rounded = tri_dtype_bytes(tri_dtype_wide(type)) == sizeof factor ? factor : (double)(float)factor;
  (void)queue;
  for (int64_t i = 0; i < count; i++) store(type, y, i, rounded * load(type, x, i));
  return TRI_OK;
}

tri_status tri_reference_copy_rows(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows,
                                   const void *from, const int32_t *to_rows, void *to) {
  (void)queue;
  const int64_t live = tri_rows_live(copy->rows);
  const size_t bytes = tri_dtype_bytes(copy->from_type);
  for (int64_t i = 0; i < live; i++) {
    const int64_t from_at = (from_rows == NULL ? i : from_rows[i]) * copy->from_stride;
    const int64_t to_at = (to_rows == NULL ? i : to_rows[i]) * copy->to_stride;
    if (copy->from_type == copy->to_type) { /* NaN keeps its bits, too */
      memcpy((char *)to + (size_t)to_at * bytes, (const char *)from + (size_t)from_at * bytes,
             (size_t)copy->width * bytes);
      continue;
    }
    for (int64_t c = 0; c < copy->width; c++) {
      store(copy->to_type, to, to_at + c, load(copy->from_type, from, from_at + c));
    }
  }
  return TRI_OK;
}

tri_status tri_reference_column_sum(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld,
                                    const void *in, void *out, bool accumulate) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t c = 0; c < width; c++) {
    double sum = 0;
    for (int64_t r = 0; r < live; r++) sum += load(type, in, r * ld + c);
    store(wide, out, c, accumulate ? load(wide, out, c) + sum : sum);
  }
  return TRI_OK;
}

/* ---- embedding --------------------------------------------------------------------------------------------------- */

static bool in_slice(int64_t id, int64_t table_rows) { return id >= 0 && id < table_rows; }

tri_status tri_reference_embedding_forward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *ids, int64_t first_id, int64_t table_rows,
                                           tri_dtype table_type, const void *table, const int32_t *positions,
                                           const void *position_table, void *out) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < live; r++) {
    int64_t id = ids[r] - first_id;
    for (int64_t c = 0; c < width; c++) {
      double value = in_slice(id, table_rows) ? load(table_type, table, id * width + c) : 0.0;
      if (position_table != NULL) value += load(wide, position_table, positions[r] * width + c);
      store(type, out, r * width + c, value);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_embedding_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                            const int32_t *ids, int64_t first_id, int64_t table_rows,
                                            const void *gradient, void *gradient_table) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < live; r++) {
    int64_t id = ids[r] - first_id;
    if (!in_slice(id, table_rows)) continue;
    for (int64_t c = 0; c < width; c++) {
      double sum = load(wide, gradient_table, id * width + c) + load(type, gradient, r * width + c);
      store(wide, gradient_table, id * width + c, sum);
    }
  }
  return TRI_OK;
}

tri_status tri_reference_position_backward(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                           const int32_t *positions, int64_t table_rows, const void *gradient,
                                           void *gradient_table, bool accumulate) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t position = 0; position < table_rows; position++) {
    for (int64_t c = 0; c < width; c++) {
      double sum = accumulate ? load(wide, gradient_table, position * width + c) : 0.0;
      for (int64_t r = 0; r < live; r++) {
        if (positions[r] == position) sum += load(type, gradient, r * width + c);
      }
      store(wide, gradient_table, position * width + c, sum);
    }
  }
  return TRI_OK;
}

/* ---- activations ------------------------------------------------------------------------------------------------- */

tri_status tri_reference_activation_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                            int64_t width, const void *x, void *y) {
  (void)queue;
  const int64_t live = tri_rows_live(rows) * width;
  for (int64_t i = 0; i < live; i++) store(type, y, i, activation(kind, load(type, x, i)));
  return TRI_OK;
}

tri_status tri_reference_activation_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                             int64_t width, const void *x, const void *gradient_y, void *gradient_x) {
  (void)queue;
  const int64_t live = tri_rows_live(rows) * width;
  for (int64_t i = 0; i < live; i++) {
    store(type, gradient_x, i, times_slope(kind, load(type, gradient_y, i), load(type, x, i)));
  }
  return TRI_OK;
}

/* Computes y = weight * act(gate) * up; weights NULL: the weight is 1. */
tri_status tri_reference_weighted_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                                int64_t width, const void *x, const void *weights, void *y) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  for (int64_t r = 0; r < live; r++) {
    double weight = weights == NULL ? 1.0 : load(tri_dtype_wide(type), weights, r);
    for (int64_t c = 0; c < width; c++) {
      double gate = load(type, x, r * 2 * width + c);
      double up = load(type, x, r * 2 * width + width + c);
      store(type, y, r * width + c, weight * (activation(kind, gate) * up));
    }
  }
  return TRI_OK;
}

tri_status tri_reference_gated_forward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                       int64_t width, const void *x, void *y) {
  return tri_reference_weighted_gated_forward(queue, type, kind, rows, width, x, NULL, y);
}

/* Computes the gradients of gate, up and weights. weights NULL: the weight is 1, and gradient_weights is not
 * written. */
tri_status tri_reference_weighted_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                                 int64_t width, const void *x, const void *weights,
                                                 const void *gradient_y, void *gradient_x, void *gradient_weights) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  for (int64_t r = 0; r < live; r++) {
    double sum = 0, weight = weights == NULL ? 1.0 : load(wide, weights, r);
    for (int64_t c = 0; c < width; c++) {
      int64_t gate_at = r * 2 * width + c, up_at = gate_at + width;
      double gate = load(type, x, gate_at);
      double up = load(type, x, up_at);
      double dy = load(type, gradient_y, r * width + c);
      sum += times_activation(kind, dy, gate) * up;
      store(type, gradient_x, gate_at, times_slope(kind, weight * dy * up, gate));
      store(type, gradient_x, up_at, times_activation(kind, weight * dy, gate));
    }
    if (weights != NULL) store(wide, gradient_weights, r, sum);
  }
  return TRI_OK;
}

tri_status tri_reference_gated_backward(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                        int64_t width, const void *x, const void *gradient_y, void *gradient_x) {
  return tri_reference_weighted_gated_backward(queue, type, kind, rows, width, x, NULL, gradient_y, gradient_x, NULL);
}

tri_status tri_reference_dropout(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                                 const tri_step_values *values, const int32_t *rows, const void *x, void *y) {
  (void)queue;
  uint64_t first;
  tri_random_key key = tri_dropout_stream(options, values, &first);
  double threshold = options->probability * 0x1p32;
  const int64_t width = options->width;
  const bool flat = tri_dropout_is_flat(options, rows);
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = flat || rows == NULL ? 0 : rows[i / width] - i / width;
    const int64_t index = flat ? i : (row + i / width) * tri_dropout_row(options) + i % width;
    bool kept = (double)tri_random_u32(key, first + (uint64_t)index) >= threshold;
    store(type, y, i, kept ? load(type, x, i) / (1.0 - options->probability) : 0.0);
  }
  return TRI_OK;
}

tri_status tri_reference_rope(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                              int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                              const void *sine, bool inverse, void *x) {
  (void)queue;
  const int64_t live = tri_rows_live(rows);
  tri_dtype wide = tri_dtype_wide(type);
  int64_t half = head_dim / 2;
  for (int64_t r = 0; r < live; r++) {
    int64_t angles = positions[r] * half;
    for (int64_t h = 0; h < heads; h++) {
      for (int64_t d = 0; d < half; d++) {
        int64_t at = r * row_elements + h * head_stride + d;
        double c = load(wide, cosine, angles + d);
        double s = load(wide, sine, angles + d) * (inverse ? -1.0 : 1.0);
        double low = load(type, x, at), high = load(type, x, at + half);
        store(type, x, at, low * c - high * s);
        store(type, x, at + half, high * c + low * s);
      }
    }
  }
  return TRI_OK;
}
