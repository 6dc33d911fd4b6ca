/* The kernels of a device: one table of functions that queue work.
 *
 * Pointers are device memory (device.h), but for descriptions of calls, which are copied as the call is queued. A call
 * that returns TRI_OK has been queued; what is in a queue is done in order. Conventions that hold for every kernel:
 *
 *  - Matrices are row-major and dense unless a leading dimension (`ld...`, in elements) is given.
 *  - `type` is the type of activations and of their gradients (fp32, bf16 or fp64). "wide" is tri_dtype_wide(type):
 *    parameters, gradients of parameters, row statistics and losses have that type. Arithmetic is done in the wide
 *    type or better; a bf16 result is rounded to nearest even once, when it is stored.
 *  - `accumulate` adds to the output instead of writing it.
 *  - The result does not depend on the number of threads, and two calls on equal inputs give equal bits.
 *  - An output may be the same buffer as an input only where a comment says "in place".
 *  - A kernel writes its output and nothing else; it reads nothing beyond its inputs.
 *  - Row counts of zero are legal and do nothing.
 *  - `tri_rows` says how many rows an array has room for and, where only the device knows it, how many there are. Rows
 *    from there on are neither read nor written.
 *  - `positions` has the position of each row in its sequence: device memory, since it differs from batch to batch
 *    (documents begin anew, shares of a sequence do not lie side by side). Whoever fills it keeps it within the tables.
 *
 * An empty slot in the table means "not supported" and the callers say so by the kernel's name.
 *
 * Letters: R rows (tokens), C width, V vocabulary, B batch, T positions, H heads, G key/value heads, D head size. */
#ifndef TRI_DEVICE_KERNELS_H
#define TRI_DEVICE_KERNELS_H

#include "base/exact_sum.h"
#include "base/random.h"
#include "device/description.h"
#include "device/dropout.h"
#include "device/queue.h"
#include "device/step_values.h"

typedef struct tri_adamw {
  double beta1, beta2, eps, weight_decay;
} tri_adamw;

/* Rows 0 .. min(*count, capacity) - 1 of an array; `count` lies in device memory, or is NULL: all of them.
 *
 * So arrive the rows of an expert and the share of a sequence that a batch gives a rank: a plan and a recorded step
 * know what they may be at most, and the kernels alone how many they are. The kernels that take it are those that would
 * be wrong without (they sum over rows, or read tables by ids or positions that nobody has filled in) and those of an
 * expert's feed-forward part, where the work would not be worth doing. Others do without: attention sees the rows that
 * slices name, the loss those that have labels; convert, dropout and fill_zero go over all of an array, element by
 * element, and what they make of the rest nobody reads. A product of counted rows is the simplest case of one by groups
 * of rows, and not a case of `matmul`, whose plans and packed weights depend on m. */
typedef struct tri_rows {
  int64_t capacity;
  const int32_t *count;
} tri_rows;

static inline tri_rows tri_all_rows(int64_t rows) { return (tri_rows){rows, NULL}; }

/* For kernels that run on the host. */
static inline int64_t tri_rows_live(tri_rows rows) {
  if (rows.count == NULL || *rows.count >= rows.capacity) return rows.capacity;
  return *rows.count < 0 ? 0 : *rows.count;
}

/* What a norm goes along: `groups` pieces of `width` elements in each row, normalised one by one with the same weights:
 * a whole row, or the heads of q within a row of q, k and v. Element c of piece g of row r is x[r * x_row + g * x_group
 * + c], and so is that of the gradient of x; likewise y and its gradient. Strides in elements. */
typedef struct tri_norm {
  tri_dtype type;
  tri_rows rows;
  int64_t groups, width;
  int64_t x_row, x_group, y_row, y_group;
  double eps;
} tri_norm;

/* Of whole rows, densely. */
static inline tri_norm tri_norm_of_rows(tri_dtype type, tri_rows rows, int64_t width, double eps) {
  return (tri_norm){type, rows, 1, width, width, width, width, width, eps};
}

