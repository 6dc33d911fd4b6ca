/* Cuts of a micro-batch's sequences over the ranks that share them, one per sequence. */
#ifndef TRI_ENGINE_BATCH_CUTS_H
#define TRI_ENGINE_BATCH_CUTS_H

#include "mesh/document_cut.h"
#include "ops/context.h"

typedef struct tri_batch_cuts {
  tri_op_context context;
  int64_t batch;
  tri_sequence_cut *own;    /* [batch]: by rank */
  tri_sequence_cut *joined; /* [batch]: by outer rank, the tokens of all its inner ranks */
  tri_sequence_cut *keys; /* [batch]: by outer rank, the tokens whose keys it gathers; empty if keys are not gathered */
  tri_document_cut *documents; /* NULL: every micro-batch has the same cut */
  int64_t *rows;               /* [ranks], rows of each rank */
  double *load;                /* [outer], work of each outer rank so far */
} tri_batch_cuts;

/* Creates the cuts of micro-batches of `batch` sequences. Release with tri_batch_cuts_destroy, which accepts a zeroed
 * struct, too. */
tri_status tri_batch_cuts_create(const tri_op_context *context, int64_t batch, tri_batch_cuts *out);
void tri_batch_cuts_destroy(tri_batch_cuts *cuts);

/* Cuts the micro-batch with these positions [batch, tokens]. */
void tri_batch_cuts_make(tri_batch_cuts *cuts, const int32_t *positions);

/* Return the end of the tokens from `first` on that are in the document of token `first`, at most `end`; and the index
 * in the sequence of the first token of a token's document. */
int64_t tri_document_end(const int32_t *positions, int64_t first, int64_t end);
int64_t tri_document_begin(const int32_t *positions, int64_t token);

#endif
