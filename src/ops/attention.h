/* What the attentions of a list have in common: over a whole sequence, over gathered keys, round a ring. For ops/
 * alone.
 *
 * Each row of the input holds q of H heads, then k and v of G heads. */
#ifndef TRI_OPS_ATTENTION_H
#define TRI_OPS_ATTENTION_H

#include "ops/ops.h"
#include "ops/run.h"

/* Elements of a row of q, k and v; of its queries; of its keys and values. */
int64_t tri_attention_width(tri_heads heads);
int64_t tri_attention_query_width(tri_heads heads);
int64_t tri_attention_key_width(tri_heads heads);

/* Where keys lie in rows of q, k and v; the values are behind them. */
void *tri_attention_keys(const tri_op_call *call, tri_heads heads, void *qkv);

/* Attention of rows of q, k and v on themselves, in no slice yet. */
tri_attention tri_attention_of(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t rows);
/* On the slices of the call's window and of block `block` of `blocks`, which are returned. */
const tri_attention_slice *tri_attention_take_slices(const tri_run *run, const tri_op_call *call, int64_t blocks,
                                                     int64_t block, tri_attention *p);

/* Shapes of an attention: a row of H heads for each of q's; the log of the sum of exponentials of each query's scores,
 * so that the backward can form the probabilities again. */
tri_status tri_attention_shape(const tri_op_call *call, tri_heads heads, const tri_shape *input,
                               tri_shape outputs[TRI_OP_OUTPUTS]);

/* Products over the causal half of sequences of `tokens`, as far as masks leave it; the backward forms the scores
 * again. */
void tri_attention_cost(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t tokens, tri_pass pass,
                        tri_cost *out);

/* The two that pass keys and values between the outer ranks, and the exchange of heads between the inner ones: of q, k
 * and v, whose heads become this rank's, and of attention's output, back. */
tri_status tri_op_attention_gather(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out);
tri_status tri_op_attention_ring(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out);
tri_status tri_op_split_heads(tri_op_list *list, tri_heads *heads, int32_t qkv, int32_t *out);
tri_status tri_op_join_heads(tri_op_list *list, tri_heads heads, int32_t x, int32_t *out);

#endif
