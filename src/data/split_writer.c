#include "data/split_writer.h"

#include "base/format.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "data/corpus_writer.h"
#include "files/file.h"
#include "files/file_transaction.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct tri_split_writer {
  tri_corpus_writer *train, *validation; /* validation: NULL if `fraction` is 0 */
  double fraction;                       /* fraction of the documents for validation */
  tri_random_key key;
  int64_t text_bytes, validation_bytes, documents, empty_documents;
  int64_t open_tokens; /* number of tokens so far of the current document */
  int64_t learnt_tokens, skipped_documents;
  int64_t desirable;
  bool from_tail, masked, takes_preferences, skip_bad;
  tri_preferences preferences; /* kind of the first record */
  char skipped[1024];          /* error of the first skipped record of the wrong kind; "": none */
};

tri_status tri_split_writer_create(const char *directory, int64_t vocab_size, double validation, uint64_t seed,
                                   bool masked, tri_split_writer **out) {
  tri_status status = TRI_OK;
  tri_split_writer *writer = NULL;
  char prefix[TRI_PATH_BYTES];
  TRI_TRY(tri_alloc("the corpora", 1, sizeof *writer, &writer));
  writer->fraction = validation;
  writer->masked = masked;
  writer->key = tri_random_stream(seed, TRI_RANDOM_SPLIT, 0);
  TRI_TRY_GOTO(tri_path_join(prefix, directory, TRI_FILE_TRANSACTION_TRAIN), destroy_writer);
  TRI_TRY_GOTO(tri_corpus_writer_create(prefix, vocab_size, &writer->train), destroy_writer);
  if (validation > 0) {
    TRI_TRY_GOTO(tri_path_join(prefix, directory, TRI_FILE_TRANSACTION_VALIDATION), destroy_writer);
    TRI_TRY_GOTO(tri_corpus_writer_create(prefix, vocab_size, &writer->validation), destroy_writer);
  }
  if (masked) TRI_TRY_GOTO(tri_corpus_writer_begin_mask(writer->train), destroy_writer);
  if (masked && validation > 0) TRI_TRY_GOTO(tri_corpus_writer_begin_mask(writer->validation), destroy_writer);
  *out = writer;
  return TRI_OK;
destroy_writer:
  tri_split_writer_destroy(writer);
  return status;
}

void tri_split_writer_destroy(tri_split_writer *writer) {
  if (writer == NULL) return;
  tri_corpus_writer_destroy(writer->validation);
  tri_corpus_writer_destroy(writer->train);
  tri_free(writer);
}

static tri_corpus_writer *choose_split_writer(const tri_split_writer *writer, int64_t document) {
  if (writer->validation == NULL || document == 0) return writer->train;
  bool validates = tri_random_uniform(writer->key, (uint64_t)document) < writer->fraction;
  return validates ? writer->validation : writer->train;
}

static tri_status add_tokens(tri_split_writer *writer, tri_corpus_writer *to, const int32_t *ids, const uint8_t *mask,
                             int64_t count) {
  if (mask == NULL) return tri_corpus_writer_add(to, ids, count);
  for (int64_t i = 0; i < count; i++) writer->learnt_tokens += mask[i];
  return tri_corpus_writer_add_masked(to, ids, mask, count);
}

/* ---- preferences ------------------------------------------------------------------------------------------------- */

void tri_split_writer_expect_preferences(tri_split_writer *writer, bool skip_bad) {
  writer->takes_preferences = true;
  writer->skip_bad = skip_bad;
}

static tri_status begin_preferences(tri_split_writer *writer, tri_preferences kind) {
  writer->preferences = kind;
  if (kind == TRI_PREFERENCES_PAIRS) return TRI_OK;
  TRI_TRY(tri_corpus_writer_begin_labels(writer->train));
  return writer->validation == NULL ? TRI_OK : tri_corpus_writer_begin_labels(writer->validation);
}

static const char *what_they_are(tri_preferences kind) {
  switch (kind) {
    case TRI_PREFERENCES_NONE: return "texts";
    case TRI_PREFERENCES_PAIRS: return "pairs (`chosen` and `rejected`)";
    case TRI_PREFERENCES_LABELS: return "answers with a `label`";
  }
  return "";
}

/* Checks the kind of a record; the first record decides which kind the corpora have. Fails with TRI_BAD_FILE for a
 * record of the wrong kind, or with skip_bad sets *skips to true, and keeps the first such error. */
