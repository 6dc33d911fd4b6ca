/* How the tokens of a vocabulary of characters become text again: what a tokenizer.json calls its decoder. */
#ifndef TRI_TOKENIZER_DECODING_H
#define TRI_TOKENIZER_DECODING_H

#include "tokenizer/text_steps.h"
#include "tokenizer/vocabulary.h"

typedef struct tri_decoding {
  tri_text_steps replaced;       /* in each token, one after the other */
  tri_text_steps first_replaced; /* in the first token of a text instead, if first_differs */
  bool first_differs;
  bool bytes;       /* "<0x0A>" is that byte */
  char stripped[4]; /* a character that is taken from the beginning of a text, */
  size_t stripped_bytes;
  int64_t stripped_most; /* the most times it is stripped */
  tri_token *tokens;     /* by id: what each adds to a text, in the pool */
  char *pool;
  size_t pool_bytes, pool_room;
} tri_decoding;

/* Fills tokens from a vocabulary, once the rest is there. */
tri_status tri_decoding_index(tri_decoding *decoding, const tri_vocabulary *vocabulary);
void tri_decoding_release(tri_decoding *decoding);

#endif
