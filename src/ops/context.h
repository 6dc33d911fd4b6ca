/* Context parallelism as a list sees it: how the ranks that share its sequences bring queries and keys together.
 *
 * Each of them has some tokens of every sequence (mesh/sequence_cut.h), and all of the layer. What is computed token by
 * token asks nothing of the others. Attention does: `inner` neighbours exchange heads for tokens, so that each has all
 * of their tokens for some of the heads (DeepSpeed-Ulysses, arXiv 2309.14509); what is left of the sequence is with the
 * `outer` ranks that have the same heads, and they gather keys (Llama 3, arXiv 2407.21783) or pass them round a ring
 * (arXiv 2310.01889). One of the two numbers is often 1; both at once are what USP (arXiv 2405.07719) does. */
#ifndef TRI_OPS_CONTEXT_H
#define TRI_OPS_CONTEXT_H

#include "ops/list.h"

typedef struct tri_op_context {
  tri_context_exchange exchange;
  bool masked;                 /* documents do not see each other */
  double row_pairs;            /* mesh/document_cut.h */
  int64_t tokens;              /* of a sequence */
  int64_t ranks, inner, outer; /* that share it: ranks = inner * outer */
  int64_t rank, inner_rank, outer_rank;
  tri_op_windows windows;
} tri_op_context;

tri_op_context tri_op_list_context(const tri_op_list *list);

/* Tokens of a sequence that a context rank has, and that the inner neighbours of number `outer_rank` have together. */
int64_t tri_op_context_rows(const tri_op_context *context, int64_t rank);
int64_t tri_op_context_joined_rows(const tri_op_context *context, int64_t outer_rank);

/* Whether attention reads keys of other ranks in the order of the sequence, or block by block. Where documents are
 * masked it gathers those that it needs, else all. */
bool tri_op_context_gathers(const tri_op_context *context);
bool tri_op_context_rings(const tri_op_context *context);
/* Blocks of keys that attention goes through one by one, and lists of slices that a micro-batch has: one for each
 * window, one behind the other, and in it for each block. */
int64_t tri_op_context_blocks(const tri_op_context *context);
int64_t tri_op_context_lists(const tri_op_context *context);
/* The most slices of one of them: where documents may be as short as a token, a query each. */
int64_t tri_op_context_slices(const tri_op_context *context, int64_t batch);

#endif
