/* Writes a corpus (PREFIX.bin and PREFIX.idx) of any size in constant memory. Until tri_corpus_writer_commit all files
 * have temporary names, and tri_corpus_writer_destroy removes them, so that no partial corpus remains. */
#ifndef TRI_DATA_CORPUS_WRITER_H
#define TRI_DATA_CORPUS_WRITER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_corpus_writer tri_corpus_writer;

/* Creates a writer. Ids are stored as uint16 if vocab_size is below 65500, else as int32, as Megatron-LM does. Fails
 * with TRI_BAD_CONFIG if vocab_size is not in [1, INT32_MAX]. */
tri_status tri_corpus_writer_create(const char *prefix, int64_t vocab_size, tri_corpus_writer **out);
/* Closes the files, and removes them if they were not committed. */
void tri_corpus_writer_destroy(tri_corpus_writer *writer);

/* Adds tokens to the current document. Ids must be in [0, vocab_size). */
tri_status tri_corpus_writer_add(tri_corpus_writer *writer, const int32_t *ids, int64_t count);
/* Ends the current document, which may be empty. */
tri_status tri_corpus_writer_end_document(tri_corpus_writer *writer);

/* Makes the writer also write PREFIX.mask, with a byte for each token: 1 if the token is learnt as a label, 0 if it is
 * context only. Must be called before the first token. */
tri_status tri_corpus_writer_begin_mask(tri_corpus_writer *writer);
/* Adds tokens with their mask to the current document of a corpus with a mask. */
tri_status tri_corpus_writer_add_masked(tri_corpus_writer *writer, const int32_t *ids, const uint8_t *mask,
                                        int64_t count);

/* Makes the writer also write PREFIX.labels, with a byte for each document: 1 if its answer is desirable, else 0. Must
 * be called before the first token. */
tri_status tri_corpus_writer_begin_labels(tri_corpus_writer *writer);
/* Ends the current document of a corpus with labels, with the label of its answer. */
tri_status tri_corpus_writer_end_labelled(tri_corpus_writer *writer, bool desirable);

int64_t tri_corpus_writer_num_tokens(const tri_corpus_writer *writer);
int64_t tri_corpus_writer_num_documents(const tri_corpus_writer *writer);

/* Returns the number of documents with a desirable answer. */
int64_t tri_corpus_writer_num_desirable(const tri_corpus_writer *writer);

/* Sets *out to the number of tokens of the last `count` documents. */
tri_status tri_corpus_writer_last_documents(tri_corpus_writer *writer, int64_t count, int64_t *out);

/* Moves the last `tokens` tokens of one writer, with their mask and the ends and labels of their documents, to the end
 * of another writer with the same vocabulary. A document that is cut ends at the cut. In both writers the last document
 * must be ended. */
tri_status tri_corpus_writer_move_tail(tri_corpus_writer *from, tri_corpus_writer *to, int64_t tokens);

/* Writes the index, and flushes all files to the disk. Fails if the disk is full. The files keep their temporary names
 * until tri_corpus_writer_commit, so that several corpora can be put in place together. */
tri_status tri_corpus_writer_finish(tri_corpus_writer *writer);
/* Renames the files of a finished corpus. An older PREFIX.idx is removed first, so that an index never coexists with
 * the .bin of another corpus. */
tri_status tri_corpus_writer_commit(tri_corpus_writer *writer);

#endif
