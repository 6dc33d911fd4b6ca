/* Where the documents of a corpus begin: as its index says or, where that knows but one, behind each end-of-text token.
 * Documents of no tokens are passed over. */
#ifndef TRI_DATA_DOCUMENTS_H
#define TRI_DATA_DOCUMENTS_H

#include "data/corpus.h"

typedef struct tri_documents {
  const tri_corpus *corpus;
  int32_t end_of_text; /* the last token of each; -1: the index says */
} tri_documents;

/* Whether the index divides the corpus: it knows several documents of some tokens, or they are conversations. */
bool tri_documents_in_index(const tri_corpus *corpus);

/* end_of_text is the tokenizer's, or -1 if there is none; the corpus's record knows better. The corpus must outlive
 * the result. */
tri_documents tri_documents_of(const tri_corpus *corpus, int32_t end_of_text);

/* A corpus that nothing divides is TRI_BAD_FILE, and the message says what would. Reads up to the first boundary. */
tri_status tri_documents_check(const tri_documents *documents);

/* Where all documents are of one token, nothing follows any within one: TRI_BAD_FILE. Reads up to the first longer one.
 */
tri_status tri_documents_check_lengths(const tri_documents *documents);

/* positions[i], of token first + i of the stream in its document, as far as the document lies behind `first`; ids[i]
 * are those tokens. *ends: the token behind the last of them is of another document, or there is none. */
void tri_documents_positions(const tri_documents *documents, int64_t first, int64_t count, const int32_t *ids,
                             int32_t *positions, bool *ends);

/* Every document, in order: its first token and its length. Where the index does not say, reads all of the corpus. */
typedef tri_status tri_documents_take(void *context, int64_t first, int64_t length);
tri_status tri_documents_walk(const tri_documents *documents, tri_documents_take *take, void *context);

#endif
