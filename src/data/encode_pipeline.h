/* Encodes the blocks of an input with many threads, and returns them in the order of the input for any number of
 * threads. */
#ifndef TRI_DATA_ENCODE_PIPELINE_H
#define TRI_DATA_ENCODE_PIPELINE_H

#include "base/status.h"
#include "chat/conversation.h"
#include "chat/format.h"
#include "data/text_input.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

/* An encoded piece. A skipped document and an empty text of a JSON record have no tokens. The last piece of any other
 * text ends with the end-of-text token; a conversation or preference ends with the last token of its rendered text. */
typedef struct tri_encoded_piece {
  int64_t tokens, text_bytes; /* tokens: number of tokens; text_bytes: number of bytes of the text that was encoded */
  int64_t document;           /* index over all inputs */
  bool ends_document;
  bool skipped; /* whether the piece is a bad document that was skipped */
  int64_t line; /* line of the record, for messages; only with preferences */
  /* Preferences: a pair is two documents, and the first one has `chosen_tokens` tokens. Else the piece is one document,
   * with the label `desirable`. */
  bool is_pair, desirable;
  int64_t chosen_tokens;
} tri_encoded_piece;

typedef struct tri_encoded_block {
  const int32_t *ids;                   /* ids of all pieces, one after the other */
  const uint8_t *mask;                  /* for each id: 1 if it is learnt; NULL: all are learnt */
  const tri_saved_error *first_skipped; /* error of the first skipped piece; NULL: none was skipped */
  const tri_encoded_piece *pieces;
  int64_t num_pieces;
  const char *path; /* path of the file */
  int64_t position; /* number of bytes of the input files read so far, up to the end of this block */
} tri_encoded_block;

typedef struct tri_encode_pipeline {
  tri_text_input *input;
  const tri_tokenizer *tokenizer;
  const char *key;             /* key of the text in JSON records */
  const tri_chat_format *chat; /* format of conversations or preferences; NULL: inputs are texts */
  tri_chat_reading reading;    /* options for conversations */
  bool preferences;            /* whether inputs are preferences, rendered with `chat` */
  bool skip_bad;               /* whether bad documents are skipped; if not, they are errors */
  int threads;                 /* number of threads that encode */
  /* Called for each block, always from the thread that runs the pipeline. If it fails, the run fails. */
  tri_status (*accept)(void *context, const tri_encoded_block *block);
  void *context;
} tri_encode_pipeline;

/* Encodes all blocks, and returns after `accept` was called for the last block. If the input has several errors, the
 * first one in the order of the input is returned. */
tri_status tri_encode_pipeline_run(const tri_encode_pipeline *pipeline);

#endif
