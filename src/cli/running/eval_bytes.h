/* Counts the bytes of text of an evaluation's labels, for bits per byte. */
#ifndef TRI_CLI_RUNNING_EVAL_BYTES_H
#define TRI_CLI_RUNNING_EVAL_BYTES_H

#include "data/source.h"
#include "tokenizer/tokenizer.h"

/* A batch of tokens in the order of the corpus. Each token is the label of the token before it, unless a piece or a row
 * ends between the two. */
typedef struct tri_label_rows {
  const int32_t *tokens, *labels; /* [count]; a label below 0 does not count */
  const tri_token_place *places;  /* [count + 1]: places of the tokens, and of the token after the last one */
  int64_t count, sequence;
  bool packed; /* whether rows are independent; otherwise each row continues the row before it */
  bool masked; /* whether the last token of a piece has no label */
} tri_label_rows;

/* Starts as {.decoder, .unknown_token}. The caller releases the decoder. If the decoder is NULL, nothing is counted. */
typedef struct tri_label_bytes {
  tri_decoder *decoder;
  int32_t unknown_token; /* id of the token for text that the tokenizer cannot represent; -1: none */
  int64_t bytes;         /* bytes of labels so far, without unknown tokens */
  int64_t others;        /* bytes of the tokens that are not counted labels */
  int64_t unknown;       /* number of labels that are the unknown token */
  bool awaited;          /* whether the next token is a counted label */
} tri_label_bytes;

/* Counts the bytes of the next batch. The batches of a corpus must be added in order. */
tri_status tri_label_bytes_add(tri_label_bytes *counter, const tri_label_rows *rows);

#endif
