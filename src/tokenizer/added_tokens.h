/* Added tokens ("<|endoftext|>"): texts that become one id before words are encoded. */
#ifndef TRI_TOKENIZER_ADDED_TOKENS_H
#define TRI_TOKENIZER_ADDED_TOKENS_H

#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_added_token {
  char *content; /* released with tri_free */
  size_t bytes;
  int32_t id;
  bool special;
  bool single_word;    /* whether the token is not found directly before or after a character of a word */
  bool lstrip, rstrip; /* lstrip: whether the match includes the spaces before the token. rstrip: whether it includes
                          the spaces after it */
  bool normalized;     /* whether the token is searched for in the normalized text, and not in the original one */
  size_t prepended;    /* bytes that normalization has put before the content (the mark of a space), if `normalized` */
} tri_added_token;

/* A node of the tree of the bytes of all tokens. */
typedef struct tri_added_node {
  int32_t child, sibling; /* 0: none */
  int32_t token;          /* index of the token that ends here; -1: none */
  uint8_t byte;
} tri_added_node;

typedef struct tri_added_matcher {
  const tri_added_token *tokens;
  tri_added_node *nodes;
  int32_t count;
  int64_t room;
  int32_t roots[256]; /* node of each first byte; 0: no token begins with it */
  int single_root;    /* byte with which all tokens begin; -1: no tokens, or their first bytes differ */
} tri_added_matcher;

/* Creates a matcher of the tokens whose member `normalized` has the value `normalized`. Keeps a pointer to `tokens`.
 * Release with tri_added_matcher_release, also after a failure. */
tri_status tri_added_matcher_create(tri_added_matcher *matcher, const tri_added_token *tokens, int64_t count,
                                    bool normalized);
void tri_added_matcher_release(tri_added_matcher *matcher);

/* An iteration over a text. Starts as {.text, .bytes, .plain, .num_plain}, the rest 0. */
typedef struct tri_added_walk {
  const char *text;
  size_t bytes;
  const tri_text_range *plain; /* ranges of the text in which no special token is found; those before the search are
                                  dropped [num_plain] */
  int64_t num_plain;
  size_t done;   /* end of the last match */
  size_t search; /* index at which the search continues */
} tri_added_walk;

/* Finds the next token in the text: its id, and the plain text before it, [*gap, *gap_end). Returns false at the end;
 * plain text from walk->done on may remain then. If several tokens begin at the same byte, the longest is returned.
 * Special tokens are found only if `specials`. */
bool tri_added_next(const tri_added_matcher *matcher, tri_added_walk *walk, bool specials, size_t *gap, size_t *gap_end,
                    int32_t *id);

#endif