static tri_status check_kind(tri_split_writer *writer, const char *path, const tri_encoded_piece *piece, bool *skips) {
  const tri_preferences kind = piece->is_pair ? TRI_PREFERENCES_PAIRS : TRI_PREFERENCES_LABELS;
  if (writer->preferences == TRI_PREFERENCES_NONE) TRI_TRY(begin_preferences(writer, kind));
  *skips = writer->preferences != kind;
  if (!*skips) return TRI_OK;
  const tri_status status =
      tri_fail(TRI_BAD_FILE,
               "%s line %" PRId64
               ": the record is one of %s, and those before it are %s; a corpus is of one kind: prepare the others by "
               "themselves, or give --skip-bad",
               path, piece->line, what_they_are(kind), what_they_are(writer->preferences));
  if (!writer->skip_bad) return status;
  if (writer->skipped[0] == '\0') snprintf(writer->skipped, sizeof writer->skipped, "%.1000s", tri_status_message());
  return TRI_OK;
}

const char *tri_split_writer_skipped(const tri_split_writer *writer) { return writer->skipped; }

/* Adds one document with a label, or the two documents of a pair. Only counts a record that is skipped. */
static tri_status add_preference(tri_split_writer *writer, const char *path, const tri_encoded_piece *piece,
                                 const int32_t *ids, const uint8_t *mask) {
  tri_corpus_writer *to = choose_split_writer(writer, piece->document);
  bool skips = piece->skipped;
  if (!skips) TRI_TRY(check_kind(writer, path, piece, &skips));
  if (skips) {
    writer->skipped_documents++;
    return TRI_OK;
  }
  const int64_t first = piece->chosen_tokens;
  writer->text_bytes += piece->text_bytes;
  writer->documents += piece->is_pair ? 2 : 1;
  writer->desirable += !piece->is_pair && piece->desirable;
  TRI_TRY(add_tokens(writer, to, ids, mask, first));
  if (!piece->is_pair) return tri_corpus_writer_end_labelled(to, piece->desirable);
  TRI_TRY(tri_corpus_writer_end_document(to));
  TRI_TRY(add_tokens(writer, to, ids + first, mask + first, piece->tokens - first));
  return tri_corpus_writer_end_document(to);
}

/* Checks that both desirable and undesirable answers exist, since KTO's loss compares them. `what`: words of the
 * message that tell which records are checked; "" for all records. `cure`: advice in the message. */
static tri_status check_both(const char *what, int64_t desirable, int64_t documents, const char *cure) {
  if (desirable > 0 && desirable < documents) return TRI_OK;
  return tri_fail(TRI_BAD_FILE,
                  "every `label`%s is %s (%" PRId64
                  " in all): training on labels (KTO) needs desirable and undesirable answers, true and false; %s",
                  what, desirable > 0 ? "true" : "false", documents, cure);
}

static tri_status check_labels(const tri_split_writer *writer) {
  const tri_corpus_writer *train = writer->train;
  if (writer->preferences != TRI_PREFERENCES_LABELS) return TRI_OK;
  TRI_TRY(check_both("", writer->desirable, writer->documents, "add records of the other kind"));
  return check_both(" of the records that are not kept for validation", tri_corpus_writer_num_desirable(train),
                    tri_corpus_writer_num_documents(train), "give another --seed, or --validation 0");
}

/* ---- documents --------------------------------------------------------------------------------------------------- */

static tri_status add_piece(tri_split_writer *writer, const tri_encoded_piece *piece, const int32_t *ids,
                            const uint8_t *mask) {
  tri_corpus_writer *to = choose_split_writer(writer, piece->document);
  /* a block of empty documents has no ids */
  if (piece->tokens > 0) TRI_TRY(add_tokens(writer, to, ids, mask, piece->tokens));
  writer->text_bytes += piece->text_bytes;
  if (to == writer->validation) writer->validation_bytes += piece->text_bytes;
  writer->open_tokens += piece->tokens;
  if (!piece->ends_document) return TRI_OK;
  if (writer->open_tokens > 0) {
    TRI_TRY(tri_corpus_writer_end_document(to));
    writer->documents++;
  } else if (piece->skipped) {
    writer->skipped_documents++;
  } else {
    writer->empty_documents++;
  }
  writer->open_tokens = 0;
  return TRI_OK;
}

tri_status tri_split_writer_add(tri_split_writer *writer, const tri_encoded_block *block) {
  int64_t first = 0;
  for (int64_t i = 0; i < block->num_pieces; i++) {
    const tri_encoded_piece *piece = &block->pieces[i];
    const int32_t *ids = piece->tokens > 0 ? block->ids + first : NULL;
    const uint8_t *mask = block->mask != NULL && piece->tokens > 0 ? block->mask + first : NULL;
    TRI_TRY(writer->takes_preferences ? add_preference(writer, block->path, piece, ids, mask)
                                      : add_piece(writer, piece, ids, mask));
    first += piece->tokens;
  }
  return TRI_OK;
}

