/* The kernels of a device: one table of functions that queue work, which kernels.def lists.
 *
 * Pointers are device memory (device.h), except for descriptions of calls, which are copied when the call is queued. A
 * call that returns TRI_OK has been queued; the work in a queue runs in order. Conventions that hold for every kernel:
 *
 *  - Matrices are row-major and dense unless a leading dimension (`ld...`, in elements) is given.
 *  - `type` is the type of activations and of their gradients (fp32, bf16 or fp64). "wide" is tri_dtype_wide(type):
 *    parameters, gradients of parameters, row statistics and losses have that type. Arithmetic is in the wide type or
 *    better; a bf16 result is rounded to nearest even once, when it is stored.
 *  - `accumulate` adds to the output instead of writing it.
 *  - The result does not depend on the number of threads, and two calls on equal inputs give equal bits.
 *  - An output may be the same buffer as an input only if a comment says "in place".
 *  - A kernel writes only its output; it does not read beyond its inputs.
 *  - Row counts of zero are legal and do nothing.
 *  - `tri_rows` has the capacity of an array in rows and, if only the device knows it, the address of the actual
 *    number. Rows beyond that number are neither read nor written.
 *  - `positions` has the position of each row in its sequence: device memory, since it differs from batch to batch
 *    (documents restart at 0, shares of a sequence are not contiguous). The caller keeps it within the tables.
 *
 * NULL in the table means "not supported"; TRI_KERNEL_CALL then fails with the kernel's name.
 *
 * Letters: R rows (tokens), C width, V vocabulary, B batch, T positions, H heads, G key/value heads, D head size. */
#ifndef TRI_DEVICE_KERNELS_H
#define TRI_DEVICE_KERNELS_H

#include "base/each.h"
#include "base/router.h"
#include "device/activation.h"
#include "device/block_weights.h"
#include "device/completions.h"
#include "device/description.h"
#include "device/dropout.h"
#include "device/logit_query.h"
#include "device/nf4.h"
#include "device/policy.h"
#include "device/queue.h"
#include "device/step_values.h"

/* Settings of optimizers. `lr_scale` multiplies the step's learning rate. */
typedef struct tri_adamw {
  double beta1, beta2, eps, weight_decay, lr_scale;
} tri_adamw;

typedef struct tri_lion {
  double beta1, beta2, weight_decay, lr_scale;
} tri_lion;

typedef struct tri_sgd {
  double momentum, weight_decay, lr_scale;
  bool nesterov;
} tri_sgd;

typedef struct tri_momentum {
  double beta;
  bool nesterov;
} tri_momentum;

/* A copy of a matrix: element [r, c] is in[r * in_row + c], and goes to out[r * out_row + c * out_column]. Either
 * out_row or out_column is 1: with out_row 1 the copy is transposed. */
typedef struct tri_matrix_copy {
  int64_t rows, columns, in_row, out_row, out_column;
} tri_matrix_copy;

/* An update of a parameter by a step x. Element [r, c] of the parameter is parameter[r * parameter_row + c], and
 * element [r, c] of the step is x[r * x_row + c * x_column]; either x_row or x_column is 1. */
typedef struct tri_matrix_step {
  int64_t rows, columns, parameter_row, x_row, x_column;
  double weight_decay, lr_scale;
  double scale; /* factor of x, in addition to the learning rate */
} tri_matrix_step;

/* Sums of squares of a matrix [rows, columns] along each side, each multiplied by a factor. */
typedef struct tri_matrix_squares {
  int64_t rows, columns;
  double row_factor, column_factor;
} tri_matrix_squares;

/* Adafactor, for a part [rows, columns] of a tensor that has all_rows rows and all_elements elements. */
typedef struct tri_adafactor {
  int64_t rows, columns;
  double all_rows, all_elements;
  double eps[2], d, weight_decay, lr_scale;
} tri_adafactor;

/* Sums over the whole tensor that Adafactor's kernels exchange: of the rows' means of squares, and of squares of the
 * parameter and of the direction. */
typedef struct tri_adafactor_sums {
  double rows, parameter, direction;
} tri_adafactor_sums;

/* The part of a gradient [rows, columns] outside of a subspace. by_rows: whether rows were projected; false: columns.
 */
