/* Added tokens ("<|endoftext|>"): texts that become one id before any word is looked at. */
#ifndef TRI_TOKENIZER_ADDED_TOKENS_H
#define TRI_TOKENIZER_ADDED_TOKENS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tri_added_token {
  char *content; /* released with tri_free */
  size_t bytes;
  int32_t id;
  bool special;
  bool single_word;    /* not between letters */
  bool lstrip, rstrip; /* takes the spaces before, after it along */
  bool normalized;     /* looked for after normalization, not before */
} tri_added_token;

/* A tree of the bytes of the tokens looked for. */
typedef struct tri_added_node {
  int32_t child, sibling; /* 0: none */
  int32_t token;          /* index of the token that ends here, or -1 */
  uint8_t byte;
} tri_added_node;

typedef struct tri_added_matcher {
  const tri_added_token *tokens;
  tri_added_node *nodes;
  int32_t count, room;
  int32_t roots[256]; /* nodes of the first byte, 0: none */
  int single_root;    /* the one byte that all tokens begin with, or -1 */
} tri_added_matcher;

/* The matcher of those tokens whose `normalized` is as given. Keeps a pointer to `tokens`. Release it also after a
 * failure. */
tri_status tri_added_matcher_create(tri_added_matcher *matcher, const tri_added_token *tokens, int64_t count,
                                    bool normalized);
void tri_added_matcher_release(tri_added_matcher *matcher);

/* A walk over a text. Begin with {.text, .bytes} and the rest 0. */
typedef struct tri_added_walk {
  const char *text;
  size_t bytes;
  size_t done;   /* what lies before belongs to earlier finds */
  size_t search; /* where to look on */
} tri_added_walk;

/* The next token in the text: its id, and the plain text before it, [*gap, *gap_end). False when there is none; plain
 * text from walk->done to the end may be left then. Of tokens that begin at the same byte the longest is meant. Special
 * ones are passed over unless `specials`. */
bool tri_added_next(const tri_added_matcher *matcher, tri_added_walk *walk, bool specials, size_t *gap, size_t *gap_end,
                    int32_t *id);

#endif
