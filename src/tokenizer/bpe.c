/* Two algorithms with the same result. For a short word the ranks of adjacent pairs are in an array, which is searched
 * for the lowest after each merge: quadratic, and the fastest for the few bytes of a normal word. For a long word (a
 * line of dashes, a page of base64) the symbols are in a list and the pairs in a heap. A pair that a merge has changed
 * stays in the heap and is ignored when it is popped, because its symbol has another rank now. The heap has at most one
 * entry for each pair that ever existed: one per byte, and two per merge. */
#include "tokenizer/bpe.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

enum { SHORT_WORD = 48 };
static const uint32_t NO_RANK = UINT32_MAX;
static const char what[] = "encoding a word";

void tri_bpe_release(tri_bpe *bpe) {
  tri_free(bpe->ids);
  tri_free(bpe->symbols);
  tri_free(bpe->heap);
}

/* Writes the ids of the word's bytes to bpe->ids, and returns their number. A byte without a token becomes the unknown
 * token, or is dropped if the tokenizer has no unknown token. */
static size_t begin_word(tri_bpe *bpe, const char *word, size_t bytes) {
  size_t count = 0;
  bool was_unknown = false;
  for (size_t i = 0; i < bytes; i++) {
    int32_t id = bpe->vocabulary->byte_ids[(uint8_t)word[i]];
    bool is_unknown = id < 0;
    if (is_unknown && bpe->unknown < 0) continue; /* dropped, as Hugging Face's tokenizers do */
    if (is_unknown && was_unknown && bpe->fuse_unknown) continue;
    was_unknown = is_unknown;
    bpe->ids[count++] = is_unknown ? bpe->unknown : id;
  }
  return count;
}

/* Writes the tokens of a character's bytes to ids; returns false if a byte has no token. */
static bool fall_back(const tri_vocabulary *vocabulary, const char *character, size_t bytes, int32_t *ids) {
  for (size_t i = 0; i < bytes; i++) {
    ids[i] = vocabulary->fallback[(uint8_t)character[i]];
    if (ids[i] < 0) return false;
  }
  return true;
}

/* Writes the ids of the word's characters to bpe->ids, and returns their number. As in Hugging Face, the unknown token
 * is delayed until the next known character (or the end), so that fallback bytes of other characters come before it. */
static size_t begin_characters(tri_bpe *bpe, const char *word, size_t bytes) {
  const tri_vocabulary *vocabulary = bpe->vocabulary;
  size_t count = 0, length = 0;
  bool waits = false;
  for (size_t i = 0; i < bytes; i += length) {
    uint32_t code = 0;
    length = tri_utf8_decode(word + i, bytes - i, &code);
    bool valid = length > 0;
    if (!valid) length = 1;
    int32_t id =
        length == 1 ? vocabulary->byte_ids[(uint8_t)word[i]] : tri_vocabulary_find(vocabulary, word + i, length);
    if (id < 0 && fall_back(vocabulary, word + i, length, bpe->ids + count)) {
      count += length;
      continue;
    }
    if (waits && (id >= 0 || !bpe->fuse_unknown)) bpe->ids[count++] = bpe->unknown;
    if (id >= 0) bpe->ids[count++] = id;
    waits = id < 0;
  }
  if (waits) bpe->ids[count++] = bpe->unknown;
  return count;
}

static void find_merge(tri_bpe *bpe, int32_t left, int32_t right, uint32_t *rank, int32_t *result) {
  const tri_vocabulary *vocabulary = bpe->vocabulary;
  const tri_merge_slot *slot = tri_vocabulary_merge(vocabulary, left, right);
  if (vocabulary->merges_specials && slot != NULL && vocabulary->tokens[slot->result].special) {
    bpe->met_special = true;
    if (bpe->guarded) slot = NULL;
  }
  *rank = slot != NULL ? slot->rank : NO_RANK;
  *result = slot != NULL ? slot->result : -1;
}

