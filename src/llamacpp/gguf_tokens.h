/* The tokenizer of a GGUF file: tokens with their types, merges, and the tokens with a key of their own. */
#ifndef TRI_LLAMACPP_GGUF_TOKENS_H
#define TRI_LLAMACPP_GGUF_TOKENS_H

#include "base/status.h"
#include "gguf/gguf.h"
#include "llamacpp/pretokenizers.h"
#include "tokenizer/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>

/* Tokens with a key, in the order of tri_llamacpp_named_tokens. */
enum {
  TRI_LLAMACPP_BOS,
  TRI_LLAMACPP_EOS,
  TRI_LLAMACPP_UNK,
  TRI_LLAMACPP_SEP,
  TRI_LLAMACPP_PAD,
  TRI_LLAMACPP_CLS,
  TRI_LLAMACPP_MASK,
  TRI_LLAMACPP_NAMED_TOKENS,
};

typedef struct tri_llamacpp_named_token {
  const char *key;  /* key in GGUF files; the value is an id */
  const char *name; /* key in tokenizer_config.json; the value is the token's text */
} tri_llamacpp_named_token;

extern const tri_llamacpp_named_token tri_llamacpp_named_tokens[TRI_LLAMACPP_NAMED_TOKENS];

typedef struct tri_llamacpp_vocabulary {
  const tri_gguf_file *file;
  tri_vocabulary tokens; /* texts as in tokenizer.json, UTF-8 without NULs; merges by rank. `learnt`: BPE may make the
                            token. `special`: tokenizer.json has it as a special token. Its size excludes the padding at
                            the end */
  int64_t *types;        /* by id, TRI_LLAMACPP_NORMAL and so on */
  bool characters;       /* whether tokens consist of characters, not of byte letters */
  const tri_llamacpp_pretokenizer *pretokenizer; /* NULL in a vocabulary of characters */
  bool space_prefix;                             /* characters: whether a space is put before texts */
  bool add_bos, add_eos;                         /* whether texts begin with bos, and end with eos */
  int32_t named[TRI_LLAMACPP_NAMED_TOKENS];      /* ids; -1: none */
} tri_llamacpp_vocabulary;

/* LOCAL. Reads the tokenizer's keys of a file, which must remain open. Padding at the end, tokens "[PAD{id}]" that are
 * unused or user-defined, is left out: converters write it for rows of the embedding for which Hugging Face's files
 * have no token. Fails with TRI_UNSUPPORTED for a model or a pre-tokenizer without a name here, and for more than
 * TRI_MAX_VOCABULARY tokens or TRI_LLAMACPP_MOST_MERGES merges; with TRI_BAD_FILE for damaged keys. Release with
 * tri_llamacpp_vocabulary_release, also after a failure. */
tri_status tri_llamacpp_read_vocabulary(const tri_gguf_file *file, tri_llamacpp_vocabulary *out);
void tri_llamacpp_vocabulary_release(tri_llamacpp_vocabulary *vocabulary);

#endif
