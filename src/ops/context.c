#include "ops/context.h"

#include "mesh/sequence_cut.h"

tri_op_context tri_op_list_context(const tri_op_list *list) {
  return (tri_op_context){
      .exchange = list->shard.context_exchange,
      .masked = list->masked,
      .row_pairs = list->shard.context_row_pairs,
      .tokens = list->tokens,
      .windows = list->windows,
      .ranks = tri_op_list_ranks(list, TRI_DOMAIN_CONTEXT),
      .inner = tri_op_list_ranks(list, TRI_DOMAIN_CONTEXT_INNER),
      .outer = tri_op_list_ranks(list, TRI_DOMAIN_CONTEXT_OUTER),
      .rank = tri_op_list_rank(list, TRI_DOMAIN_CONTEXT),
      .inner_rank = tri_op_list_rank(list, TRI_DOMAIN_CONTEXT_INNER),
      .outer_rank = tri_op_list_rank(list, TRI_DOMAIN_CONTEXT_OUTER),
  };
}

int64_t tri_op_context_rows(const tri_op_context *context, int64_t rank) {
  return tri_zigzag_rows(context->tokens, context->ranks, rank);
}

int64_t tri_op_context_joined_rows(const tri_op_context *context, int64_t outer_rank) {
  int64_t rows = 0;
  for (int64_t i = 0; i < context->inner; i++) rows += tri_op_context_rows(context, outer_rank * context->inner + i);
  return rows;
}

bool tri_op_context_rings(const tri_op_context *context) {
  if (context->outer == 1) return false;
  switch (context->exchange) {
    case TRI_CONTEXT_GATHER:
    case TRI_CONTEXT_HEADS: return false;
    case TRI_CONTEXT_RING: return true;
  }
  return false;
}

bool tri_op_context_gathers(const tri_op_context *context) {
  return context->outer > 1 && !tri_op_context_rings(context);
}

int64_t tri_op_context_blocks(const tri_op_context *context) {
  return tri_op_context_rings(context) ? context->outer : 1;
}

int64_t tri_op_context_lists(const tri_op_context *context) {
  return context->windows.count * tri_op_context_blocks(context);
}

int64_t tri_op_context_slices(const tri_op_context *context, int64_t batch) {
  /* A rank has two ranges of tokens of a sequence or document. With several windows, each range of a block has its own
   * slices. */
  int64_t ranges = context->outer == 1 ? 1 : 2;
  int64_t runs = context->windows.count > 1 && tri_op_context_rings(context) ? 2 : 1;
  if (context->masked) return runs * batch * tri_op_context_joined_rows(context, context->outer_rank);
  return runs * ranges * batch;
}
