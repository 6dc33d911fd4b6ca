/* Arguments of element-wise kernels: kernels/elements.c. */
#ifndef TRI_DEVICE_GPU_KERNELS_ELEMENTS_H
#define TRI_DEVICE_GPU_KERNELS_ELEMENTS_H

#include "device/activation.h"
#include "device/dropout.h"
#include "device/gpu/kernels/threads.h"

#include <stdint.h>

/* Each kernel and the number of threads of its blocks. */
#define TRI_GPU_KERNELS_elements(K)                                                                                    \
  K(add, 256)                                                                                                          \
  K(scale, 256)                                                                                                        \
  K(convert, 256)                                                                                                      \
  K(copy_rows, 256)                                                                                                    \
  K(activation_forward, 256)                                                                                           \
  K(activation_backward, 256)                                                                                          \
  K(gated_forward, 256)                                                                                                \
  K(gated_backward, 256)                                                                                               \
  K(weighted_gated_backward, 256)                                                                                      \
  K(dropout, 256)                                                                                                      \
  K(rope, 256)
enum { TRI_GPU_KERNELS_elements(TRI_GPU_THREADS) };

/* out = a + b: `width` elements per row. */
typedef struct add_arguments {
  const void *a, *b;
  void *out;
  int64_t capacity, width;
  const int32_t *count; /* number of rows; NULL: `capacity` rows */
} add_arguments;

/* y = factor x, with the factor in the wide type. */
typedef struct scale_arguments {
  const void *x;
  void *y;
  int64_t count;
  double factor;
} scale_arguments;

/* Conversion of elements to a different type with `to_bits` bits (64, 32, 16). */
typedef struct convert_arguments {
  const void *in;
  void *out;
  int64_t count;
  int32_t to_bits;
  int32_t no_padding;
} convert_arguments;

/* Copies rows of `width` elements. from_rows and to_rows are the numbers of the rows; NULL: 0, 1, ... If to_bits is
 * TRI_GPU_TYPE, elements are copied bitwise; otherwise they are converted. */
typedef struct copy_rows_arguments {
  const void *from;
  void *to;
  const int32_t *from_rows, *to_rows;
  int64_t capacity, width, from_stride, to_stride;
  const int32_t *count;
  int32_t to_bits;
  int32_t no_padding;
} copy_rows_arguments;

/* y = activation(x), [capacity, width]. */
typedef struct activation_forward_arguments {
  const void *x;
  void *y;
  int64_t capacity, width;
  const int32_t *count;
  int32_t kind; /* a tri_activation */
  int32_t no_padding;
} activation_forward_arguments;

/* gradient_x = gradient_y times the derivative at x. */
typedef struct activation_backward_arguments {
  const void *x, *gradient_y;
  void *gradient_x;
  int64_t capacity, width;
  const int32_t *count;
  int32_t kind;
  int32_t no_padding;
} activation_backward_arguments;

/* y[capacity, width] = activation(gate) * up, times the row's weight. A row of x is `width` gates, followed by `width`
 * ups. */
typedef struct gated_forward_arguments {
  const void *x, *weights; /* weights of rows, wide; may be NULL */
  void *y;
  int64_t capacity, width;
  const int32_t *count;
  int32_t kind;
  int32_t no_padding;
} gated_forward_arguments;

typedef struct gated_backward_arguments {
  const void *x, *gradient_y;
  void *gradient_x;
  int64_t capacity, width;
  const int32_t *count;
  int32_t kind;
  int32_t no_padding;
} gated_backward_arguments;

/* Weights, and their gradients, are wide. */
typedef struct weighted_gated_backward_arguments {
  const void *x, *weights, *gradient_y;
  void *gradient_x, *gradient_weights;
  int64_t capacity, width;
  const int32_t *count;
  int32_t kind;
  int32_t no_padding;
} weighted_gated_backward_arguments;

/* An element is kept if its random word is at least `threshold`. */
typedef struct dropout_arguments {
  const void *x;
  void *y;
  const tri_step_values *values;
  const int32_t *rows; /* number of each row of options.width elements; NULL: 0, 1, ... */
  int64_t count;
  tri_dropout options;
  uint32_t threshold;
  int32_t no_padding;
} dropout_arguments;

/* Rotates the first head_dim elements of each head of x in place; a model may rotate only a part of each head. Element
 * d of the first half of these elements is rotated with element d of the second half, by the angle of the row's
 * position. `inverse` rotates back, for the backward. A row has row_elements elements; its heads
 * are head_stride elements apart. */
typedef struct rope_arguments {
  void *x;
  const int32_t *positions;
  const void *cosine, *sine; /* [positions, head_dim / 2], wide */
  int64_t capacity, row_elements, heads, head_stride, head_dim;
  const int32_t *count;
  int32_t inverse;
  int32_t no_padding;
} rope_arguments;

#endif
