/* The operations: the attributes of each, and the function that appends it to a list. Slots and parameters are given by
 * their numbers; -1: no parameter. Every function sets *out to the slot of its result. */
#ifndef TRI_OPS_OPS_H
#define TRI_OPS_OPS_H

#include "device/activation.h"
#include "device/policy.h"
#include "device/preference.h"
#include "ops/list.h"
#include "ops/rope_scaling.h"

/* How a weight matrix is stored: [in, out] in GPT-2's checkpoints, [out, in] in all others. */
typedef enum tri_weight_order { TRI_WEIGHT_IN_OUT, TRI_WEIGHT_OUT_IN } tri_weight_order;

/* ---- tensor parallelism ------------------------------------------------------------------------------------------ */

/* Widths given to operations are those of this rank. With one tensor rank, enter and leave append nothing. */

/* Return this rank's part of `length` elements that are split over the tensor ranks: tri_op_share its length,
 * tri_op_share_of its first element and its length. */
int64_t tri_op_share(const tri_op_list *list, int64_t length);
void tri_op_share_of(const tri_op_list *list, int64_t length, int64_t *first, int64_t *count);

/* Appends the collective before GEMMs whose columns are split over the tensor ranks. Its forward gathers the rows if
 * sequence parallelism slices them; its backward sums the ranks' gradients. */
tri_status tri_op_enter_tensor(tri_op_list *list, int32_t x, int32_t *out);
/* Appends the collective after GEMMs whose rows are split. It sums the ranks' partial results; with sequence_parallel,
 * each rank receives its slice of the sums. */
tri_status tri_op_leave_tensor(tri_op_list *list, int32_t x, int32_t *out);

/* The collectives that tri_op_enter_tensor, tri_op_leave_tensor and the layers of experts append: rows of a table
 * (mesh_collectives.c). */
typedef struct tri_mesh_collective tri_mesh_collective;
extern const tri_mesh_collective tri_copy_to_tensor, tri_reduce_from_tensor, tri_gather_sequence, tri_scatter_sequence,
    tri_own_slice, tri_join_slices;
tri_status tri_op_mesh_collective(tri_op_list *list, const tri_mesh_collective *row, int32_t x, int32_t *out);

/* ---- pipeline parallelism ---------------------------------------------------------------------------------------- */

/* Appends the first call of every stage but the first, which reads the rows that the previous stage has sent. */
tri_status tri_op_stage_input(tri_op_list *list, int64_t width, int32_t *out);
/* Appends the last call of every stage but the last, whose rows are sent to the next stage. */
tri_status tri_op_stage_output(tri_op_list *list, int32_t x);

/* ---- the operations ---------------------------------------------------------------------------------------------- */

/* Appends the embedding: x[R,C] = token[ids] + position. `position` is -1 in models with rotary embeddings. vocab_size
 * is the vocabulary's size on all ranks together. The table of positions has max_sequence + position_offset rows, and
 * position 0 has row position_offset (OPT: 2). */
tri_status tri_op_embedding(tri_op_list *list, int64_t width, int64_t vocab_size, int64_t max_sequence,
                            int64_t position_offset, int32_t token, int32_t position, int32_t *out);

/* Appends a layer norm over each row of x[R,C]. `bias` may be -1. */
tri_status tri_op_layer_norm(tri_op_list *list, double eps, int32_t x, int32_t weight, int32_t bias, int32_t *out);
/* Settings of an RMS norm: y = x / rms * (offset + weight), rms = sqrt(mean of squares + eps). offset is 0, or 1 if the
 * stored weights are differences from 1 (Gemma). */
typedef struct tri_rms {
  double eps, offset;
} tri_rms;
tri_status tri_op_rms_norm(tri_op_list *list, tri_rms rms, int32_t x, int32_t weight, int32_t *out);

/* Appends y[R,out] = x[R,in] W + bias. `weight` may be the first of several adjacent [out_i, in] matrices that together
 * are [out, in] (q, k and v), and `bias` the first of their adjacent biases. */
tri_status tri_op_linear(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                         int32_t weight, int32_t bias, int32_t *out);

/* Appends the product of tri_op_linear with W split by rows over the tensor ranks. The ranks' results are partial sums,
 * which are not reduced. */
tri_status tri_op_linear_part(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                              int32_t weight, int32_t bias, int32_t *out);

/* Appends tri_op_linear_part, and then the sum of the ranks' results (tri_op_leave_tensor). */
tri_status tri_op_linear_row(tri_op_list *list, int64_t in, int64_t out_width, tri_weight_order order, int32_t x,
                             int32_t weight, int32_t bias, int32_t *out);

typedef struct tri_heads {
  int64_t heads, kv_heads, head_dim; /* number of query heads; number of key and value heads; elements of a head */
} tri_heads;

/* Returns this rank's part of a model's heads. */
tri_heads tri_op_share_heads(const tri_op_list *list, int64_t heads, int64_t kv_heads, int64_t head_dim);

/* Appends the RMS norm of q and k in qkv[R, (H + 2G) D]: of each head separately with weights [D] or, if `whole` is
 * true, of all of q with weights [H D] and of all of k with weights [G D]. */
tri_status tri_op_head_norm(tri_op_list *list, tri_heads heads, tri_rms rms, bool whole, int32_t qkv, int32_t q_weight,
                            int32_t k_weight, int32_t *out);

