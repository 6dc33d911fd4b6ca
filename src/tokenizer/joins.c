/* Finds positions that no merge crosses.
 *
 * A vocabulary from SentencePiece has no pre-tokenizer: a whole document is one word, and merging it in one heap is
 * slow and uses no cache. But a merge across the position between two characters joins a token that ends with the first
 * and a token that begins with the second. If the vocabulary has no merge of such tokens, no merge ever crosses the
 * position, and BPE gives the same ids to both sides separately. In practice text is cut before each space, because
 * tokens begin with the mark of a space; inside a token the mark follows punctuation at most.
 *
 * Characters without a token become their bytes, or the unknown token, and one unknown token may replace several
 * characters. If a vocabulary merges such bytes, text is never cut. With an unknown token, text is cut only between
 * known characters. */
#include "tokenizer/joins.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <string.h>

enum { SPACE_MARK = 0x2581 };

static int few_index(uint32_t code) { return code < 0x80 ? (int)code : code == SPACE_MARK ? TRI_FEW_CODES - 1 : -1; }

static void set_few(tri_joins *joins, int left, int right) {
  int bit = left * TRI_FEW_CODES + right;
  joins->few[bit / 8] |= (uint8_t)(1 << bit % 8);
}

/* Returns the place of a pair in the table, or the free place for it. */
static size_t join_table_place(const tri_joins *joins, uint64_t pair) {
  size_t place = (size_t)((pair * UINT64_C(0x9E3779B97F4A7C15)) >> 24) & joins->mask;
  while (joins->pairs[place] != 0 && joins->pairs[place] != pair) place = (place + 1) & joins->mask;
  return place;
}

static uint32_t first_code(const tri_vocabulary *vocabulary, int32_t id) {
  const tri_token *token = &vocabulary->tokens[id];
  uint32_t code = 0;
  (void)tri_utf8_decode(vocabulary->pool + token->offset, token->bytes, &code);
  return code;
}

static uint32_t last_code(const tri_vocabulary *vocabulary, int32_t id) {
  const tri_token *token = &vocabulary->tokens[id];
  const char *text = vocabulary->pool + token->offset;
  size_t at = token->bytes - 1;
  uint32_t code = 0;
  while (at > 0 && ((uint8_t)text[at] & 0xC0) == 0x80) at--;
  (void)tri_utf8_decode(text + at, token->bytes - at, &code);
  return code;
}

static void join(tri_joins *joins, uint32_t left, uint32_t right) {
  int a = few_index(left), b = few_index(right);
  uint64_t pair = (uint64_t)left << 32 | right;
  if (a >= 0 && b >= 0) {
    set_few(joins, a, b);
  } else {
    joins->pairs[join_table_place(joins, pair)] = pair; /* not 0: one of the two is beyond ASCII */
  }
}

/* Marks all pairs with a character that has no token, so that text is not cut next to such a character. */
static void join_unknown(tri_joins *joins, const tri_vocabulary *vocabulary) {
  for (int i = 0; i < TRI_FEW_CODES; i++) {
    char text[4];
    uint32_t code = i == TRI_FEW_CODES - 1 ? SPACE_MARK : (uint32_t)i;
    if (tri_vocabulary_find(vocabulary, text, tri_utf8_encode(code, text)) >= 0) continue;
    for (int other = 0; other < TRI_FEW_CODES; other++) {
      set_few(joins, i, other);
      set_few(joins, other, i);
    }
  }
  joins->few_only = true;
}

tri_status tri_joins_create(tri_joins *joins, const tri_vocabulary *vocabulary, bool unknown) {
  size_t places = 16;
  while (places < 2 * (size_t)vocabulary->merge_count) places *= 2;
  TRI_TRY(tri_alloc("the merges", places, sizeof *joins->pairs, &joins->pairs));
  joins->mask = places - 1;
  for (int64_t i = 0; i < vocabulary->merge_count; i++) {
    const tri_merge *merge = &vocabulary->merges[i];
    joins->all |= vocabulary->tokens[merge->left].byte || vocabulary->tokens[merge->right].byte;
    join(joins, last_code(vocabulary, merge->left), first_code(vocabulary, merge->right));
  }
  if (unknown) join_unknown(joins, vocabulary);
  return TRI_OK;
}

void tri_joins_release(tri_joins *joins) {
  tri_free(joins->pairs);
  *joins = (tri_joins){0};
}

static bool can_join(const tri_joins *joins, uint32_t left, uint32_t right) {
  int a = few_index(left), b = few_index(right);
  if (a >= 0 && b >= 0) {
    int bit = a * TRI_FEW_CODES + b;
    return (joins->few[bit / 8] >> bit % 8 & 1) != 0;
  }
  if (joins->few_only) return true;
  return joins->pairs[join_table_place(joins, (uint64_t)left << 32 | right)] != 0;
}

size_t tri_joins_run(const tri_joins *joins, const char *text, size_t bytes) {
  uint32_t before = 0, code = 0;
  if (joins->all) return bytes;
  for (size_t at = 0; at < bytes;) {
    size_t length = tri_utf8_decode(text + at, bytes - at, &code);
    if (at > 0 && !can_join(joins, before, code)) return at;
    before = code;
    at += length;
  }
  return bytes;
}
