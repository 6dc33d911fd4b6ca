#include "data/document_text.h"

#include "base/memory.h"

#include <string.h>

typedef struct text {
  char *bytes; /* [count] */
  size_t count, room;
} text;

static tri_status append(text *to, const char *piece, size_t bytes) {
  if (bytes == 0) return TRI_OK;
  TRI_TRY(tri_reserve("the text of a document", 1, to->count + bytes, &to->room, &to->bytes));
  memcpy(to->bytes + to->count, piece, bytes);
  to->count += bytes;
  return TRI_OK;
}

/* Appends the text of ids[count], with `marks` around each run of tokens whose mask is 1 (`mask` NULL: no marks). */
static tri_status decode(tri_decoder *decoder, const int32_t *ids, const uint8_t *mask, int64_t count,
                         const tri_learnt_marks *marks, text *to) {
  const char *piece = NULL;
  size_t bytes = 0;
  bool learnt = false;
  for (int64_t i = 0; i < count; i++) {
    const bool now = mask != NULL && mask[i] != 0;
    const char *mark = now ? marks->begin : marks->end;
    if (now != learnt) TRI_TRY(append(to, mark, strlen(mark)));
    learnt = now;
    TRI_TRY(tri_decoder_next(decoder, ids[i], &piece, &bytes));
    TRI_TRY(append(to, piece, bytes));
  }
  tri_decoder_end(decoder, &piece, &bytes);
  TRI_TRY(append(to, piece, bytes));
  return learnt ? append(to, marks->end, strlen(marks->end)) : TRI_OK;
}

tri_status tri_document_text(const tri_corpus *corpus, const tri_tokenizer *tokenizer, int64_t first, int64_t count,
                             const tri_learnt_marks *marks, char **out, size_t *bytes) {
  tri_decoder *decoder = NULL;
  int32_t *ids = NULL;
  text made = {.bytes = NULL};
  TRI_TRY(tri_decoder_create(tokenizer, true, &decoder));
  tri_status status = tri_alloc("tokens of a document", (size_t)count, sizeof *ids, &ids);
  if (status == TRI_OK) status = tri_corpus_read(corpus, first, count, INT32_MAX, ids);
  if (status == TRI_OK) status = decode(decoder, ids, tri_corpus_mask(corpus, first, count), count, marks, &made);
  tri_decoder_destroy(decoder);
  tri_free(ids);
  if (status != TRI_OK) tri_free(made.bytes);
  if (status != TRI_OK) return status;
  *out = made.bytes;
  *bytes = made.count;
  return TRI_OK;
}
