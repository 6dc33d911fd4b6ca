/* Context parallelism: how the ranks that share the sequences of a list exchange queries, keys and values for
 * attention.
 *
 * Each of these ranks has some tokens of every sequence (mesh/sequence_cut.h), and all parameters of the layer. Only
 * attention needs tokens of other ranks. `inner` adjacent ranks exchange heads for tokens, so that each has all of
 * their tokens for some of the heads (DeepSpeed-Ulysses, arXiv 2309.14509). The rest of the sequence is on the `outer`
 * ranks that have the same heads; they gather keys (Llama 3, arXiv 2407.21783) or pass them round a ring (arXiv
 * 2310.01889). One of the two numbers is often 1; USP (arXiv 2405.07719) uses both. */
#ifndef TRI_OPS_CONTEXT_H
#define TRI_OPS_CONTEXT_H

#include "ops/list.h"

typedef struct tri_op_context {
  tri_context_exchange exchange;
  bool masked;      /* whether documents of a sequence do not attend to each other */
  double row_pairs; /* cost of a row of keys from another rank, in pairs of a query and a key (mesh/document_cut.h) */
  int64_t tokens;   /* tokens of a sequence on all context ranks together */
  int64_t ranks, inner, outer; /* numbers of context ranks: ranks = inner * outer */
  int64_t rank, inner_rank,
      outer_rank;         /* index of this rank among the context ranks, the inner ranks and the outer ranks */
  tri_op_windows windows; /* sliding windows of the list */
} tri_op_context;

tri_op_context tri_op_list_context(const tri_op_list *list);

/* Return the number of tokens of a sequence on one context rank, and on all inner ranks together that have the outer
 * rank `outer_rank`. */
int64_t tri_op_context_rows(const tri_op_context *context, int64_t rank);
int64_t tri_op_context_joined_rows(const tri_op_context *context, int64_t outer_rank);

/* Return whether attention gathers keys of the outer ranks (with masked documents only the keys that this rank needs),
 * or passes them round a ring; at most one of the two is true. */
bool tri_op_context_gathers(const tri_op_context *context);
bool tri_op_context_rings(const tri_op_context *context);
/* Returns the number of blocks of keys that attention processes one after the other: `outer` for a ring, else 1. */
int64_t tri_op_context_blocks(const tri_op_context *context);
/* Returns the number of lists of attention slices of a micro-batch: one for each window and block. */
int64_t tri_op_context_lists(const tri_op_context *context);
/* Returns the maximum number of slices in one of these lists. Without masked documents it is one for each sequence, or
 * two if several outer ranks share the sequences; with masked documents, which may be as short as a token, it is one
 * for each query. In a ring with sliding windows it is twice that, because each of the two ranges of a block has its
 * own slices. */
int64_t tri_op_context_slices(const tri_op_context *context, int64_t batch);

#endif