typedef struct tri_device_kernels {
  /* ---- matrix products --------------------------------------------------------------------------------------- */

  /* Packs b, stored plainly as `product` says but of type b_plain_type, into `packed` of product->b_type. */
  tri_status (*matmul_pack)(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                            void *packed);
  tri_status (*matmul)(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                       void *c, void *workspace);

  /* ---- rows and elements ------------------------------------------------------------------------------------- */

  tri_status (*fill_zero)(tri_queue *queue, size_t bytes, void *out);
  tri_status (*convert)(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out);
  /* out[R,C] = a + b; out may be a or b (in place). */
  tri_status (*add)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                    void *out);
  /* out[C] (+)= sum over the rows of in[R,C]; out is wide. */
  tri_status (*column_sum)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *in, void *out,
                           bool accumulate);

  /* out[R,C] = table[ids[r] - first_id] (+ position_table[positions[r]]), table[table_rows,C] and position_table wide;
   * position_table may be NULL, and nobody then reads positions. An id outside [first_id, first_id + table_rows) gives
   * a row of zeros (before the position is added): it belongs to another rank's slice of the vocabulary. */
  tri_status (*embedding_forward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                  int64_t first_id, int64_t table_rows, const void *table, const int32_t *positions,
                                  const void *position_table, void *out);
  /* gradient_table[ids[r] - first_id] += gradient[r]; always accumulates; ids outside the slice are skipped. */
  tri_status (*embedding_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                   int64_t first_id, int64_t table_rows, const void *gradient, void *gradient_table);
  /* gradient_table[positions[r]] (+)= gradient[r], in the order of the rows. All table_rows rows are written: those
   * that no position meets become zero, unless accumulating. */
  tri_status (*position_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                  const int32_t *positions, int64_t table_rows, const void *gradient,
                                  void *gradient_table, bool accumulate);

  /* y = (x - mean) * rstd * weight + bias over each piece of a row; mean and rstd [rows, groups] (wide) are written.
   * bias may be NULL. With a branch, which lies as x does, x + branch is stored as `sum`, as `add` would, and that is
   * what is normalised; sum may be x or branch (in place). Without one, both are NULL. */
  tri_status (*layer_norm_forward)(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch, void *sum,
                                   const void *weight, const void *bias, void *y, void *mean, void *rstd);
  /* gradient_x may be gradient_y (in place) where the strides are the same, when not accumulating. */
  tri_status (*layer_norm_backward_input)(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                          const void *weight, const void *mean, const void *rstd, void *gradient_x,
                                          bool accumulate);
  /* gradient_bias may be NULL. */
  tri_status (*layer_norm_backward_weight)(tri_queue *queue, const tri_norm *norm, const void *gradient_y,
                                           const void *x, const void *mean, const void *rstd, void *gradient_weight,
                                           void *gradient_bias, bool accumulate);

  /* y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + eps); branch and sum as above. */
  tri_status (*rms_norm_forward)(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch, void *sum,
                                 const void *weight, void *y, void *rstd);
  tri_status (*rms_norm_backward_input)(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                        const void *weight, const void *rstd, void *gradient_x, bool accumulate);
  tri_status (*rms_norm_backward_weight)(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                         const void *rstd, void *gradient_weight, bool accumulate);

  /* GELU: tanh is 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), erf is 0.5 x (1 + erf(x / sqrt 2)). */
  tri_status (*gelu_forward)(tri_queue *queue, tri_dtype type, tri_gelu variant, tri_rows rows, int64_t width,
                             const void *x, void *y);
  /* In place: gradient_x may be gradient_y. */
  tri_status (*gelu_backward)(tri_queue *queue, tri_dtype type, tri_gelu variant, tri_rows rows, int64_t width,
                              const void *x, const void *gradient_y, void *gradient_x);
  /* x[R, 2C] holds gate then up in each row; y[R,C] = silu(gate) * up. */
  tri_status (*swiglu_forward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *x, void *y);
  tri_status (*swiglu_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *x,
                                const void *gradient_y, void *gradient_x);

  /* y = x / (1 - probability) where a number drawn for the element's global index, of the stream that seed, step and
   * site name, is at least probability * 2^32, else 0. The same call on a gradient is its backward. In place: y may be
   * x. */
  tri_status (*dropout)(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                        const tri_step_values *values, const void *x, void *y);

  /* Rotary embedding, in place, of `heads` consecutive heads from the start of each row of x (row stride
   * row_elements), head_stride elements apart: pairs (d, d + D/2) of the first D = head_dim elements of each head turn
   * by +angle, or by -angle if `inverse` (the backward); what a head has beyond them stays. The angles of row r are row
   * positions[r] of cosine and sine [positions, D/2], wide. */
  tri_status (*rope)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                     int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                     const void *sine, bool inverse, void *x);

  /* ---- attention --------------------------------------------------------------------------------------------- */

  /* description.h says what of. log_sum_exp[heads, query_rows] (wide), of the scaled scores, may be NULL where neither
   * a backward nor a merge follows. */
  tri_status (*attention_forward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                  const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                  void *workspace);
  tri_status (*attention_backward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                   const void *q, const void *k, const void *v, const void *out,
                                   const void *log_sum_exp, const void *gradient_out, void *gradient_q,
                                   void *gradient_k, void *gradient_v, void *workspace);

  /* ---- loss -------------------------------------------------------------------------------------------------- */

  /* Of each row of logits[R, V] (wide, leading dimension ld): its maximum, the sum of exp(logit - maximum), and the
   * logit of labels[r] - first_id (0 where that is outside [0, V): another rank's slice, or ignored). Outputs are [R],
   * wide. */
  tri_status (*softmax_statistics)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                   const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                   void *sum, void *label_logit);
  /* sum[r] *= exp(from[r] - to[r]): sums of exponentials less one maximum as sums less another. */
  tri_status (*softmax_rescale)(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                void *sum);
  /* losses[r] = log(sum) + maximum - label_logit, or 0 where labels[r] == ignore_index. */
  tri_status (*softmax_loss)(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                             int32_t ignore_index, const void *maximum, const void *sum, const void *label_logit,
                             void *losses);
  /* gradient[r, v] = values->loss_scale * (exp(logit - maximum) / sum - (v == labels[r] - first_id)), zeros where
   * labels[r] == ignore_index. The gradient has `type` and leading dimension gradient_ld (in elements of type). It may
   * lie in the logits' own memory, each row at the start of its row of logits. */
  tri_status (*softmax_gradient)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 const void *logits, const int32_t *labels, int64_t first_id, int32_t ignore_index,
                                 const tri_step_values *values, const void *maximum, const void *sum,
                                 int64_t gradient_ld, void *gradient);

  /* ---- optimizer --------------------------------------------------------------------------------------------- */

  /* Decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW. All arrays are wide(type)[count], but
   * narrow is type[count]: it becomes what `convert` makes of the parameter's new values. It may be NULL, and is where
   * type is wide itself. */
  tri_status (*adamw)(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                      const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                      void *moment2, void *narrow);

  /* ---- sums --------------------------------------------------------------------------------------------------------
   */

  /* Adds to *sum, for each i of ceil(count / block), the sum of squares, in double, of elements [i * block, (i + 1) *
   * block) of in, which is wide; not finite if any element is not. */
  tri_status (*block_squares)(tri_queue *queue, tri_dtype type, int64_t count, int64_t block, const void *in,
                              tri_exact_sum *sum);
  /* *out (+)= sum in double of wide values, in an order that depends on count alone. */
  tri_status (*sum)(tri_queue *queue, tri_dtype type, int64_t count, const void *in, double *out, bool accumulate);
  /* Adds the value to the sum. */
  tri_status (*exact_add)(tri_queue *queue, const double *value, tri_exact_sum *sum);
} tri_device_kernels;

/* Queues a kernel; an empty slot in the device's table is reported by name. */
#define TRI_KERNEL_CALL(queue_, kernel_, ...)                                                                          \
  do {                                                                                                                 \
    if ((queue_)->device->kernels->kernel_ == NULL) {                                                                  \
      return tri_fail(TRI_UNSUPPORTED, "the device %s has no kernel `%s`", (queue_)->device->info.name, #kernel_);     \
    }                                                                                                                  \
    TRI_TRY((queue_)->device->kernels->kernel_((queue_), __VA_ARGS__));                                                \
  } while (0)

#endif
