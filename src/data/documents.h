/* The documents of a corpus: those of its index, or, if that has only one, the text between end-of-text tokens.
 * Documents without tokens are ignored. */
#ifndef TRI_DATA_DOCUMENTS_H
#define TRI_DATA_DOCUMENTS_H

#include "data/corpus.h"

typedef struct tri_documents {
  const tri_corpus *corpus;
  int32_t end_of_text; /* the last token of each document; -1: the documents are those of the index */
} tri_documents;

/* Whether the documents are those of the index: it has several that are not empty, or they are conversations. */
bool tri_documents_in_index(const tri_corpus *corpus);

/* end_of_text is the tokenizer's, or -1; that of the corpus's record is used instead if there is one. The corpus must
 * outlive the result. */
tri_documents tri_documents_of(const tri_corpus *corpus, int32_t end_of_text);

/* TRI_BAD_FILE if the corpus is not divided into documents; the message says how it can be. Reads up to the first
 * boundary. */
tri_status tri_documents_check(const tri_documents *documents);

/* TRI_BAD_FILE if all documents have only one token, so that none has a label. Reads up to the first longer one. */
tri_status tri_documents_check_lengths(const tri_documents *documents);

/* Sets positions[i] to the position of token first + i of the stream in its document; of a document that begins before
 * `first` positions count from `first`. ids[count] are these tokens. *ends: a document ends with the last of them. */
void tri_documents_positions(const tri_documents *documents, int64_t first, int64_t count, const int32_t *ids,
                             int32_t *positions, bool *ends);

/* Calls `take` for every document, in order, with its first token and its length. Reads the whole corpus if the
 * documents are not those of the index. */
typedef tri_status tri_documents_take(void *context, int64_t first, int64_t length);
tri_status tri_documents_walk(const tri_documents *documents, tri_documents_take *take, void *context);

#endif