/* tri_op_join_tensor_heads appends the gather of qkv of all of the model's heads on every tensor rank;
 * tri_op_part_tensor_heads takes this rank's heads from the result. All tensor ranks compute the calls between the two
 * in full. */
tri_status tri_op_join_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out);
tri_status tri_op_part_tensor_heads(tri_op_list *list, tri_heads all, int32_t qkv, int32_t *out);

/* The table of a rotary embedding (Su et al. 2021) for `positions` positions. The first `prefill_tokens` of a sequence
 * are processed at once, later ones one by one. The first rotary_dim elements of each head are rotated, with the
 * frequencies of heads of that size, and the other elements are not (GPT-NeoX, Phi); rotary_dim 0: all elements are
 * rotated. */
typedef struct tri_rope_table {
  int64_t positions, prefill_tokens, head_dim, rotary_dim;
  double theta;
  tri_rope_scaling scaling;
} tri_rope_table;

/* Appends the rotation of q and k in qkv[R, (H + 2G) D]. Calls of a list with equal tables share one table in memory; a
 * list may have several different tables (Gemma 3 has two bases). */
tri_status tri_op_rope(tri_op_list *list, tri_heads heads, const tri_rope_table *table, int32_t qkv, int32_t *out);

/* How scores are computed from products of q and k, before masks and softmax: score = scale q k; with a soft cap, the
 * score is replaced by soft_cap tanh(score / soft_cap), whose magnitude is below soft_cap (Gemma 2, arXiv 2408.00118,
 * section 2). */
typedef struct tri_scores {
  double scale;    /* 0: 1 / sqrt(head_dim) */
  double soft_cap; /* 0: no cap */
} tri_scores;

/* Appends causal self-attention from qkv[R, (H + 2G) D] to [R, H D]. If the run has a key/value cache, the call appends
 * the keys and values to it, and attends to those in it, at most `positions` of each sequence. */
tri_status tri_op_attention(tri_op_list *list, tri_heads heads, tri_scores scores, int64_t positions, int32_t qkv,
                            int32_t *out);

tri_status tri_op_activation(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out);
/* Appends y[R, C] = act(gate) * up, where x[R, 2C] is gate, then up: SwiGLU with SiLU, GeGLU with GELU. */
tri_status tri_op_gated(tri_op_list *list, tri_activation kind, int32_t x, int32_t *out);

/* Appends factor * x, rounded once to the activations' type, in place if no other call reads x. Appends nothing if
 * factor is 1. */
tri_status tri_op_scale(tri_op_list *list, double factor, int32_t x, int32_t *out);

/* Appends x + branch. Other calls may read x, but not `branch`. */
tri_status tri_op_add(tri_op_list *list, int32_t x, int32_t branch, int32_t *out);

/* Appends the concatenation of `count` slots, 1 to TRI_OP_INPUTS, along their columns. */
tri_status tri_op_join_columns(tri_op_list *list, int64_t count, const int32_t parts[], int32_t *out);

/* Appends dropout of x. `site`, below 2^16, is a different number for each dropout of a model; the sites of LoRA
 * factors are from TRI_FACTOR_SITES on. Appends nothing if probability is 0. */
enum { TRI_FACTOR_SITES = 1 << 15 };
tri_status tri_op_dropout(tri_op_list *list, double probability, int64_t site, int32_t x, int32_t *out);
/* Appends dropout of x whose rows are split over ranks: x has the columns from `first` on of rows of row_elements
 * elements. Drops the same elements as one rank with whole rows. */
tri_status tri_op_dropout_columns(tri_op_list *list, double probability, int64_t site, int64_t row_elements,
                                  int64_t first, int32_t x, int32_t *out);

/* How logits are computed: scale (h W^T + bias); with a soft cap, soft_cap tanh(logits / soft_cap). bias[V] is a
 * parameter, split as the vocabulary is, or -1. soft_cap 0: no cap. */
typedef struct tri_logits {
  double scale, soft_cap;
  int32_t bias;
} tri_logits;

/* The kinds of losses: cross entropy; a loss of preferences, plus the cross entropy of labels that have a weight
 * (device/completions.h); a policy-gradient loss (device/policy.h). */
typedef enum tri_label_loss_kind {
  TRI_LABEL_LOSS_CROSS_ENTROPY,
  TRI_LABEL_LOSS_PREFERENCE,
  TRI_LABEL_LOSS_POLICY
} tri_label_loss_kind;

typedef struct tri_label_loss {
  tri_label_loss_kind kind;
  tri_preference_settings preference; /* used if kind is TRI_LABEL_LOSS_PREFERENCE */
  tri_policy_settings policy;         /* used if kind is TRI_LABEL_LOSS_POLICY */
} tri_label_loss;

/* Appends the last call of a list: the output projection with weight[V, C] and a loss of the run's labels, in chunks of
 * rows. vocab_size is the vocabulary's size on all ranks together. loss NULL: cross entropy. */
tri_status tri_op_cross_entropy(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits,
                                const tri_label_loss *loss, int32_t hidden, int32_t weight);

/* Appends the last call of a list for generation: the logits[L, V], in the wide type, of the rows run->logit_rows, at
 * most list->logit_rows. */
tri_status tri_op_row_logits(tri_op_list *list, int64_t width, int64_t vocab_size, tri_logits logits, int32_t hidden,
                             int32_t weight, int32_t *out);

#endif
