/* Decoding of a vocabulary of characters: the `decoder` of a tokenizer.json. */
#ifndef TRI_TOKENIZER_DECODING_H
#define TRI_TOKENIZER_DECODING_H

#include "tokenizer/text_steps.h"
#include "tokenizer/vocabulary.h"

typedef struct tri_decoding {
  tri_text_steps replaced;       /* replacements in each token, in order */
  tri_text_steps first_replaced; /* replacements in the first token of a text, if first_differs */
  bool first_differs;
  bool bytes;       /* whether "<0x0A>" is decoded as the byte 0x0A */
  char stripped[4]; /* character that is removed from the beginning of a text */
  size_t stripped_bytes;
  int64_t stripped_most; /* maximum number of times that it is removed */
  tri_token *tokens;     /* text of each token, in the pool; indexed by id */
  char *pool;
  size_t pool_bytes, pool_room;
} tri_decoding;

/* Fills `tokens` and `pool` from a vocabulary; the other members must be set. */
tri_status tri_decoding_index(tri_decoding *decoding, const tri_vocabulary *vocabulary);
void tri_decoding_release(tri_decoding *decoding);

#endif
