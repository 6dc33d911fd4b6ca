#include "data/documents.h"

#include "base/memory.h"

#include <inttypes.h>

enum { READ_TOKENS = 1 << 16 };

bool tri_documents_in_index(const tri_corpus *corpus) {
  return tri_corpus_has_mask(corpus) || tri_corpus_num_documents(corpus) - tri_corpus_num_empty(corpus) > 1;
}

tri_documents tri_documents_of(const tri_corpus *corpus, int32_t end_of_text) {
  const int32_t said = tri_corpus_end_of_text(corpus);
  return (tri_documents){corpus, tri_documents_in_index(corpus) ? -1 : said >= 0 ? said : end_of_text};
}

/* ---- positions --------------------------------------------------------------------------------------------------- */

/* Returns the document of the index that contains a token. It is the last document that begins at or before the token,
 * so it is not empty. */
static int64_t find_document(const tri_corpus *corpus, int64_t token) {
  int64_t low = 0, high = tri_corpus_num_documents(corpus);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (tri_corpus_document(corpus, middle) <= token) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

static void positions_by_index(const tri_corpus *corpus, int64_t first, int64_t count, int32_t *positions, bool *ends) {
  int64_t document = find_document(corpus, first), end = tri_corpus_document(corpus, document + 1);
  int32_t position = 0;
  for (int64_t i = 0; i < count; i++) {
    while (first + i == end) { /* an empty document ends where it begins */
      document++;
      end = tri_corpus_document(corpus, document + 1);
      position = 0;
    }
    positions[i] = position++;
  }
  *ends = first + count == end;
}

static void positions_by_token(int32_t end_of_text, int64_t count, const int32_t *ids, int32_t *positions, bool *ends) {
  int32_t position = 0;
  for (int64_t i = 0; i < count; i++) {
    positions[i] = position;
    position = ids[i] == end_of_text ? 0 : position + 1;
  }
  *ends = count > 0 && ids[count - 1] == end_of_text;
}

void tri_documents_positions(const tri_documents *documents, int64_t first, int64_t count, const int32_t *ids,
                             int32_t *positions, bool *ends) {
  if (documents->end_of_text < 0) {
    positions_by_index(documents->corpus, first, count, positions, ends);
  } else {
    positions_by_token(documents->end_of_text, count, ids, positions, ends);
  }
  *ends = *ends || first + count == tri_corpus_num_tokens(documents->corpus);
}

/* ---- iteration --------------------------------------------------------------------------------------------------- */

static tri_status walk_index(const tri_corpus *corpus, tri_documents_visit *take, void *context) {
  int64_t begin = 0;
  for (int64_t i = 1; i <= tri_corpus_num_documents(corpus); i++) {
    int64_t end = tri_corpus_document(corpus, i);
    if (end > begin) TRI_TRY(take(context, begin, end - begin));
    begin = end;
  }
  return TRI_OK;
}

static tri_status walk_tokens(const tri_documents *documents, int32_t *ids, tri_documents_visit *take, void *context) {
  int64_t tokens = tri_corpus_num_tokens(documents->corpus), begin = 0;
  for (int64_t first = 0; first < tokens; first += READ_TOKENS) {
    int64_t count = tokens - first < READ_TOKENS ? tokens - first : READ_TOKENS;
    TRI_TRY(tri_corpus_read(documents->corpus, first, count, (int64_t)INT32_MAX + 1, ids));
    for (int64_t i = 0; i < count; i++) {
      if (ids[i] != documents->end_of_text && first + i + 1 < tokens) continue;
      TRI_TRY(take(context, begin, first + i + 1 - begin));
      begin = first + i + 1;
    }
  }
  return TRI_OK;
}

tri_status tri_documents_walk(const tri_documents *documents, tri_documents_visit *take, void *context) {
  int32_t *ids = NULL;
  if (documents->end_of_text < 0) return walk_index(documents->corpus, take, context);
  TRI_TRY(tri_alloc("tokens of a corpus", READ_TOKENS, sizeof *ids, &ids));
  tri_status status = walk_tokens(documents, ids, take, context);
  tri_free(ids);
  return status;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* Ends the iteration at the first boundary between documents. The status TRI_INTERRUPTED is not a failure here, and is
 * not reported. */
static tri_status stop_at_boundary(void *context, int64_t first, int64_t length) {
  const tri_corpus *corpus = context;
  return first + length < tri_corpus_num_tokens(corpus) ? TRI_INTERRUPTED : TRI_OK;
}

tri_status tri_documents_check(const tri_documents *documents) {
  const tri_corpus *corpus = documents->corpus;
  if (tri_documents_in_index(corpus)) return TRI_OK;
  if (documents->end_of_text < 0) {
    return tri_fail(TRI_BAD_FILE,
                    "%s has no boundary between documents: its index has one document, and without a tokenizer its "
                    "end-of-text token is unknown; name one in data.tokenizer, prepare the text again with "
                    "`--documents blank` or `line`, or set data.documents to joined and data.packing to windows",
                    tri_corpus_name(corpus));
  }
  tri_status status = tri_documents_walk(documents, stop_at_boundary, (void *)(uintptr_t)corpus);
  if (status == TRI_INTERRUPTED) return TRI_OK;
  TRI_TRY(status);
  return tri_fail(TRI_BAD_FILE,
                  "%s has no boundary between documents: its index has one document, and no end-of-text token (%" PRId32
                  ") is inside it; prepare the text again with `--documents blank` or `line`, or set data.documents to "
                  "joined and data.packing to windows",
                  tri_corpus_name(corpus), documents->end_of_text);
}

static tri_status stop_at_text(void *context, int64_t first, int64_t length) {
  (void)context, (void)first;
  return length > 1 ? TRI_INTERRUPTED : TRI_OK;
}

tri_status tri_documents_check_lengths(const tri_documents *documents) {
  tri_status status = tri_documents_walk(documents, stop_at_text, NULL);
  if (status == TRI_INTERRUPTED) return TRI_OK;
  TRI_TRY(status);
  return tri_fail(TRI_BAD_FILE,
                  "all documents of %s have one token, so that no label counts with data.documents masked: nothing "
                  "follows the last token of a document; prepare longer ones, or set data.documents to joined",
                  tri_corpus_name(documents->corpus));
}
