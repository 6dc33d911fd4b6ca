/* The operations: the attributes of each, and the function that appends it to a list. Slots and parameters are numbers;
 * -1: none. Every function returns the slot of its result in *out. */
#ifndef TRI_OPS_OPS_H
#define TRI_OPS_OPS_H

#include "device/activation.h"
#include "ops/list.h"
#include "ops/rope_scaling.h"

/* How a weight matrix is stored: GPT-2's checkpoints hold [in, out], everybody else's [out, in]. */
typedef enum tri_weight_order { TRI_WEIGHT_IN_OUT, TRI_WEIGHT_OUT_IN } tri_weight_order;

/* ---- tensor parallelism ------------------------------------------------------------------------------------------
 *
 * Widths given to operations are this rank's. On a list for one rank of one, entering and leaving append nothing. */

/* Of `length` elements that the ranks of a layer split, this rank's: where they begin, and how many. */
int64_t tri_op_share(const tri_op_list *list, int64_t length);
void tri_op_share_of(const tri_op_list *list, int64_t length, int64_t *first, int64_t *count);

/* Between what every rank holds whole (or a slice of the rows of) and products whose columns are split: the rows are
 * gathered where they are sliced, and the ranks' gradients are added. */
tri_status tri_op_enter_tensor(tri_op_list *list, int32_t x, int32_t *out);
/* Behind products whose rows are split: the ranks' parts are added, and sliced with sequence_parallel. */
tri_status tri_op_leave_tensor(tri_op_list *list, int32_t x, int32_t *out);

/* What these append: a row of the table of what passes between ranks (mesh_collectives.c). */
typedef struct tri_mesh_collective tri_mesh_collective;
extern const tri_mesh_collective tri_copy_to_tensor, tri_reduce_from_tensor, tri_gather_sequence, tri_scatter_sequence,
    tri_take_slice, tri_join_slices;
tri_status tri_op_mesh_collective(tri_op_list *list, const tri_mesh_collective *row, int32_t x, int32_t *out);

/* ---- pipeline parallelism ---------------------------------------------------------------------------------------- */

/* The first call of a stage behind the first: rows that the stage before has made. */
tri_status tri_op_stage_input(tri_op_list *list, int64_t width, int32_t *out);
/* The last call of a stage before the last. */
tri_status tri_op_stage_output(tri_op_list *list, int32_t x);

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/* x[R,C] = token[ids] + position; `position` may be -1 (rotary models). vocab_size is the whole model's. Row
 * position_offset of the table is that of position 0 (OPT: 2): it has max_sequence + position_offset rows. */
tri_status tri_op_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int64_t max_sequence,
                            int64_t position_offset, int32_t token, int32_t position, int32_t *out);

/* `bias` may be -1. */
tri_status tri_op_layer_norm(tri_op_list *list, double eps, int32_t x, int32_t weight, int32_t bias, int32_t *out);
/* y = x / rms * (offset + weight), rms = sqrt(mean of squares + eps): offset is 0, or 1 where weights are kept around
 * zero (Gemma). */
typedef struct tri_rms {
  double eps, offset;
} tri_rms;
tri_status tri_op_rms_norm(tri_op_list *list, tri_rms rms, int32_t x, int32_t weight, int32_t *out);

/* y[R,out] = x[R,in] W + bias. `weight` may be the first of several adjacent [out_i, in] matrices that together are
 * [out, in] (q, k and v); so may bias. */
tri_status tri_op_linear(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                         int32_t weight, int32_t bias, int32_t *out);

/* The same of a W split by rows, as far as this rank has it: the ranks' results are parts of a sum. */
tri_status tri_op_linear_part(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                              int32_t weight, int32_t bias, int32_t *out);

/* The same, with the ranks' results added up (tri_op_leave_tensor). */
tri_status tri_op_linear_row(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                             int32_t weight, int32_t bias, int32_t *out);

typedef struct tri_heads {
  int64_t heads, kv_heads, head_dim;
} tri_heads;

/* This rank's of a model's heads. */
tri_heads tri_op_share_heads(const tri_op_list *list, int64_t heads, int64_t kv_heads, int64_t head_dim);

