#include "llamacpp/score_merges.h"

#include "base/memory.h"
#include "tokenizer/utf8.h"

#include <stdlib.h>

enum { MOST_TOKEN_BYTES = 1024 }; /* bounds the work, which is quadratic in the length of a token */

typedef struct scored_merge {
  double score;
  uint32_t cut; /* bytes of the left part */
  tri_merge merge;
} scored_merge;

typedef struct merge_list {
  scored_merge *all;
  int64_t count, room;
} merge_list;

/* Returns the token with these bytes, if merges use it; otherwise -1. */
static int32_t find_part(const tri_vocabulary *vocabulary, const char *bytes, size_t count) {
  const int32_t id = tri_vocabulary_find(vocabulary, bytes, count);
  return id >= 0 && vocabulary->tokens[id].learnt ? id : -1;
}

/* Adds the merges whose result is the token. */
static tri_status add_cuts(const char *name, const tri_vocabulary *vocabulary, int32_t id, double score,
                           merge_list *list) {
  const tri_token token = vocabulary->tokens[id];
  const char *text = vocabulary->pool + token.offset;
  uint32_t code = 0;
  for (size_t cut = tri_utf8_decode(text, token.bytes, &code); cut < token.bytes;
       cut += tri_utf8_decode(text + cut, token.bytes - cut, &code)) {
    const int32_t left = find_part(vocabulary, text, cut);
    const int32_t right = left < 0 ? -1 : find_part(vocabulary, text + cut, token.bytes - cut);
    if (right < 0) continue;
    if (list->count == TRI_LLAMACPP_MOST_MERGES) {
      return tri_fail(TRI_UNSUPPORTED,
                      "%s: the tokens of `tokenizer.ggml.tokens` have more than %d merges; give a folder with the "
                      "model's tokenizer.json: --tokenizer FOLDER",
                      name, TRI_LLAMACPP_MOST_MERGES);
    }
    TRI_TRY(tri_grow("merges", sizeof *list->all, list->count, &list->room, &list->all));
    list->all[list->count++] = (scored_merge){score, (uint32_t)cut, {left, right, id}};
  }
  return TRI_OK;
}

static int compare(const void *first, const void *second) {
  const scored_merge *a = first, *b = second;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  if (a->merge.result != b->merge.result) return a->merge.result < b->merge.result ? -1 : 1;
  return a->cut < b->cut ? -1 : a->cut > b->cut;
}

static tri_status add_all(const char *name, const double *scores, tri_vocabulary *vocabulary, merge_list *list) {
  for (int32_t id = 0; id < (int32_t)vocabulary->size; id++) {
    const tri_token *token = &vocabulary->tokens[id];
    if (!token->learnt) continue;
    if (token->bytes > MOST_TOKEN_BYTES) {
      return tri_fail(TRI_UNSUPPORTED,
                      "%s: token %d of `tokenizer.ggml.tokens` has %u bytes; merges are made for tokens of at most %d; "
                      "give a folder with the model's tokenizer.json: --tokenizer FOLDER",
                      name, id, token->bytes, MOST_TOKEN_BYTES);
    }
    TRI_TRY(add_cuts(name, vocabulary, id, scores[id], list));
  }
  if (list->count > 0) qsort(list->all, (size_t)list->count, sizeof *list->all, compare);
  for (int64_t i = 0; i < list->count; i++) {
    const tri_merge merge = list->all[i].merge;
    TRI_TRY(tri_vocabulary_add_merge(vocabulary, merge.left, merge.right, merge.result));
  }
  return TRI_OK;
}

tri_status tri_llamacpp_add_score_merges(const char *name, const double *scores, tri_vocabulary *vocabulary) {
  merge_list list = {0};
  const tri_status status = add_all(name, scores, vocabulary, &list);
  tri_free(list.all);
  return status;
}
