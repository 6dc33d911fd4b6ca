/* Counts the bytes of text of an evaluation's labels, for bits per byte. */
#ifndef TRI_CLI_RUNNING_EVAL_BYTES_H
#define TRI_CLI_RUNNING_EVAL_BYTES_H

#include "data/source.h"
#include "tokenizer/tokenizer.h"

/* A batch of tokens in order. Each token is the label of the one before it, unless a piece or a row ends between them.
 */
typedef struct tri_label_rows {
  const int32_t *tokens, *labels; /* [count]; a label below 0 does not count */
  const tri_token_place *places;  /* [count + 1]: places of the tokens and of the next token */
  int64_t count, sequence;
  bool packed; /* rows are independent; otherwise each continues the one before it */
  bool masked; /* the last token of a piece has no label */
} tri_label_rows;

/* Starts as {.decoder, .unknown_token}; the caller releases the decoder. A decoder of NULL: nothing is counted. */
typedef struct tri_label_bytes {
  tri_decoder *decoder;
  int32_t unknown_token; /* id for text that the tokenizer cannot represent; -1: none */
  int64_t bytes;         /* bytes of labels so far, without unknown tokens */
  int64_t others;        /* bytes of tokens that are not counted labels */
  int64_t unknown;       /* number of labels that are the unknown token */
  bool awaited;          /* the next token is a counted label */
} tri_label_bytes;

tri_status tri_label_bytes_add(tri_label_bytes *counter, const tri_label_rows *rows);

#endif
