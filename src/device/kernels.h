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
 *    (documents restart at 0, shares of a sequence are not contiguous). The caller keeps it within the tables.
 *
 * NULL in the table means "not supported"; TRI_KERNEL_CALL then fails with the kernel's name.
 *
 * Letters: R rows (tokens), C width, V vocabulary, B batch, T positions, H heads, G key/value heads, D head size. */
#ifndef TRI_DEVICE_KERNELS_H
#define TRI_DEVICE_KERNELS_H

#include "base/router.h"
#include "device/activation.h"
#include "device/description.h"
#include "device/dropout.h"
#include "device/queue.h"
#include "device/step_values.h"

/* Optimizers. `lr_scale` multiplies the step's learning rate. */
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

/* Element [r, c] of a matrix is in[r * in_row + c], and becomes out[r * out_row + c * out_column]. One of the two is 1:
 * with out_row it is transposed. */
typedef struct tri_matrix_copy {
  int64_t rows, columns, in_row, out_row, out_column;
} tri_matrix_copy;

/* Element [r, c] of a parameter is parameter[r * parameter_row + c], and that of its step x[r * x_row + c * x_column];
 * one of these two is 1. */
typedef struct tri_matrix_step {
  int64_t rows, columns, parameter_row, x_row, x_column;
  double weight_decay, lr_scale;
  double scale; /* of x, beside the rate */
} tri_matrix_step;

/* Sums of squares of a matrix [rows, columns] along each side, each times a factor. */
typedef struct tri_matrix_squares {
  int64_t rows, columns;
  double row_factor, column_factor;
} tri_matrix_squares;

/* Adafactor, of a part [rows, columns] of a tensor that has all_rows rows and all_elements elements. */
typedef struct tri_adafactor {
  int64_t rows, columns;
  double all_rows, all_elements;
  double eps[2], d, weight_decay, lr_scale;
} tri_adafactor;

/* Sums over the whole tensor that Adafactor's kernels pass to each other: of the rows' means of squares, and of squares
 * of the parameter and of the direction. */
typedef struct tri_adafactor_sums {
  double rows, parameter, direction;
} tri_adafactor_sums;

/* The part of a gradient [rows, columns] outside of a subspace; by_rows: rows were projected, else columns. */
typedef struct tri_low_rank_rest {
  int64_t rows, columns;
  bool by_rows;
  double scale;
} tri_low_rank_rest;

/* Rows of the parameter begin every parameter_row elements, of its step every x_row. */
typedef struct tri_low_rank_step {
  int64_t rows, columns, parameter_row, x_row;
  double beta1, beta2, weight_decay, lr_scale, scale;
} tri_low_rank_step;

/* out = factors[0] I + factors[1] a + factors[2] b, of matrices [size, size]. */
typedef struct tri_matrix_polynomial {
  int64_t size;
  double factors[3];
} tri_matrix_polynomial;

/* Elements of a block with its own scale, of states in 8 bits. */
enum { TRI_QUANTISED_BLOCK = 256 };

/* Rows 0 .. min(*count, capacity) - 1 of an array; `count` is in device memory, or NULL: all rows.
 *
 * For the rows of an expert, and for the part of a sequence that a batch gives a rank: memory plans and recorded steps
 * know only their greatest number, and the kernels read the actual one. Kernels take a tri_rows if they would be wrong
 * without it (they sum over rows, or read tables by ids or positions that were not set), or to save work in an expert's
 * feed-forward part. Other kernels do not need it: attention reads the rows of its slices, the loss those that have
 * labels; convert, scale, dropout and fill_zero process the whole array, and the results beyond the count are not read.
 * For products of a counted number of rows use grouped_matmul with one group, since plans and packed weights of
 * `matmul` depend on m. */
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

/* A norm of whole, dense rows. */
static inline tri_norm tri_norm_of_rows(tri_dtype type, tri_rows rows, int64_t width, double eps) {
  return (tri_norm){type, rows, 1, width, width, width, width, width, eps, 0};
}

/* Rows of `width` elements that are copied from one matrix to another; strides in elements. */
typedef struct tri_row_copy {
  tri_rows rows;
  int64_t width;
  tri_dtype from_type, to_type;
  int64_t from_stride, to_stride;
} tri_row_copy;

