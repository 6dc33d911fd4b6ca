/* Functions that all attention operations share (over whole sequences, over gathered keys, and round a ring), for the
 * files of ops/ only.
 *
 * Each row of the input holds q of H heads, then k and v of G heads. */
#ifndef TRI_OPS_ATTENTION_H
#define TRI_OPS_ATTENTION_H

#include "ops/ops.h"
#include "ops/run.h"

/* Return the number of elements in a row: of q, k and v together; of q; of k and v together. */
int64_t tri_attention_width(tri_heads heads);
int64_t tri_attention_query_width(tri_heads heads);
int64_t tri_attention_key_width(tri_heads heads);

/* Returns the address of the first row's keys in qkv; the row's values follow them. */
void *tri_attention_keys(const tri_op_call *call, tri_heads heads, void *qkv);

/* Returns the description of attention on `rows` rows of q, k and v, with the maximum number of slices. */
tri_attention tri_attention_of(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t rows);
/* Returns the slices of the call's window and of block `block` of `blocks` blocks of keys, and sets their number in *p.
 */
const tri_attention_slice *tri_attention_set_slices(const tri_run *run, const tri_op_call *call, int64_t blocks,
                                                    int64_t block, tri_attention *p);

/* Sets the output shapes of attention: a row of H heads for each row of q; and for each query and head the logarithm of
 * the sum of exponentials of its scores, from which the backward recomputes the probabilities. */
tri_status tri_attention_shape(const tri_op_call *call, tri_heads heads, const tri_shape *input,
                               tri_shape outputs[TRI_OP_OUTPUTS]);

/* Sets the cost of attention over sequences of `tokens` tokens. The cost counts the part of the causal half of the
 * scores that masks leave (call->attention_fraction). The backward recomputes the scores. */
void tri_attention_cost(const tri_op_call *call, tri_heads heads, tri_scores scores, int64_t tokens, tri_pass pass,
                        tri_cost *out);

/* Append attention that exchanges keys and values between the outer context ranks (context.h): by a gather, or round a
 * ring. */
tri_status tri_op_attention_gather(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out);
tri_status tri_op_attention_ring(tri_op_list *list, tri_heads heads, tri_scores scores, int32_t qkv, int32_t *out);
/* Append the exchange of heads between the inner context ranks: tri_op_split_heads before attention, which sets *heads
 * to this rank's part of the heads; tri_op_join_heads for the output of attention, back to all heads. */
tri_status tri_op_split_heads(tri_op_list *list, tri_heads *heads, int32_t qkv, int32_t *out);
tri_status tri_op_join_heads(tri_op_list *list, tri_heads heads, int32_t x, int32_t *out);

#endif
