/* The tokens of a vocabulary and the merges between them, for BPE. Built once by a reader or by the trainer, then only
 * read. The tokens of a byte-level vocabulary consist of bytes. The tokens of a vocabulary of characters (from
 * SentencePiece) consist of code points; a code point without a token becomes the tokens "<0x00>" to "<0xFF>" of its
 * bytes. */
#ifndef TRI_TOKENIZER_VOCABULARY_H
#define TRI_TOKENIZER_VOCABULARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_MAX_VOCABULARY = 1 << 24 }; /* ids are below this, so that a hostile id cannot allocate much memory */

typedef struct tri_token {
  size_t offset;  /* offset of the token's bytes in the pool */
  uint32_t bytes; /* 0: no token has this id */
  bool learnt;  /* whether BPE and the lookup of words use the token; false: it is an added token that cannot be spelled
                   in byte letters */
  bool byte;    /* vocabulary of characters: whether the token is one byte of a character without a token */
  bool special; /* whether it is an added token that is special */
} tri_token;

typedef struct tri_merge {
  int32_t left, right, result;
} tri_merge;

/* One place of the table of merges. Lower ranks merge first. */
typedef struct tri_merge_slot {
  uint64_t pair; /* left << 32 | right; UINT64_MAX: free */
  uint32_t rank;
  int32_t result;
} tri_merge_slot;

typedef struct tri_vocabulary {
  tri_token *tokens; /* by id */
  int64_t size;      /* ids are 0 .. size - 1 */
  char *pool;
  size_t pool_bytes, pool_room;
  int32_t *by_bytes; /* hash table with open addressing: id + 1 by the bytes of a learnt token; 0: free */
  size_t by_bytes_mask;
  int32_t byte_ids[256]; /* id of the token of each single byte; -1: none */
  bool characters;       /* whether tokens consist of code points, not of bytes */
  int32_t fallback[256]; /* vocabulary of characters: id of the token of each byte; -1: none */
  bool merges_specials;  /* whether the result of any merge is a special token */
  tri_merge *merges;     /* by rank */
  int64_t merge_count, merge_room;
  tri_merge_slot *slots;
  size_t slot_mask;
  int slot_shift;
} tri_vocabulary;

/* Creates an empty vocabulary with room for ids 0 .. size - 1. Release with tri_vocabulary_release, also after a
 * failure. */
tri_status tri_vocabulary_create(tri_vocabulary *vocabulary, int64_t size);
void tri_vocabulary_release(tri_vocabulary *vocabulary);

/* Sets the bytes of an id. The caller has checked that the id is below size and free, and that the bytes are new. */
tri_status tri_vocabulary_add(tri_vocabulary *vocabulary, int32_t id, const char *bytes, size_t count, bool learnt);

/* Returns the learnt token with these bytes; -1: none. */
int32_t tri_vocabulary_find(const tri_vocabulary *vocabulary, const char *bytes, size_t count);

/* Appends a merge, which merges after all earlier ones. The caller has checked that all ids are in the vocabulary. */
tri_status tri_vocabulary_add_merge(tri_vocabulary *vocabulary, int32_t left, int32_t right, int32_t result);

/* Uses the tokens "<0x00>" to "<0xFF>" of a vocabulary of characters for bytes, if `wanted`; returns false if one is
 * missing, or if `wanted` is false. */
bool tri_vocabulary_use_fallback(tri_vocabulary *vocabulary, bool wanted);

/* Makes the table of merges and byte_ids, after all tokens and merges are added. A repeated pair counts at its last
 * position, as in Hugging Face. */
tri_status tri_vocabulary_index(tri_vocabulary *vocabulary);

/* Returns the merge of a pair of ids; NULL if they do not merge. */
static inline const tri_merge_slot *tri_vocabulary_merge(const tri_vocabulary *vocabulary, int32_t left,
                                                         int32_t right) {
  uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  size_t place = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> vocabulary->slot_shift);
  for (;; place = (place + 1) & vocabulary->slot_mask) {
    const tri_merge_slot *slot = &vocabulary->slots[place];
    if (slot->pair == pair) return slot;
    if (slot->pair == UINT64_MAX) return NULL;
  }
}

/* Returns a hash of any bytes. */
uint64_t tri_hash_bytes(const char *bytes, size_t count);

#endif
