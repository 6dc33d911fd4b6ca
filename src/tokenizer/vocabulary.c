#include "tokenizer/vocabulary.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const char what[] = "the vocabulary";

uint64_t tri_hash_bytes(const char *bytes, size_t count) {
  uint64_t hash = count * UINT64_C(0x9E3779B97F4A7C15);
  while (count > 0) {
    uint64_t word = 0;
    size_t take = count < 8 ? count : 8;
    memcpy(&word, bytes, take);
    hash = (hash ^ word) * UINT64_C(0xBF58476D1CE4E5B9);
    hash ^= hash >> 31;
    bytes += take;
    count -= take;
  }
  return hash * UINT64_C(0x94D049BB133111EB) >> 16;
}

/* Returns the smallest power of two that keeps a table of count entries at most half full, and its exponent. */
static size_t table_places(size_t count, int *exponent) {
  *exponent = 4;
  while (((size_t)1 << *exponent) < count * 2) (*exponent)++;
  return (size_t)1 << *exponent;
}

tri_status tri_vocabulary_create(tri_vocabulary *vocabulary, int64_t size) {
  int exponent = 0;
  size_t places = table_places((size_t)size, &exponent);
  *vocabulary = (tri_vocabulary){.size = size, .by_bytes_mask = places - 1};
  TRI_TRY(tri_alloc(what, (size_t)size, sizeof *vocabulary->tokens, &vocabulary->tokens));
  return tri_alloc(what, places, sizeof *vocabulary->by_bytes, &vocabulary->by_bytes);
}

void tri_vocabulary_release(tri_vocabulary *vocabulary) {
  tri_free(vocabulary->tokens);
  tri_free(vocabulary->pool);
  tri_free(vocabulary->by_bytes);
  tri_free(vocabulary->merges);
  tri_free(vocabulary->slots);
  *vocabulary = (tri_vocabulary){0};
}

/* Returns the place of these bytes in by_bytes, or the free place for them. */
static size_t token_table_place(const tri_vocabulary *vocabulary, const char *bytes, size_t count) {
  size_t place = (size_t)tri_hash_bytes(bytes, count) & vocabulary->by_bytes_mask;
  for (;; place = (place + 1) & vocabulary->by_bytes_mask) {
    int32_t id = vocabulary->by_bytes[place] - 1;
    if (id < 0) return place;
    const tri_token *token = &vocabulary->tokens[id];
    if (token->bytes == count && memcmp(vocabulary->pool + token->offset, bytes, count) == 0) return place;
  }
}

tri_status tri_vocabulary_add(tri_vocabulary *vocabulary, int32_t id, const char *bytes, size_t count, bool learnt) {
  TRI_TRY(tri_reserve(what, 1, vocabulary->pool_bytes + count, &vocabulary->pool_room, &vocabulary->pool));
  memcpy(vocabulary->pool + vocabulary->pool_bytes, bytes, count);
  vocabulary->tokens[id] = (tri_token){.offset = vocabulary->pool_bytes, .bytes = (uint32_t)count, .learnt = learnt};
  vocabulary->pool_bytes += count;
  if (learnt) vocabulary->by_bytes[token_table_place(vocabulary, bytes, count)] = id + 1;
  return TRI_OK;
}

int32_t tri_vocabulary_find(const tri_vocabulary *vocabulary, const char *bytes, size_t count) {
  return vocabulary->by_bytes[token_table_place(vocabulary, bytes, count)] - 1;
}

tri_status tri_vocabulary_add_merge(tri_vocabulary *vocabulary, int32_t left, int32_t right, int32_t result) {
  TRI_TRY(tri_grow(what, sizeof *vocabulary->merges, vocabulary->merge_count, &vocabulary->merge_room,
                   &vocabulary->merges));
  vocabulary->merges[vocabulary->merge_count++] = (tri_merge){left, right, result};
  return TRI_OK;
}

bool tri_vocabulary_use_fallback(tri_vocabulary *vocabulary, bool wanted) {
  bool whole = true;
  for (int byte = 0; byte < 256; byte++) {
    char name[8];
    int length = snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
    vocabulary->fallback[byte] = wanted ? tri_vocabulary_find(vocabulary, name, (size_t)length) : -1;
    if (vocabulary->fallback[byte] >= 0) {
      vocabulary->tokens[vocabulary->fallback[byte]].byte = true;
    } else {
      whole = false;
    }
  }
  return whole;
}

tri_status tri_vocabulary_index(tri_vocabulary *vocabulary) {
  for (int byte = 0; byte < 256; byte++) {
    char one = (char)(uint8_t)byte;
    vocabulary->byte_ids[byte] = tri_vocabulary_find(vocabulary, &one, 1);
  }
  int exponent = 0;
  size_t places = table_places((size_t)vocabulary->merge_count, &exponent);
  TRI_TRY(tri_alloc(what, places, sizeof *vocabulary->slots, &vocabulary->slots));
  for (size_t i = 0; i < places; i++) vocabulary->slots[i].pair = UINT64_MAX;
  vocabulary->slot_mask = places - 1;
  vocabulary->slot_shift = 64 - exponent;
  for (int64_t rank = 0; rank < vocabulary->merge_count; rank++) {
    tri_merge merge = vocabulary->merges[rank];
    uint64_t pair = (uint64_t)(uint32_t)merge.left << 32 | (uint32_t)merge.right;
    size_t place = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> vocabulary->slot_shift);
    while (vocabulary->slots[place].pair != UINT64_MAX && vocabulary->slots[place].pair != pair) {
      place = (place + 1) & vocabulary->slot_mask;
    }
    vocabulary->slots[place] = (tri_merge_slot){.pair = pair, .rank = (uint32_t)rank, .result = merge.result};
  }
  return TRI_OK;
}