void tri_split_writer_count(const tri_split_writer *writer, tri_split_counts *out) {
  tri_split_counts counts = {
      .documents = writer->documents,
      .text_bytes = writer->text_bytes,
      .validation_bytes = writer->validation_bytes,
      .empty_documents = writer->empty_documents,
      .train_documents = tri_corpus_writer_num_documents(writer->train),
      .train_tokens = tri_corpus_writer_num_tokens(writer->train),
      .learnt_tokens = writer->learnt_tokens,
      .skipped_documents = writer->skipped_documents,
      .desirable = writer->desirable,
      .preferences = writer->preferences,
      .from_tail = writer->from_tail,
  };
  if (writer->validation != NULL) {
    counts.validation_documents = tri_corpus_writer_num_documents(writer->validation);
    counts.validation_tokens = tri_corpus_writer_num_tokens(writer->validation);
  }
  counts.tokens = counts.train_tokens + counts.validation_tokens;
  *out = counts;
}

static tri_status divide_stream(tri_split_writer *writer, const tri_split_counts *counts) {
  if (counts->tokens < 2) {
    return tri_fail(TRI_BAD_FILE,
                    "%" PRId64
                    " token cannot be divided into training and validation; add text or give "
                    "--validation 0",
                    counts->tokens);
  }
  int64_t tail = (int64_t)llround((double)counts->tokens * writer->fraction);
  if (tail < 1) tail = 1;
  if (tail > counts->tokens - 1) tail = counts->tokens - 1;
  if (counts->train_tokens == 0) /* all documents went to validation */
    TRI_TRY(tri_corpus_writer_move_tail(writer->validation, writer->train, counts->tokens));
  TRI_TRY(tri_corpus_writer_move_tail(writer->train, writer->validation, tail));
  writer->from_tail = true;
  char documents[32], kept[32], tokens[32];
  tri_log("too few documents to divide by document (%s), so the last %s of %s tokens are kept for validation",
          tri_format_grouped(counts->documents, documents, sizeof documents),
          tri_format_grouped(tail, kept, sizeof kept), tri_format_grouped(counts->tokens, tokens, sizeof tokens));
  return TRI_OK;
}

static int64_t documents_of_a_record(tri_preferences preferences) {
  switch (preferences) {
    case TRI_PREFERENCES_PAIRS: return 2;
    case TRI_PREFERENCES_NONE:
    case TRI_PREFERENCES_LABELS: return 1;
  }
  return 1;
}

/* Moves the last record (a conversation, a pair, or an answer with a label) to the corpus that has no documents. A
 * record cannot be divided; fails with TRI_BAD_FILE if there is only one. Logs what was moved. */
static tri_status divide_documents(tri_split_writer *writer, const tri_split_counts *counts) {
  tri_corpus_writer *from = counts->train_tokens > 0 ? writer->train : writer->validation;
  tri_corpus_writer *to = counts->train_tokens > 0 ? writer->validation : writer->train;
  const int64_t each = documents_of_a_record(writer->preferences), records = counts->documents / each;
  const char *what = writer->takes_preferences ? "record" : "conversation";
  int64_t tokens = 0;
  if (records < 2) {
    return tri_fail(TRI_BAD_FILE,
                    "one %s cannot be divided into training and validation; add more or give --validation 0", what);
  }
  TRI_TRY(tri_corpus_writer_last_documents(from, each, &tokens));
  TRI_TRY(tri_corpus_writer_move_tail(from, to, tokens));
  tri_log("too few %ss to choose from (%" PRId64 "): the last is the %s corpus", what, records,
          to == writer->train ? "training" : "validation");
  return TRI_OK;
}

tri_status tri_split_writer_finish(tri_split_writer *writer) {
  tri_split_counts counts;
  tri_split_writer_count(writer, &counts);
  if (counts.tokens == 0 && counts.skipped_documents > 0) {
    return tri_fail(TRI_BAD_FILE, "all %" PRId64 " %s are bad and were skipped: there is nothing to learn from",
                    counts.skipped_documents,
                    writer->takes_preferences ? "records"
                    : writer->masked          ? "conversations"
                                              : "documents");
  }
  if (counts.tokens == 0) {
    return tri_fail(TRI_BAD_FILE,
                    "the inputs hold no text (%" PRId64 " documents, all empty): there is nothing to learn from",
                    counts.empty_documents);
  }
  const bool divided = counts.validation_tokens > 0 && counts.train_tokens > 0;
  if (writer->validation != NULL && !divided) {
    TRI_TRY(writer->masked ? divide_documents(writer, &counts) : divide_stream(writer, &counts));
  }
  TRI_TRY(check_labels(writer));
  if (writer->validation != NULL) TRI_TRY(tri_corpus_writer_finish(writer->validation));
  return tri_corpus_writer_finish(writer->train);
}

tri_status tri_split_writer_commit(tri_split_writer *writer) {
  if (writer->validation != NULL) TRI_TRY(tri_corpus_writer_commit(writer->validation));
  return tri_corpus_writer_commit(writer->train);
}
