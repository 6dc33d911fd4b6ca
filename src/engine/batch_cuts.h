/* How the sequences of a micro-batch are cut over the ranks that share them, one by one. */
#ifndef TRI_ENGINE_BATCH_CUTS_H
#define TRI_ENGINE_BATCH_CUTS_H

#include "mesh/document_cut.h"
#include "ops/context.h"

typedef struct tri_batch_cuts {
  tri_op_context context;
  int64_t batch;
  tri_sequence_cut *own;       /* [batch]: by ranks */
  tri_sequence_cut *joined;    /* [batch]: by outer ranks, what their inner ranks have together */
  tri_sequence_cut *keys;      /* [batch]: by outer ranks, tokens whose keys they gather; nothing if they gather none */
  tri_document_cut *documents; /* NULL: every micro-batch is cut alike */
  int64_t *rows;               /* [ranks]: of each */
  double *load;                /* [outer] */
} tri_batch_cuts;

/* Release with tri_batch_cuts_destroy, which also takes what is all zero. */
tri_status tri_batch_cuts_create(const tri_op_context *context, int64_t batch, tri_batch_cuts *out);
void tri_batch_cuts_destroy(tri_batch_cuts *cuts);

/* Cuts the micro-batch with these positions [batch, tokens]. */
void tri_batch_cuts_make(tri_batch_cuts *cuts, const int32_t *positions);

/* The end of the run of tokens from `first` on, before `end`, that are of one document, and that document's first token
 * in the sequence. */
int64_t tri_document_end(const int32_t *positions, int64_t first, int64_t end);
int64_t tri_document_begin(const int32_t *positions, int64_t token);

#endif
