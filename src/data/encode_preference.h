/* Encodes the texts of a record of preferences, and marks the tokens of answers. */
#ifndef TRI_DATA_ENCODE_PREFERENCE_H
#define TRI_DATA_ENCODE_PREFERENCE_H

#include "chat/format.h"
#include "tokenizer/tokenizer.h"

/* An encoder; for one thread at a time. */
typedef struct tri_preference_encoder tri_preference_encoder;

/* Creates an encoder. `format` and `tokenizer` must outlive *out. Release with tri_preference_encoder_destroy. */
tri_status tri_preference_encoder_create(const tri_chat_format *format, const tri_tokenizer *tokenizer,
                                         tri_preference_encoder **out);
void tri_preference_encoder_destroy(tri_preference_encoder *encoder);

/* A record of JSON, with its file and line for messages. */
typedef struct tri_preference_line {
  const char *path;
  int64_t number;
  const char *text;
  size_t bytes;
} tri_preference_line;

typedef struct tri_encoded_preference {
  int num_documents;     /* 2: chosen, then rejected; 1: an answer with a label */
  int64_t tokens[2];     /* number of tokens of each document, prompt and answer together */
  int64_t prompt_tokens; /* number of tokens of the prompt, with which each document begins */
  int64_t text_bytes;    /* bytes of all documents */
  bool desirable;        /* label of the answer, if num_documents is 1 */
} tri_encoded_preference;

/* Appends the tokens of the documents of a record, one after the other. If the record is wrong, fails with TRI_BAD_FILE
 * or TRI_UNSUPPORTED, and appends nothing; the message begins with file and line. */
tri_status tri_preference_encoder_add(tri_preference_encoder *encoder, const tri_preference_line *line,
                                      tri_token_list *ids, tri_encoded_preference *out);

/* Sets the mask of all tokens of a record: 1 for the tokens of answers, 0 for the tokens of prompts. */
void tri_preference_mark(const tri_encoded_preference *encoded, uint8_t *mask);

#endif