typedef struct tri_device_kernels {
  /* ---- matrix products --------------------------------------------------------------------------------------- */

  /* Packs b, which has the layout that `product` says and the type b_plain_type, to `packed` of product->b_type. */
  tri_status (*matmul_pack)(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                            void *packed);
  tri_status (*matmul)(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                       void *c, void *workspace);

  /* tri_grouped_matmul. The forward and the gradient of the inputs are products, that of the matrices is a gradient. */
  tri_status (*grouped_matmul)(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                               const void *a, const void *b, void *c, void *workspace);

  /* ---- rows and elements ------------------------------------------------------------------------------------- */

  tri_status (*fill_zero)(tri_queue *queue, size_t bytes, void *out);
  tri_status (*convert)(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out);
  /* Converts row from_rows[i] of `from` as `convert` does, and stores it as row to_rows[i] of `to`, for each i; a map
   * that is NULL stands for i itself. to_rows must not have a row twice. */
  tri_status (*copy_rows)(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows, const void *from,
                          const int32_t *to_rows, void *to);
  /* out[R,C] = a + b; out may be a or b (in place). */
  tri_status (*add)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                    void *out);
  /* y = factor x, both type[count], multiplied in the wide type and rounded once; for fp32 and bf16 the factor is
   * rounded to fp32 first. In place: y may be x. */
  tri_status (*scale)(tri_queue *queue, tri_dtype type, int64_t count, double factor, const void *x, void *y);
  /* out[C] (+)= sum over the rows of in[R,C], whose leading dimension is ld; out is wide. */
  tri_status (*column_sum)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, int64_t ld, const void *in,
                           void *out, bool accumulate);

  /* out[R,C] = table[ids[r] - first_id] (+ position_table[positions[r]]), table[table_rows,C] of `type` or wide, as
   * table_type says, and position_table wide; the sum is wide. position_table may be NULL; then no kernel reads
   * positions. An id outside [first_id, first_id + table_rows) gives a row of zeros (before the position is added): it
   * belongs to another rank's slice of the vocabulary. */
  tri_status (*embedding_forward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                  int64_t first_id, int64_t table_rows, tri_dtype table_type, const void *table,
                                  const int32_t *positions, const void *position_table, void *out);
  /* gradient_table[ids[r] - first_id] += gradient[r]; always accumulates; ids outside the slice are skipped. */
  tri_status (*embedding_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const int32_t *ids,
                                   int64_t first_id, int64_t table_rows, const void *gradient, void *gradient_table);
  /* gradient_table[positions[r]] (+)= gradient[r], in the order of the rows. All table_rows rows are written: those
   * that no position meets become zero, unless accumulating. */
  tri_status (*position_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width,
                                  const int32_t *positions, int64_t table_rows, const void *gradient,
                                  void *gradient_table, bool accumulate);

  /* y = (x - mean) * rstd * (weight + offset) + bias over each piece of a row; mean and rstd [rows, groups] (wide) are
   * written. bias may be NULL. With a branch, which lies as x does, x + branch is stored as `sum`, as `add` would, and
   * that is what is normalised; sum may be x or branch (in place). Without one, both are NULL. */
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

  /* y = x * rstd * (weight + offset) with rstd = 1 / sqrt(mean(x^2) + eps); branch and sum as above. */
  tri_status (*rms_norm_forward)(tri_queue *queue, const tri_norm *norm, const void *x, const void *branch, void *sum,
                                 const void *weight, void *y, void *rstd);
  tri_status (*rms_norm_backward_input)(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                        const void *weight, const void *rstd, void *gradient_x, bool accumulate);
  tri_status (*rms_norm_backward_weight)(tri_queue *queue, const tri_norm *norm, const void *gradient_y, const void *x,
                                         const void *rstd, void *gradient_weight, bool accumulate);

  /* y = act(x), with the activation function `kind` (activation.h). */
  tri_status (*activation_forward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                   const void *x, void *y);
  /* In place: gradient_x may be gradient_y. */
  tri_status (*activation_backward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                                    const void *x, const void *gradient_y, void *gradient_x);
  /* x[R, 2C] holds gate then up in each row; y[R,C] = act(gate) * up. */
  tri_status (*gated_forward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                              const void *x, void *y);
  tri_status (*gated_backward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows, int64_t width,
                               const void *x, const void *gradient_y, void *gradient_x);
  /* The same times a weight of each row: y = weights[r] * act(gate) * up; weights[R] and their gradient are wide. */
  tri_status (*weighted_gated_forward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                       int64_t width, const void *x, const void *weights, void *y);
  tri_status (*weighted_gated_backward)(tri_queue *queue, tri_dtype type, tri_activation kind, tri_rows rows,
                                        int64_t width, const void *x, const void *weights, const void *gradient_y,
                                        void *gradient_x, void *gradient_weights);

  /* y = x / (1 - probability) where a number drawn for the element's global index, of the stream that seed, step and
   * site name, is at least probability * 2^32, else 0. The same call on a gradient is its backward. In place: y may be
   * x. `rows` has the numbers of the rows of options->width elements that x is made of, not negative; NULL: 0, 1, ...
   */
  tri_status (*dropout)(tri_queue *queue, tri_dtype type, int64_t count, const tri_dropout *options,
                        const tri_step_values *values, const int32_t *rows, const void *x, void *y);

  /* Rotary embedding, in place, of `heads` consecutive heads from the start of each row of x (row stride
   * row_elements), head_stride elements apart: pairs (d, d + D/2) of the first D = head_dim elements of each head are
   * rotated by +angle, or by -angle if `inverse` (the backward); what a head has beyond them stays. The angles of row r
   * are row positions[r] of cosine and sine [positions, D/2], wide. */
  tri_status (*rope)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t row_elements, int64_t heads,
                     int64_t head_stride, int64_t head_dim, const int32_t *positions, const void *cosine,
                     const void *sine, bool inverse, void *x);

  /* ---- attention --------------------------------------------------------------------------------------------- */

  /* tri_attention. log_sum_exp[heads, query_rows] (wide), of the scaled scores, may be NULL if neither a backward nor a
   * merge follows. */
  tri_status (*attention_forward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                  const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                  void *workspace);
  tri_status (*attention_backward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                   const void *q, const void *k, const void *v, const void *out,
                                   const void *log_sum_exp, const void *gradient_out, void *gradient_q,
                                   void *gradient_k, void *gradient_v, void *workspace);

  /* ---- experts -------------------------------------------------------------------------------------------------
   *
   * E experts, of which K are chosen for each row (router.h). Logits, biases, weights and results of scores are wide.
   */

  /* experts[R,K] and weights[R,K] from logits[R,E]; bias[E] may be NULL. A row whose label is TRI_LABEL_PADDING has
   * experts -1 and weights 0; no kernel below counts it, and its gradient is 0. labels[R] may be NULL. */
  tri_status (*router_forward)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                               const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                               void *weights);
  /* gradient_logits[R,E] from gradient_weights[R,K] and the results of router_forward, plus the gradients of two losses
   * that depend only on the logits:
   *  - balance[sequences, E] (NULL: none) is the gradient of router_balance's loss with respect to P: each row of
   *    sequence s adds balance[s, i] to the gradient of its normalised score i, p_i / (sum of p). Row r is of sequence
   *    (first_row + r) / sequence_rows.
   *  - z, times values->token_scale, is the factor of the square of log(sum of exp(logits)) of each row; 0: none. */
  tri_status (*router_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                const void *logits, const int32_t *experts, const void *weights,
                                const void *gradient_weights, const void *balance, int64_t first_row,
                                int64_t sequence_rows, double z, const tri_step_values *values, void *gradient_logits);
  /* loads[sequences, 2, E]: for each sequence and expert, how many rows chose it, and the sum of all rows' normalised
   * scores, added in the order of the rows. */
  tri_status (*router_loads)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                             const void *logits, const int32_t *experts, int64_t first_row, int64_t sequence_rows,
                             int64_t sequences, void *loads);
  /* The balance loss of sequences (DeepSeek-V3), whose loads must be summed over all ranks that share them: each
   * sequence adds values->sequence_scale * coefficient * sum over i of f_i P_i to *loss, with f_i = E / (K T) *
   * loads[s, 0, i], P_i = loads[s, 1, i] / T and T its number of tokens; balance[s, i] = values->sequence_scale *
   * coefficient * f_i / T. A sequence without tokens adds nothing. */
  tri_status (*router_balance)(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                               double coefficient, const tri_step_values *values, const void *loads, void *balance,
                               double *loss);
  /* *loss += z * values->token_scale * sum over rows of the square of log(sum of exp(logits)). */
  tri_status (*router_z_loss)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router, double z,
                              const tri_step_values *values, const void *logits, const int32_t *experts, double *loss);
  /* counts[e] += rows that chose expert e, and counts[E] += rows with a weight that is not a finite number. */
  tri_status (*router_count)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                             const int32_t *experts, const void *weights, int64_t *counts);

  /* Sorts the pairs (row, j) by their expert, experts[row, j], then by row, then by j. begins[E + 1]: the
   * first place of each expert. order[R K]: the pair at each place, as row * K + j; sources[R K]: the row at each
   * place; places[R, K]: the place of each pair. Pairs whose expert is not in [0, E) come last, from begins[E] on, and
   * have place -1. */
  tri_status (*group_rows)(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                           const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources, int32_t *places);
  /* out[R,C] (+)= the sum over j of in[places[r, j]], in the order of j, in the wide type, rounded once; a place below
   * 0 adds nothing. */
  tri_status (*sum_rows)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                         const int32_t *places, const void *in, void *out, bool accumulate);

  /* ---- loss -------------------------------------------------------------------------------------------------- */

  /* Applies `form` (description.h) to the products in logits[R, V] (wide, leading dimension ld), in place. */
  tri_status (*softmax_logits)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                               tri_logit_form form, void *logits);
  /* Of each row of logits[R, V] (wide, leading dimension ld): its maximum, the sum of exp(logit - maximum), and the
   * logit of labels[r] - first_id (0 if that is outside [0, V): another rank's slice, or ignored). Outputs are [R],
   * wide. */
  tri_status (*softmax_statistics)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                   const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                   void *sum, void *label_logit);
  /* sum[r] *= exp(from[r] - to[r]): changes the maximum that is subtracted in sums of exponentials. */
  tri_status (*softmax_rescale)(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                void *sum);
  /* losses[r] = weights[r] * (log(sum) + maximum - label_logit), or 0 where labels[r] is negative. */
  tri_status (*softmax_loss)(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                             const float *weights, const void *maximum, const void *sum, const void *label_logit,
                             void *losses);
  /* gradient[r, v] = values->loss_scale * weights[r] * (exp(logit - maximum) / sum - (v == labels[r] - first_id)),
   * zeros where labels[r] is negative. The gradient has `type` and leading dimension gradient_ld (in elements of type).
   * It may be in the logits' memory, each row at the start of its row of logits. It is the gradient of the products
   * before `form`: times scale, and with a cap times 1 - (logit / soft_cap)^2. */
  tri_status (*softmax_gradient)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 tri_logit_form form, const void *logits, const int32_t *labels, const float *weights,
                                 int64_t first_id, const tri_step_values *values, const void *maximum, const void *sum,
                                 int64_t gradient_ld, void *gradient);

  /* ---- optimizer --------------------------------------------------------------------------------------------- */

  /* Decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW. All arrays are wide(type)[count], but
   * narrow is type[count]: it is set to the new parameter values as `convert` would convert them. It may be NULL, and
   * must be if type is wide. */
  tri_status (*adamw)(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                      const tri_step_values *values, void *parameter, const void *gradient, void *moment1,
                      void *moment2, void *narrow);
  /* Chen et al. 2023: parameter *= 1 - lr weight_decay; parameter -= lr sign(beta1 moment + (1 - beta1) gradient);
   * moment = beta2 moment + (1 - beta2) gradient. */
  tri_status (*lion)(tri_queue *queue, tri_dtype type, int64_t count, const tri_lion *options,
                     const tri_step_values *values, void *parameter, const void *gradient, void *moment, void *narrow);
  /* As torch.optim.SGD: g = gradient + weight_decay parameter; moment = momentum moment + g; parameter -= lr (moment,
   * or g + momentum moment where nesterov). */
  tri_status (*sgd)(tri_queue *queue, tri_dtype type, int64_t count, const tri_sgd *options,
                    const tri_step_values *values, void *parameter, const void *gradient, void *moment, void *narrow);
  /* Schedule-free AdamW (Defazio et al. 2024) on the point y at which gradients are taken: moment2 = beta2 moment2 + (1
   * - beta2) g^2; n = g / (sqrt(moment2 / (1 - beta2^update)) + eps) + weight_decay y; y = y + average (z - y) + lr
   * (beta1 (1 - average) - 1) n; z -= lr n; average is values->average. */
  tri_status (*schedule_free)(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                              const tri_step_values *values, void *y, const void *gradient, void *z, void *moment2,
                              void *narrow);
  /* out = a + weight (b - a), all wide(type)[count]; in place: out may be a or b. */
  tri_status (*lerp)(tri_queue *queue, tri_dtype type, int64_t count, double weight, const void *a, const void *b,
                     void *out);
  /* moment = beta moment + (1 - beta) g; out = (1 - beta) g + beta moment where nesterov, else moment; g is gradient
   * times values->gradient_scale. In place: out may be gradient. */
  tri_status (*momentum)(tri_queue *queue, tri_dtype type, int64_t count, const tri_momentum *options,
                         const tri_step_values *values, const void *gradient, void *moment, void *out);

  /* Divides a wide matrix by its norm: out, of `type`, = in / (sqrt(*squares) + eps). *squares is the result of
   * block_squares, normalised (tri_exact_sum_normalise) or not. */
  tri_status (*matrix_normalise)(tri_queue *queue, tri_dtype type, const tri_matrix_copy *copy, const void *in,
                                 const tri_exact_sum *squares, double eps, void *out);
  /* All are of `type`; in place: out may be b. */
  tri_status (*matrix_polynomial)(tri_queue *queue, tri_dtype type, const tri_matrix_polynomial *polynomial,
                                  const void *a, const void *b, void *out);
  /* parameter = parameter (1 - lr weight_decay) - lr scale x; x is of `type`, parameter wide; narrow as in adamw, with
   * parameter_row elements from row to row too. */
  tri_status (*matrix_step)(tri_queue *queue, tri_dtype type, const tri_matrix_step *step,
                            const tri_step_values *values, const void *x, void *parameter, void *narrow);

  /* row_sums[rows] = row_factor * the sum over columns of g^2, column_sums[columns] = column_factor * that over rows; g
   * is in[rows, columns] times values->gradient_scale, or as it is where values is NULL. All are wide; either output
   * may be NULL. */
  tri_status (*matrix_squares)(tri_queue *queue, tri_dtype type, const tri_matrix_squares *sides,
                               const tri_step_values *values, const void *in, void *row_sums, void *column_sums);
  /* Adafactor (Shazeer and Stern 2018), as torch.optim.Adafactor. In place: direction[rows, columns] is the gradient
   * and becomes g / sqrt(max(v, eps[0]^2)), with g as above and v = row[r] column[c] / max(sums->rows / all_rows,
   * eps[0]). Without rows (row NULL), v is column[c]. All are wide. */
  tri_status (*adafactor_direction)(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                                    const tri_step_values *values, const void *row, const void *column,
                                    const tri_adafactor_sums *sums, void *direction);
  /* parameter = parameter (1 - lr weight_decay) - rate direction, rate = max(eps[1], rms of the parameter) min(lr, 1 /
   * sqrt(update)) / max(1, rms of the direction / d), where squares come from sums; wide, narrow as in adamw. */
  tri_status (*adafactor_step)(tri_queue *queue, tri_dtype type, const tri_adafactor *options,
                               const tri_step_values *values, const tri_adafactor_sums *sums, const void *direction,
                               void *parameter, void *narrow);

  /* Adam before its corrections: moment1 = beta1 moment1 + (1 - beta1) g, moment2 = beta2 moment2 + (1 - beta2) g^2,
   * out = moment1 / (sqrt(moment2) + eps), with g as in matrix_squares. All are wide; in place: out may be gradient. */
  tri_status (*low_rank_adam)(tri_queue *queue, tri_dtype type, int64_t count, const tri_adamw *options,
                              const tri_step_values *values, const void *gradient, void *moment1, void *moment2,
                              void *out);
  /* In place: rest is the projection of gradient, and becomes (g - scale values->gradient_scale rest) sqrt(adam[i]) /
   * (sqrt(projected[i]) + 1e-8), where i is the row or the column; adam and projected are sums of squares. All are
   * wide.
   */
  tri_status (*low_rank_rest)(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                              const tri_step_values *values, const void *gradient, const void *adam,
                              const void *projected, void *rest);
  /* With x = sqrt(*squares): *factor = 1.01 / max(x / (norm[0] + 1e-8), 1.01), or 1 in the first update, and norm[0],
   * wide, = x *factor. */
  tri_status (*low_rank_growth)(tri_queue *queue, tri_dtype type, const tri_step_values *values, const double *squares,
                                void *norm, double *factor);
  /* parameter = (parameter - lr c (scale x + *factor rest)) (1 - lr weight_decay), c = sqrt(1 - beta2^update) / (1 -
   * beta1^update). rest has the layout of x; rest and factor may both be NULL. All are wide, narrow as in matrix_step.
   */
  tri_status (*low_rank_step)(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                              const tri_step_values *values, const void *x, const void *rest, const double *factor,
                              void *parameter, void *narrow);

  /* In blocks of TRI_QUANTISED_BLOCK elements (the last may be shorter): scales[block] is the largest magnitude, and
   * codes[i] the number in the dynamic map of 8 bits (base/dynamic_map.h), signed or not, that is nearest to in[i] /
   * scale, as bitsandbytes' kernels for GPUs find it: all arithmetic is fp32's, and all devices give the same bits.
   * `in` and `out` are wide(type).
   *
   * Zeros become codes 0 with a scale of 0, which are zero bytes; so does a block without normal numbers. A block that
   * is not finite stays so. Dequantised values are quantised to the same codes and scale again, unless the largest
   * magnitude was that of a negative number: the signed map has no -1. */
  tri_status (*quantise_blocks)(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const void *in,
                                uint8_t *codes, float *scales);
  tri_status (*dequantise_blocks)(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const uint8_t *codes,
                                  const float *scales, void *out);

  /* ---- weights in 4 bits --------------------------------------------------------------------------------------- */

  /* Quantises `values`, of `type` and not wide, to `kept` [tri_nf4_bytes(count)], aligned to 4 bytes, in the format of
   * nf4.h. Codes are those of bitsandbytes' kernels for GPUs, with all arithmetic in fp32 but for the sum of the mean,
   * which is in double in a fixed order, so that all devices give the same bits (those of bitsandbytes depend on the
   * machine). Quantising dequantised values again may give other codes: store `kept` itself.
   *
   * If a value is not finite the mean is not either, and every element becomes NaN. A value that is far larger than all
   * others makes the mean large, and the scale of its 256 blocks coarse. */
  tri_status (*quantise_nf4)(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept);
  /* Dequantises elements first .. first + count - 1 of `total` to values[count] of `type` (bf16 is rounded to nearest
   * even). `first` must be a multiple of TRI_NF4_BLOCK. */
  tri_status (*dequantise_nf4)(tri_queue *queue, tri_dtype type, int64_t first, int64_t count, int64_t total,
                               const void *kept, void *values);

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

/* Queues a kernel; TRI_UNSUPPORTED with its name if the device does not have it. */
#define TRI_KERNEL_CALL(queue_, kernel_, ...)                                                                          \
  do {                                                                                                                 \
    if ((queue_)->device->kernels->kernel_ == NULL) {                                                                  \
      return tri_fail(TRI_UNSUPPORTED, "the device %s has no kernel `%s`", (queue_)->device->info.name, #kernel_);     \
    }                                                                                                                  \
    TRI_TRY((queue_)->device->kernels->kernel_((queue_), __VA_ARGS__));                                                \
  } while (0)

#endif
