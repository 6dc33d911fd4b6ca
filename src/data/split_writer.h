/* A training and a validation corpus being written side by side in one folder. */
#ifndef TRI_DATA_SPLIT_WRITER_H
#define TRI_DATA_SPLIT_WRITER_H

#include "base/status.h"
#include "data/encode_pipeline.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_split_writer tri_split_writer;

/* Files DIRECTORY/train.* and, where validation > 0 (a fraction below 1), DIRECTORY/validation.*. With masks where
 * blocks have them (`masked`); then no document is ever cut. */
tri_status tri_split_writer_create(const char *directory, int64_t vocab_size, double validation, uint64_t seed,
                                   bool masked, tri_split_writer **out);
/* Removes what was not committed. */
void tri_split_writer_destroy(tri_split_writer *writer);

/* A document goes to validation if a hash of (seed, its index) says so; the first always goes to training. */
tri_status tri_split_writer_add(tri_split_writer *writer, const tri_encoded_block *block);

typedef struct tri_split_counts {
  int64_t documents, tokens, text_bytes; /* of both; a document that is cut between them counts once here */
  int64_t empty_documents;               /* left out of the corpus */
  int64_t learnt_tokens;                 /* of both, where they have masks */
  int64_t skipped_documents;             /* documents that were bad, and were to be passed over */
  int64_t train_documents, train_tokens;
  int64_t validation_documents, validation_tokens;
  bool from_tail; /* validation is the end of the text, because no document fell to it */
} tri_split_counts;

void tri_split_writer_count(const tri_split_writer *writer, tri_split_counts *out);

/* When all documents are in: if one of the corpora is empty, divides the stream of tokens instead, so that validation
 * is its end. No text at all is TRI_BAD_FILE. Then brings everything to the disk. */
tri_status tri_split_writer_finish(tri_split_writer *writer);
/* Gives the files their names. */
tri_status tri_split_writer_commit(tri_split_writer *writer);

#endif