static size_t merge_short(tri_bpe *bpe, int32_t *ids, size_t count) {
  if (count == 0) return 0; /* all bytes were dropped */
  uint32_t ranks[SHORT_WORD];
  int32_t results[SHORT_WORD];
  for (size_t i = 0; i + 1 < count; i++) find_merge(bpe, ids[i], ids[i + 1], &ranks[i], &results[i]);
  ranks[count - 1] = NO_RANK;
  results[count - 1] = -1;
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; i++) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == NO_RANK) break;
    ids[best] = results[best];
    for (size_t i = best + 1; i + 1 < count; i++) {
      ids[i] = ids[i + 1];
      ranks[i] = ranks[i + 1];
      results[i] = results[i + 1];
    }
    count--;
    if (best > 0) find_merge(bpe, ids[best - 1], ids[best], &ranks[best - 1], &results[best - 1]);
    if (best + 1 < count) find_merge(bpe, ids[best], ids[best + 1], &ranks[best], &results[best]);
  }
  return count;
}

static void heap_push(tri_bpe *bpe, uint64_t entry) {
  size_t i = bpe->heap_count++;
  for (; i > 0 && bpe->heap[(i - 1) / 2] > entry; i = (i - 1) / 2) bpe->heap[i] = bpe->heap[(i - 1) / 2];
  bpe->heap[i] = entry;
}

static uint64_t heap_pop(tri_bpe *bpe) {
  uint64_t top = bpe->heap[0], moved = bpe->heap[--bpe->heap_count];
  size_t i = 0, count = bpe->heap_count;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= count) break;
    if (child + 1 < count && bpe->heap[child + 1] < bpe->heap[child]) child++;
    if (bpe->heap[child] >= moved) break;
    bpe->heap[i] = bpe->heap[child];
    i = child;
  }
  bpe->heap[i] = moved;
  return top;
}

/* Looks up the merge of a symbol with its right neighbour and queues it. */
static void queue_pair(tri_bpe *bpe, int32_t at) {
  tri_bpe_symbol *symbol = &bpe->symbols[at];
  symbol->rank = NO_RANK;
  if (symbol->after < 0) return;
  find_merge(bpe, symbol->id, bpe->symbols[symbol->after].id, &symbol->rank, &symbol->result);
  if (symbol->rank != NO_RANK) heap_push(bpe, (uint64_t)symbol->rank << 32 | (uint32_t)at);
}

static tri_status merge_long(tri_bpe *bpe, size_t *count) {
  size_t n = *count;
  if (bpe->long_room < n) {
    bpe->long_room = 0;
    TRI_TRY(tri_realloc(what, n + n / 2, sizeof *bpe->symbols, &bpe->symbols));
    TRI_TRY(tri_realloc(what, (n + n / 2) * 3, sizeof *bpe->heap, &bpe->heap));
    bpe->long_room = n + n / 2;
  }
  for (size_t i = 0; i < n; i++) {
    bpe->symbols[i] =
        (tri_bpe_symbol){.id = bpe->ids[i], .before = (int32_t)i - 1, .after = i + 1 < n ? (int32_t)i + 1 : -1};
  }
  bpe->heap_count = 0;
  for (size_t i = 0; i < n; i++) queue_pair(bpe, (int32_t)i);
  while (bpe->heap_count > 0) {
    uint64_t entry = heap_pop(bpe);
    int32_t at = (int32_t)(uint32_t)entry;
    tri_bpe_symbol *left = &bpe->symbols[at];
    if (left->id < 0 || left->rank != (uint32_t)(entry >> 32)) continue;
    tri_bpe_symbol *right = &bpe->symbols[left->after];
    left->id = left->result;
    left->after = right->after;
    right->id = -1;
    if (left->after >= 0) bpe->symbols[left->after].before = at;
    queue_pair(bpe, at);
    if (left->before >= 0) queue_pair(bpe, left->before);
  }
  size_t kept = 0;
  for (int32_t i = 0; i >= 0; i = bpe->symbols[i].after) bpe->ids[kept++] = bpe->symbols[i].id;
  *count = kept;
  return TRI_OK;
}

tri_status tri_bpe_encode(tri_bpe *bpe, const char *word, size_t bytes, size_t *out_count) {
  if (bytes > INT32_MAX / 2) {
    return tri_fail(TRI_UNSUPPORTED, "a word of %zu bytes without a break is too long for this tokenizer", bytes);
  }
  TRI_TRY(tri_reserve(what, sizeof *bpe->ids, bytes, &bpe->room, &bpe->ids));
  size_t count = bpe->vocabulary->characters ? begin_characters(bpe, word, bytes) : begin_word(bpe, word, bytes);
  if (count <= SHORT_WORD) {
    count = merge_short(bpe, bpe->ids, count);
  } else {
    TRI_TRY(merge_long(bpe, &count));
  }
  *out_count = count;
  return TRI_OK;
}
