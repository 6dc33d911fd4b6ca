/* Tokenized texts in Megatron-LM's format (PREFIX.bin and PREFIX.idx): reading and writing. */
#ifndef TRIREME_CORPUS_H
#define TRIREME_CORPUS_H

#include "trireme/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trireme_corpus trireme_corpus;

/* Opens a corpus. The files are mapped, not read; every number of the index is checked against their sizes. A corpus
 * may be read from several threads at once. */
TRIREME_API trireme_status trireme_corpus_open(const char *prefix, trireme_corpus **out);
TRIREME_API void trireme_corpus_close(trireme_corpus *corpus);

TRIREME_API int64_t trireme_corpus_num_tokens(const trireme_corpus *corpus);
TRIREME_API int64_t trireme_corpus_num_documents(const trireme_corpus *corpus);
/* Returns the index of the first token of a document in the stream of all tokens. For document num_documents it is the
 * length of the stream; -1: no such document. */
TRIREME_API int64_t trireme_corpus_document(const trireme_corpus *corpus, int64_t document);

/* Copies tokens [first, first + count) of the stream to `to`. */
TRIREME_API trireme_status trireme_corpus_read(const trireme_corpus *corpus, int64_t first, int64_t count, int32_t *to);

typedef struct trireme_corpus_writer trireme_corpus_writer;

/* Creates a writer. Ids are 0 .. vocab_size - 1; each takes two bytes if there are less than 65500 of them. Before the
 * commit all files have temporary names; destroy removes them. */
TRIREME_API trireme_status trireme_corpus_writer_create(const char *prefix, int64_t vocab_size,
                                                        trireme_corpus_writer **out);
TRIREME_API void trireme_corpus_writer_destroy(trireme_corpus_writer *writer);

/* Add tokens to the current document, and end it. */
TRIREME_API trireme_status trireme_corpus_writer_add(trireme_corpus_writer *writer, const int32_t *ids, int64_t count);
TRIREME_API trireme_status trireme_corpus_writer_end_document(trireme_corpus_writer *writer);

/* Flushes all files to the disk and gives them their names. After it only destroy may be called. */
TRIREME_API trireme_status trireme_corpus_writer_commit(trireme_corpus_writer *writer);

#ifdef __cplusplus
}
#endif

#endif
