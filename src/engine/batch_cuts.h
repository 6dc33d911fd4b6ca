/* Cuts of a micro-batch's sequences over the ranks that share them, one per sequence. */
#ifndef TRI_ENGINE_BATCH_CUTS_H
#define TRI_ENGINE_BATCH_CUTS_H

#include "mesh/document_cut.h"
#include "ops/context.h"

typedef struct tri_batch_cuts {
  tri_op_context context;
  int64_t batch;
  tri_sequence_cut *own; /* cut of each sequence over all ranks [batch] */
  /* Cut of each sequence over the outer ranks; a part has the tokens of all inner ranks [batch]. */
  tri_sequence_cut *joined;
  /* Tokens of each sequence whose keys each outer rank gathers [batch]; unused if keys are not gathered. */
  tri_sequence_cut *keys;
  /* Computes cuts that follow the documents; NULL: all micro-batches have the same cuts. */
  tri_document_cut *documents;
  int64_t *rows; /* number of rows of each rank in a sequence [ranks] */
  double *load;  /* work of each outer rank in the sequences cut so far, in query-key pairs [outer] */
} tri_batch_cuts;

/* Creates the cuts of micro-batches of `batch` sequences. Release with tri_batch_cuts_destroy, which accepts a zeroed
 * struct, too. */
tri_status tri_batch_cuts_create(const tri_op_context *context, int64_t batch, tri_batch_cuts *out);
void tri_batch_cuts_destroy(tri_batch_cuts *cuts);

/* Cuts the micro-batch with these positions [batch, tokens]. */
void tri_batch_cuts_make(tri_batch_cuts *cuts, const int32_t *positions);

/* Returns the end of the document of token `first`; `end` if the document does not end before it. */
int64_t tri_document_end(const int32_t *positions, int64_t first, int64_t end);
/* Returns the index in the sequence of the first token of the document of `token`; 0 if the document begins before the
 * sequence. */
int64_t tri_document_begin(const int32_t *positions, int64_t token);

#endif
