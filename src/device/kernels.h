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
 * An empty slot in the table means "not supported" and the callers say so by the kernel's name.
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

/* Squares of a matrix [rows, columns], added up along each side and multiplied. */
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

/* What Adafactor's kernels tell each other, of the whole tensor: the sums of the rows' means of squares, and of squares
 * of the parameter and of the direction. */
typedef struct tri_adafactor_sums {
  double rows, parameter, direction;
} tri_adafactor_sums;

/* What is left of a gradient [rows, columns] outside of a space: its rows (else columns) are those that were projected.
 */
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

/* Elements of a block that has a scale of its own where states are kept in 8 bits. */
enum { TRI_QUANTISED_BLOCK = 256 };

/* Rows 0 .. min(*count, capacity) - 1 of an array; `count` lies in device memory, or is NULL: all of them.
 *
 * So arrive the rows of an expert and the share of a sequence that a batch gives a rank: a plan and a recorded step
 * know what they may be at most, and the kernels alone how many they are. The kernels that take it are those that would
 * be wrong without (they sum over rows, or read tables by ids or positions that were not filled in) and those of an
 * expert's feed-forward part, where the work would not be worth doing. Others do without: attention sees the rows that
 * slices name, the loss those that have labels; convert, scale, dropout and fill_zero go over all of an array, element
 * by element, and what they make of the rest is not read. A product of counted rows is the simplest case of one by
 * groups of rows, and not a case of `matmul`, whose plans and packed weights depend on m. */
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
 * + c], and so is that of the gradient of x; the same holds for y and its gradient. Strides in elements. What is
 * normalised is multiplied by weight + offset: 0, or 1 where weights are kept around zero (Gemma). */
typedef struct tri_norm {
  tri_dtype type;
  tri_rows rows;
  int64_t groups, width;
  int64_t x_row, x_group, y_row, y_group;
  double eps, offset;
} tri_norm;