/* RMS norm of q and k in qkv[R, (H + 2G) D]: of each head by itself with weights [D]; or, `whole`, of all of q with
 * weights [H D] and all of k with [G D]. */
tri_status tri_op_head_norm(tri_op_list *list, tri_heads heads, tri_rms rms, bool whole, int32_t qkv, int32_t q_weight,
                            int32_t k_weight, int32_t *out);

/* qkv of a rank's own heads to that of all of the model's heads, on every rank of a layer, and back. What stands
 * between is the same on all of them. */
tri_status tri_op_join_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out);
tri_status tri_op_part_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out);

/* Rotary positions (Su et al. 2021) up to `positions`. The first `prefill_tokens` are read at once, in one sequence;
 * those behind them one after the other. Of each head the first rotary_dim elements are rotated, with the frequencies
 * of heads of that size, and the rest stay (GPT-NeoX, Phi); 0: all of head_dim. */
typedef struct tri_rope_table {
  int64_t positions, prefill_tokens, head_dim, rotary_dim;
  double theta;
  tri_rope_scaling scaling;
} tri_rope_table;

/* Turns q and k in qkv[R, (H + 2G) D]. Calls of a list with equal tables share one in memory; those with
 * others (Gemma 3 has two bases) have theirs. */
tri_status tri_op_rope(tri_op_list *list, tri_heads heads, const tri_rope_table *table, int32_t qkv, int32_t *out);

/* How products of q and k become scores, before masks and softmax: score = scale q k, and with a cap soft_cap
 * tanh(score / soft_cap), which never goes beyond it (Gemma 2, arXiv 2408.00118, section 2). */
typedef struct tri_scores {
  double scale;    /* 0: 1 / sqrt(head_dim) */
  double soft_cap; /* 0: none */
} tri_scores;

/* Causal self-attention over qkv[R, (H + 2G) D] to [R, H D]. With a cache in the run, appends to it and reads all that
 * it holds: up to `positions`. */
tri_status tri_op_attention(tri_op_list *list, tri_heads heads, tri_scores scores, int64_t positions, int32_t qkv,
                            int32_t *out);

tri_status tri_op_activation(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out);
/* y[R, C] = act(gate) * up of x[R, 2C], which is gate then up: SwiGLU is that of SiLU, GeGLU of GELU. */
tri_status tri_op_gated(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out);

/* factor x, rounded once to the activations' type: over x if no other call needs it. Factor 1 appends nothing. */
tri_status tri_op_scale(tri_op_list *list, double factor, int32_t x, int32_t *out);

/* x + branch; `x` may be used by others too, `branch` not. */
tri_status tri_op_add(tri_op_list *list, int32_t x, int32_t branch, int32_t *out);

/* `site`, below 2^16, tells the dropouts of a model apart; those of factors are from TRI_FACTOR_SITES on. Probability 0
 * appends nothing. */
enum { TRI_FACTOR_SITES = 1 << 15 };
tri_status tri_op_dropout(tri_op_list *list, double probability, int64_t site, int32_t x, int32_t *out);
/* The same of x that is a rank's columns of rows of row_elements, from number `first` on: what one rank would drop. */
tri_status tri_op_dropout_columns(tri_op_list *list, double probability, int64_t site, int64_t row_elements,
                                  int64_t first, int32_t x, int32_t *out);

/* Logits are scale (h W^T + bias), or with a cap soft_cap tanh(that / soft_cap); bias[V] is a parameter, split with the
 * vocabulary, or -1. soft_cap 0: no cap. */
typedef struct tri_logits {
  double scale, soft_cap;
  int32_t bias;
} tri_logits;
static inline tri_logits tri_logits_plain(void) { return (tri_logits){1, 0, -1}; }

/* Output projection with weight[V, C] and cross entropy against the run's labels, in chunks of rows: ends a list.
 * vocab_size is the whole model's. */
tri_status tri_op_cross_entropy(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits, int32_t hidden,
                                int32_t weight);

/* logits[B, V] (wide) of the last position of each sequence: ends a list for generation. */
tri_status tri_op_last_logits(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits, int32_t hidden,
                              int32_t weight, int32_t *out);

#endif
