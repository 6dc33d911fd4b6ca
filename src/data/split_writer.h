/* Writes a training and a validation corpus to one folder. */
#ifndef TRI_DATA_SPLIT_WRITER_H
#define TRI_DATA_SPLIT_WRITER_H

#include "base/status.h"
#include "data/corpus.h"
#include "data/encode_pipeline.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_split_writer tri_split_writer;

/* Creates a writer of DIRECTORY/train.* and, if validation > 0 (a fraction below 1), DIRECTORY/validation.*. `masked`:
 * whether blocks and corpora have masks; documents are then never cut. */
tri_status tri_split_writer_create(const char *directory, int64_t vocab_size, double validation, uint64_t seed,
                                   bool masked, tri_split_writer **out);
/* Removes files that were not committed, and releases the writer. */
void tri_split_writer_destroy(tri_split_writer *writer);

/* Announces that the blocks have preferences, with masks; must be called before the first block. All records must be of
 * the same kind as the first: pairs, or answers with labels. Others are refused with TRI_BAD_FILE, or skipped if
 * skip_bad. A pair stays together. */
void tri_split_writer_expect_preferences(tri_split_writer *writer, bool skip_bad);

/* Returns the error of the first skipped record of the wrong kind; "" if none was skipped. */
const char *tri_split_writer_skipped(const tri_split_writer *writer);

/* Adds a block. A hash of (seed, number of the document) decides whether a document goes to validation; the first
 * document always goes to training. */
tri_status tri_split_writer_add(tri_split_writer *writer, const tri_encoded_block *block);

typedef struct tri_split_counts {
  int64_t documents, tokens, text_bytes; /* sums over both corpora; a document that is cut between them counts once */
  int64_t empty_documents;               /* number of documents without tokens, which are not in the corpora */
  int64_t learnt_tokens;                 /* sum over both corpora; only with masks */
  int64_t skipped_documents;   /* number of skipped documents: bad ones, or records of preferences of the wrong kind */
  int64_t desirable;           /* number of documents with a desirable answer */
  tri_preferences preferences; /* kind of the documents */
  int64_t train_documents, train_tokens;
  int64_t validation_documents, validation_tokens;
  int64_t validation_bytes; /* part of text_bytes that is in the validation corpus; not counted with preferences */
  bool from_tail; /* whether the stream of tokens is divided at one position, and its end is for validation, because the
                     hash chose no document for one of the corpora */
} tri_split_counts;

void tri_split_writer_count(const tri_split_writer *writer, tri_split_counts *out);

/* Completes the corpora after the last block, and flushes everything to the disk. If one of the corpora would be empty,
 * the end of the stream of tokens becomes the validation corpus instead (with masks: the last document or pair becomes
 * the corpus that would be empty). Fails with TRI_BAD_FILE if there is no text, or if all labels are equal. */
tri_status tri_split_writer_finish(tri_split_writer *writer);
/* Renames the files to their final names. */
tri_status tri_split_writer_commit(tri_split_writer *writer);

#endif
