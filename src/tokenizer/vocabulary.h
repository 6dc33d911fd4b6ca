/* The tokens of a vocabulary and the merges between them: what BPE looks up. Built once by a reader of a file or by the
 * trainer, then only read. A byte-level vocabulary makes its tokens of bytes. One of characters (those that came from
 * SentencePiece) makes them of code points, and has for one that is not a token the tokens "<0x00>" to "<0xFF>" of its
 * bytes. */
#ifndef TRI_TOKENIZER_VOCABULARY_H
#define TRI_TOKENIZER_VOCABULARY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TRI_MAX_VOCABULARY = 1 << 24 }; /* ids lie below this, so that a hostile id cannot ask for much memory */

typedef struct tri_token {
  size_t offset;  /* into the pool of bytes */
  uint32_t bytes; /* 0: no token has this id */
  bool learnt;    /* spelled in byte letters, so BPE can make it and words are looked up in it; others are only added */
  bool byte;      /* of a vocabulary of characters: stands for one byte of a character that is not a token */
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
  int32_t *by_bytes; /* open addressing: id + 1 by the bytes of a learnt token, 0 where free */
  size_t by_bytes_mask;
  int32_t byte_ids[256]; /* the token of one byte, or -1 */
  bool characters;       /* its tokens are made of code points, not of bytes */
  int32_t fallback[256]; /* of characters: the token that stands for a byte, or -1 */
  tri_merge *merges;     /* by rank */
  int64_t merge_count, merge_room;
  tri_merge_slot *slots;
  size_t slot_mask;
  int slot_shift;
} tri_vocabulary;

/* Room for ids 0 .. size - 1; no token is there yet. Release with tri_vocabulary_release, also after a failure. */
tri_status tri_vocabulary_create(tri_vocabulary *vocabulary, int64_t size);
void tri_vocabulary_release(tri_vocabulary *vocabulary);

/* Gives id its bytes. The caller has checked that the id is below size and free and that the bytes are new. */
tri_status tri_vocabulary_add(tri_vocabulary *vocabulary, int32_t id, const char *bytes, size_t count, bool learnt);

/* The learnt token with these bytes, or -1. */
int32_t tri_vocabulary_find(const tri_vocabulary *vocabulary, const char *bytes, size_t count);

/* Appends the merge of the next lower rank; all ids are known to be in the vocabulary. */
tri_status tri_vocabulary_add_merge(tri_vocabulary *vocabulary, int32_t left, int32_t right, int32_t result);

/* Takes the tokens "<0x00>" to "<0xFF>" of a vocabulary of characters for bytes, if `wanted`; false if one is missing.
 */
bool tri_vocabulary_use_fallback(tri_vocabulary *vocabulary, bool wanted);

/* Makes the table of merges and byte_ids, once all tokens and merges are there. A pair that is listed twice counts
 * where it is listed last, as in Hugging Face. */
tri_status tri_vocabulary_index(tri_vocabulary *vocabulary);

/* The place of a pair of ids in the table, or NULL if they do not merge. */
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

/* A hash of any bytes. */
uint64_t tri_hash_bytes(const char *bytes, size_t count);

#endif
