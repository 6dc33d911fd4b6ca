/* The tokens of a tokenizer.json as a GGUF file has them: a text, a type and a score for each row of the embedding. */
#ifndef TRI_LLAMACPP_TOKEN_LIST_H
#define TRI_LLAMACPP_TOKEN_LIST_H

#include "base/status.h"
#include "gguf/value.h"
#include "llamacpp/spaces.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Types of tokens in GGUF files. */
enum {
  TRI_LLAMACPP_NORMAL = 1,
  TRI_LLAMACPP_UNKNOWN = 2,
  TRI_LLAMACPP_CONTROL = 3,
  TRI_LLAMACPP_USER_DEFINED = 4, /* an added token that is not special */
  TRI_LLAMACPP_UNUSED = 5,
  TRI_LLAMACPP_BYTE = 6,
};

typedef struct tri_llamacpp_tokens {
  const char *file;     /* name of the tokenizer.json for messages */
  const json_t *root;   /* the document; owns the texts that `made` does not own */
  int64_t size, rows;   /* number of ids of the tokenizer, and of tokens of the GGUF file */
  bool characters;      /* whether tokens consist of characters, not of byte letters */
  tri_gguf_text *texts; /* [rows] */
  int32_t *types;       /* [rows] */
  float *scores;        /* [rows]; 0 if byte-level */
  json_t *made;         /* array of the texts that are not in the document */
} tri_llamacpp_tokens;

/* LOCAL. Fills texts and types from `file`, `root`, `size`, `rows` and `characters`, which are set. Tokens beyond those
 * of the tokenizer, and ids without a token, are "[PAD{id}]", unused. Logs a line if added tokens have flags that
 * llama.cpp ignores. Fails with TRI_UNSUPPORTED if `rows` is below `size`, or if a vocabulary of
 * characters has no tokens for bytes. Release with tri_llamacpp_tokens_release,
 * also after a failure. */
tri_status tri_llamacpp_tokens_fill(tri_llamacpp_tokens *tokens);
void tri_llamacpp_tokens_release(tri_llamacpp_tokens *tokens);

/* LOCAL. Fails with TRI_UNSUPPORTED if two tokens have the same text, with which llama.cpp aborts. */
tri_status tri_llamacpp_tokens_check(const tri_llamacpp_tokens *tokens);

/* LOCAL. For a vocabulary of characters: sets scores from the merges of the file, and spells added tokens with spaces
 * in place of marks. Fails with TRI_UNSUPPORTED if llama.cpp would merge other pairs than the file, naming a token
 * (merge_order.h). */
tri_status tri_llamacpp_tokens_score(tri_llamacpp_tokens *tokens, const tri_llamacpp_spaces *spaces);

/* LOCAL. Fails with TRI_UNSUPPORTED, naming the token, if merges do not make each token of the vocabulary, so that
 * ignore_merges changes ids. `why` begins the message. */
tri_status tri_llamacpp_tokens_all_made(const tri_llamacpp_tokens *tokens, const char *why);

#endif