typedef struct tri_low_rank_rest {
  int64_t rows, columns;
  bool by_rows;
  double scale;
} tri_low_rank_rest;

/* An update of a parameter [rows, columns] by a step x. Rows of the parameter are parameter_row elements apart, rows of
 * x are x_row elements apart. */
typedef struct tri_low_rank_step {
  int64_t rows, columns, parameter_row, x_row;
  double beta1, beta2, weight_decay, lr_scale, scale;
} tri_low_rank_step;

/* out = factors[0] I + factors[1] a + factors[2] b, for matrices [size, size]. */
typedef struct tri_matrix_polynomial {
  int64_t size;
  double factors[3];
} tri_matrix_polynomial;

/* Number of elements of a block that has its own scale, for optimizer states in 8 bits. */
enum { TRI_QUANTISED_BLOCK = 256 };

/* Rows 0 .. min(*count, capacity) - 1 of an array; `count` is in device memory, or NULL: all rows.
 *
 * Examples are the rows of an expert, and the part of a sequence that a rank gets in a batch: memory plans and recorded
 * steps only know the maximum number of these rows, and the kernels read the actual one. Kernels take a tri_rows if
 * they would be wrong without it (they sum over rows, or read tables by ids or positions that were not set), or to save
 * work in an expert's feed-forward part. Other kernels do not need it: attention reads the rows of its slices, the loss
 * those that have labels; convert, scale, dropout and fill_zero process the whole array, and the results beyond the
 * count are not read. For GEMMs of a counted number of rows use grouped_matmul with one group, since plans and packed
 * weights of `matmul` depend on m. */
typedef struct tri_rows {
  int64_t capacity;
  const int32_t *count;
} tri_rows;

static inline tri_rows tri_all_rows(int64_t rows) { return (tri_rows){rows, NULL}; }

/* Returns the actual number of rows, for kernels that run on the host. */
static inline int64_t tri_rows_live(tri_rows rows) {
  if (rows.count == NULL || *rows.count >= rows.capacity) return rows.capacity;
  return *rows.count < 0 ? 0 : *rows.count;
}

/* The pieces that a norm normalises: `groups` pieces of `width` elements in each row, all with the same weights: a
 * whole row, or the heads of q in a row of q, k and v. Element c of piece g of row r of x and of its gradient is at
 * index r * x_row + g * x_group + c; y and its gradient have y_row and y_group. Strides are in elements. The normalised
 * values are multiplied by weight + offset; offset is 0, or 1 if the stored weights are differences from 1 (Gemma). */
typedef struct tri_norm {
  tri_dtype type;
  tri_rows rows;
  int64_t groups, width;
  int64_t x_row, x_group, y_row, y_group;
  double eps, offset;
} tri_norm;

/* Returns a norm of whole, dense rows. */
static inline tri_norm tri_norm_of_rows(tri_dtype type, tri_rows rows, int64_t width, double eps) {
  return (tri_norm){type, rows, 1, width, width, width, width, width, eps, 0};
}

/* A copy of rows of `width` elements from one matrix to another; strides in elements. */
typedef struct tri_row_copy {
  tri_rows rows;
  int64_t width;
  tri_dtype from_type, to_type;
  int64_t from_stride, to_stride;
} tri_row_copy;

typedef struct tri_device_kernels {
#define TRI_KERNEL_PARAMETER(argument) , TRI_PAIR_DECLARED(argument)
#define TRI_KERNEL(name, ...) tri_status (*name)(tri_queue * queue TRI_EACH(TRI_KERNEL_PARAMETER, __VA_ARGS__));
#include "device/kernels.def"
} tri_device_kernels;

/* Queues a kernel, and returns from the calling function if that fails: with TRI_UNSUPPORTED and the kernel's name
 * if the device does not have it. */
#define TRI_KERNEL_CALL(queue_, kernel_, ...)                                                                          \
  do {                                                                                                                 \
    if ((queue_)->device->kernels->kernel_ == NULL) {                                                                  \
      return tri_fail(TRI_UNSUPPORTED, "the device %s has no kernel `%s`", (queue_)->device->info.name, #kernel_);     \
    }                                                                                                                  \
    TRI_TRY((queue_)->device->kernels->kernel_((queue_), __VA_ARGS__));                                                \
  } while (0)

#endif
