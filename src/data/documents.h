/* The documents of a corpus: the documents of its index or, if the index has only one and the corpus has no mask, the
 * texts between end-of-text tokens. Documents without tokens are ignored. */
#ifndef TRI_DATA_DOCUMENTS_H
#define TRI_DATA_DOCUMENTS_H

#include "data/corpus.h"

typedef struct tri_documents {
  const tri_corpus *corpus;
  int32_t end_of_text; /* last token of each document; -1: documents are from the index */
} tri_documents;

/* Returns whether documents are from the index: the index has several documents with tokens, or the corpus has a mask.
 */
bool tri_documents_in_index(const tri_corpus *corpus);

/* Returns the documents of a corpus, which must outlive the result. end_of_text is the tokenizer's, or -1; the corpus's
 * record has precedence. */
tri_documents tri_documents_of(const tri_corpus *corpus, int32_t end_of_text);

/* Fails with TRI_BAD_FILE if the corpus is not divided into documents; the message explains how to divide it. Reads up
 * to the first boundary. */
tri_status tri_documents_check(const tri_documents *documents);

/* Fails with TRI_BAD_FILE if all documents have only one token, and so no label. Reads up to the
 * first document that is longer. */
tri_status tri_documents_check_lengths(const tri_documents *documents);

/* Sets positions[i] to the position of token first + i of the stream in its document. In a document that begins before
 * `first`, positions count from `first`. ids[count] are these tokens. Sets *ends to whether a document ends with the
 * last of them. */
void tri_documents_positions(const tri_documents *documents, int64_t first, int64_t count, const int32_t *ids,
                             int32_t *positions, bool *ends);

/* Called for a document, with the position of its first token in the stream, and its number of tokens. */
typedef tri_status tri_documents_visit(void *context, int64_t first, int64_t length);
/* Calls `take` for every document, in order, until a call fails; returns that failure. Reads all tokens of the corpus
 * if documents are not from the index. */
tri_status tri_documents_walk(const tri_documents *documents, tri_documents_visit *take, void *context);

#endif
