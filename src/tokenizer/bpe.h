/* Byte-pair encoding of one word. Its symbols are its bytes, or its characters. They are merged pair by pair; the pair
 * with the lowest rank comes first, and of equal pairs the leftmost. */
#ifndef TRI_TOKENIZER_BPE_H
#define TRI_TOKENIZER_BPE_H

#include "tokenizer/vocabulary.h"

/* A symbol of a long word. before, after: indices of its neighbours (-1: none); result: token of the merge with the
 * right neighbour. */
typedef struct tri_bpe_symbol {
  int32_t id; /* -1: merged into its left neighbour */
  int32_t before, after;
  int32_t result;
  uint32_t rank; /* UINT32_MAX: does not merge with its right neighbour */
} tri_bpe_symbol;

/* Scratch memory of one thread. Starts as {.vocabulary, .unknown, .fuse_unknown}. */
typedef struct tri_bpe {
  const tri_vocabulary *vocabulary;
  int32_t unknown; /* token for bytes (or characters) that have no token */
  bool fuse_unknown;
  bool guarded;     /* whether merges that would make a special token are left out */
  bool met_special; /* whether two adjacent tokens of a word have merged, or could merge, into a special token, so that
                       the ids of the word depend on `guarded`; the caller sets it to false */
  int32_t *ids;     /* result of the last word */
  size_t room;
  tri_bpe_symbol *symbols;
  uint64_t *heap; /* rank << 32 | symbol */
  size_t long_room, heap_count;
} tri_bpe;

/* Encodes a word; bytes > 0. Its *out_count ids are in bpe->ids until the next call. Fails with TRI_UNSUPPORTED for a
 * word of 1 GiB or more. */
tri_status tri_bpe_encode(tri_bpe *bpe, const char *word, size_t bytes, size_t *out_count);
void tri_bpe_release(tri_bpe *bpe);

#endif