/* Of whole rows, densely. */
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

  /* Packs b, stored plainly as `product` says but of type b_plain_type, into `packed` of product->b_type. */
  tri_status (*matmul_pack)(tri_queue *queue, const tri_matmul *product, tri_dtype b_plain_type, const void *b,
                            void *packed);
  tri_status (*matmul)(tri_queue *queue, const tri_matmul *product, const void *a, const void *b, const void *bias,
                       void *c, void *workspace);

  /* description.h says what of. The forward and the gradient of the inputs are products, those of the matrices
   * gradients. */
  tri_status (*grouped_matmul)(tri_queue *queue, const tri_grouped_matmul *product, const int32_t *begins,
                               const void *a, const void *b, void *c, void *workspace);

  /* ---- rows and elements ------------------------------------------------------------------------------------- */

  tri_status (*fill_zero)(tri_queue *queue, size_t bytes, void *out);
  tri_status (*convert)(tri_queue *queue, int64_t count, tri_dtype from, const void *in, tri_dtype to, void *out);
  /* Row i is taken from row from_rows[i] of `from`, becomes what `convert` makes of it, and is stored as row to_rows[i]
   * of `to`; i itself where a map is NULL. No row of `to` is named twice. */
  tri_status (*copy_rows)(tri_queue *queue, const tri_row_copy *copy, const int32_t *from_rows, const void *from,
                          const int32_t *to_rows, void *to);
  /* out[R,C] = a + b; out may be a or b (in place). */
  tri_status (*add)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t width, const void *a, const void *b,
                    void *out);
  /* y = factor x, both type[count], multiplied in the wide type and rounded once; for fp32 and bf16 the factor is one
   * of fp32, or taken for the nearest. In place: y may be x. */
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

  /* y = act(x), of the kind that is asked for (activation.h). */
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

  /* description.h says what of. log_sum_exp[heads, query_rows] (wide), of the scaled scores, may be NULL if neither
   * a backward nor a merge follows. */
  tri_status (*attention_forward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                  const void *q, const void *k, const void *v, void *out, void *log_sum_exp,
                                  void *workspace);
  tri_status (*attention_backward)(tri_queue *queue, const tri_attention *call, const tri_attention_slice *slices,
                                   const void *q, const void *k, const void *v, const void *out,
                                   const void *log_sum_exp, const void *gradient_out, void *gradient_q,
                                   void *gradient_k, void *gradient_v, void *workspace);

  /* ---- experts -------------------------------------------------------------------------------------------------
   *
   * E experts, K chosen of them for each row (router.h). Logits, biases, weights and what is made of scores is wide. */

  /* experts[R,K] and weights[R,K] from logits[R,E]; bias[E] may be NULL. A row whose label is TRI_LABEL_PADDING has
   * experts -1 and weights 0, and nothing below counts it, nor has it a gradient; labels[R] may be NULL. */
  tri_status (*router_forward)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                               const int32_t *labels, const void *logits, const void *bias, int32_t *experts,
                               void *weights);
  /* gradient_logits[R,E] from gradient_weights[R,K] and what router_forward made, and the gradients of two losses that
   * depend on the logits alone:
   *  - balance[sequences, E] (NULL: none) is the gradient of what router_balance adds up, by P: each row of sequence s
   *    adds balance[s, i] to the gradient of its normalised score i, p_i / (sum of p). Row r is of sequence (first_row
   * + r) / sequence_rows.
   *  - z, times values->token_scale, is the factor of the square of log(sum of exp(logits)) of each row; 0: none. */
  tri_status (*router_backward)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                                const void *logits, const int32_t *experts, const void *weights,
                                const void *gradient_weights, const void *balance, int64_t first_row,
                                int64_t sequence_rows, double z, const tri_step_values *values, void *gradient_logits);
  /* loads[sequences, 2, E]: of the rows of each sequence, how many chose an expert, and the sum of their normalised
   * scores, in the order of the rows. */
  tri_status (*router_loads)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                             const void *logits, const int32_t *experts, int64_t first_row, int64_t sequence_rows,
                             int64_t sequences, void *loads);
  /* The balance of sequences whose loads are whole (DeepSeek-V3): each adds coefficient * sum over i of f_i P_i, with
   * f_i = E / (K T) * how many chose i, P_i = their normalised scores / T, to *loss, times values->sequence_scale; and
   * balance[sequences, E] = values->sequence_scale * coefficient * f_i / T. T are its tokens, of which each has chosen
   * K; one of none adds nothing. */
  tri_status (*router_balance)(tri_queue *queue, tri_dtype type, const tri_router *router, int64_t sequences,
                               double coefficient, const tri_step_values *values, const void *loads, void *balance,
                               double *loss);
  /* *loss += z * values->token_scale * sum over rows of the square of log(sum of exp(logits)). */
  tri_status (*router_z_loss)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router, double z,
                              const tri_step_values *values, const void *logits, const int32_t *experts, double *loss);
  /* counts[e] += rows that chose expert e, and counts[E] += rows with a weight that is not a finite number. */
  tri_status (*router_count)(tri_queue *queue, tri_dtype type, tri_rows rows, const tri_router *router,
                             const int32_t *experts, const void *weights, int64_t *counts);

  /* Sorts the pairs (row, j) by their expert, experts[row, j], then by row, then by j. begins[E + 1]: where each
   * expert's begin. order[R K]: the pair at each place, as row * K + j; sources[R K]: its row; places[R, K]: its place,
   * the other way round. A pair whose expert is not a number of one ([0, E)) comes behind all others, behind
   * begins[E], and has place -1. */
  tri_status (*group_rows)(tri_queue *queue, tri_rows rows, int64_t chosen, int64_t experts_count,
                           const int32_t *experts, int32_t *begins, int32_t *order, int32_t *sources, int32_t *places);
  /* out[R,C] (+)= the sum over j of in[places[r, j]], in the order of j, in the wide type, rounded once; a place below
   * 0 adds nothing. */
  tri_status (*sum_rows)(tri_queue *queue, tri_dtype type, tri_rows rows, int64_t terms, int64_t width,
                         const int32_t *places, const void *in, void *out, bool accumulate);

  /* ---- loss -------------------------------------------------------------------------------------------------- */

  /* Products in logits[R, V] (wide, leading dimension ld) become logits of that form (description.h), in place. */
  tri_status (*softmax_logits)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                               tri_logit_form form, void *logits);
  /* Of each row of logits[R, V] (wide, leading dimension ld): its maximum, the sum of exp(logit - maximum), and the
   * logit of labels[r] - first_id (0 if that is outside [0, V): another rank's slice, or ignored). Outputs are [R],
   * wide. */
  tri_status (*softmax_statistics)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                   const void *logits, const int32_t *labels, int64_t first_id, void *maximum,
                                   void *sum, void *label_logit);
  /* sum[r] *= exp(from[r] - to[r]): sums of exponentials less one maximum as sums less another. */
  tri_status (*softmax_rescale)(tri_queue *queue, tri_dtype type, int64_t rows, const void *from, const void *to,
                                void *sum);
  /* losses[r] = weights[r] * (log(sum) + maximum - label_logit), or 0 where labels[r] is negative. */
  tri_status (*softmax_loss)(tri_queue *queue, tri_dtype type, int64_t rows, const int32_t *labels,
                             const float *weights, const void *maximum, const void *sum, const void *label_logit,
                             void *losses);
  /* gradient[r, v] = values->loss_scale * weights[r] * (exp(logit - maximum) / sum - (v == labels[r] - first_id)),
   * zeros where labels[r] is negative. The gradient has `type` and leading dimension gradient_ld (in elements of type).
   * It may lie in the logits' own memory, each row at the start of its row of logits. It is that of the products of
   * which the logits were made: times scale, and with a cap times 1 - (logit / soft_cap)^2. */
  tri_status (*softmax_gradient)(tri_queue *queue, tri_dtype type, int64_t rows, int64_t vocabulary, int64_t ld,
                                 tri_logit_form form, const void *logits, const int32_t *labels, const float *weights,
                                 int64_t first_id, const tri_step_values *values, const void *maximum, const void *sum,
                                 int64_t gradient_ld, void *gradient);

  /* ---- optimizer --------------------------------------------------------------------------------------------- */

  /* Decoupled weight decay (Loshchilov and Hutter 2019), as torch.optim.AdamW. All arrays are wide(type)[count], but
   * narrow is type[count]: it becomes what `convert` makes of the parameter's new values. It may be NULL, and is where
   * type is wide itself. */
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

  /* A matrix, wide, over its norm: out, of `type`, = in / (sqrt(*squares) + eps). *squares has been normalised
   * (tri_exact_sum_normalise) or is as block_squares left it. */
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
  /* In place: rest is what a projection makes of gradient and becomes (g - scale values->gradient_scale rest)
   * sqrt(adam[i]) / (sqrt(projected[i]) + 1e-8), i the row or the column; these are sums of squares. All are wide. */
  tri_status (*low_rank_rest)(tri_queue *queue, tri_dtype type, const tri_low_rank_rest *sides,
                              const tri_step_values *values, const void *gradient, const void *adam,
                              const void *projected, void *rest);
  /* With x = sqrt(*squares): *factor = 1.01 / max(x / (norm[0] + 1e-8), 1.01), or 1 in the first update, and norm[0],
   * wide, = x *factor. */
  tri_status (*low_rank_growth)(tri_queue *queue, tri_dtype type, const tri_step_values *values, const double *squares,
                                void *norm, double *factor);
  /* parameter = (parameter - lr c (scale x + *factor rest)) (1 - lr weight_decay), c = sqrt(1 - beta2^update) / (1 -
   * beta1^update). rest lies as x does; without it, rest and factor are NULL. All are wide, narrow as in matrix_step.
   */
  tri_status (*low_rank_step)(tri_queue *queue, tri_dtype type, const tri_low_rank_step *step,
                              const tri_step_values *values, const void *x, const void *rest, const double *factor,
                              void *parameter, void *narrow);

  /* In blocks of TRI_QUANTISED_BLOCK elements (the last may be shorter): scales[block] is the largest magnitude, and
   * codes[i] the number in the dynamic map of 8 bits (base/dynamic_map.h), signed or not, that is nearest to in[i] /
   * scale, as bitsandbytes' kernels for GPUs find it: all arithmetic is fp32's, and all devices give the same bits.
   * `in` and `out` are wide(type).
   *
   * Zeros become codes 0 with a scale of 0, as memory full of zeros has them; so does a block without normal numbers. A
   * block that is not finite stays so. What comes from codes becomes the same codes and scale again, but where the
   * largest magnitude was a negative number's: the signed map has no -1. */
  tri_status (*quantise_blocks)(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const void *in,
                                uint8_t *codes, float *scales);
  tri_status (*dequantise_blocks)(tri_queue *queue, tri_dtype type, int64_t count, bool with_sign, const uint8_t *codes,
                                  const float *scales, void *out);

  /* ---- weights in 4 bits --------------------------------------------------------------------------------------- */

  /* values, of `type` itself and not wide, as nf4.h describes `kept`, which has tri_nf4_bytes(count) and begins on 4
   * bytes: as bitsandbytes' kernels for GPUs find codes, with all arithmetic fp32's but for the sum of the mean, which
   * is double's in an order of its own, so that all devices give the same bits (theirs depend on the machine). What
   * becomes codes is neither what they become again nor a reason to keep the values: store `kept` itself.
   *
   * Where a value is not finite no mean is, and every element becomes a not-a-number. One that is far larger than all
   * others is on average, too, and in the scale of its 256 blocks: their largest magnitudes are kept to a fraction of
   * it. */
  tri_status (*quantise_nf4)(tri_queue *queue, tri_dtype type, int64_t count, const void *values, void *kept);
  /* Elements first .. first + count - 1 of the `total` that were quantised, as values[0 .. count - 1] of `type` (bf16
   * is rounded to nearest even). A stretch begins at a block: `first` is a multiple of TRI_NF4_BLOCK. */
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

/* Queues a kernel; an empty slot in the device's table is reported by name. */
#define TRI_KERNEL_CALL(queue_, kernel_, ...)                                                                          \
  do {                                                                                                                 \
    if ((queue_)->device->kernels->kernel_ == NULL) {                                                                  \
      return tri_fail(TRI_UNSUPPORTED, "the device %s has no kernel `%s`", (queue_)->device->info.name, #kernel_);     \
    }                                                                                                                  \
    TRI_TRY((queue_)->device->kernels->kernel_((queue_), __VA_ARGS__));                                                \
  } while (0)

#endif
