/* Text to a tokenized corpus: what `trireme prepare` does. */
#ifndef TRI_DATA_PREPARE_H
#define TRI_DATA_PREPARE_H

#include "base/status.h"
#include "data/split_writer.h"
#include "data/text_input.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_prepare_options {
  const char *tokenizer; /* "gpt2:DIR", "bytes", "char", "FILE.json", its folder or "train:VOCAB" */
  const char *out;       /* the folder */
  const char *const *inputs;
  int num_inputs;
  const char *key; /* of JSON lines */
  tri_document_rule documents;
  double validation;           /* in [0, 1) */
  int threads;                 /* 0: as many as this process may use cores */
  uint64_t seed;               /* of the choice of validation documents */
  int64_t train_bytes;         /* text from which train:VOCAB and char learn, at most */
  bool force;                  /* replace an older corpus */
  bool chat;                   /* the inputs are conversations: the corpora have masks */
  const char *chat_template;   /* its file, or "none"; NULL: the tokenizer's */
  const char *const *chat_set; /* "NAME=VALUE", what the template is told */
  int num_chat_set;
  bool skip_bad; /* passes over documents that are bad: conversations, JSON lines, texts that are not UTF-8 */
  bool binary;   /* files that are not text are taken byte by byte */
  /* Asked between blocks; true ends the work with TRI_INTERRUPTED and leaves nothing behind. May be NULL. */
  bool (*interrupted)(void *context);
  void *context;
} tri_prepare_options;

typedef struct tri_prepare_report {
  tri_split_counts counts;
  int64_t vocab_size, input_bytes; /* of the files, compressed as they are */
  int threads;
  char skipped[1024];       /* why the first document was that was passed over; "" if none was */
  double learn_s, encode_s; /* learning the vocabulary; the rest */
} tri_prepare_report;

/* Leaves train.bin|idx|corpus.json (and mask, of conversations), the same of validation (unless validation is 0) and
 * tokenizer.json in the folder, all of them or what was there before (file_transaction.h). Shows its progress. */
tri_status tri_prepare(const tri_prepare_options *options, tri_prepare_report *out);

#endif
