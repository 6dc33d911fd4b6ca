/* Makes a tokenized corpus from text: `trireme prepare`. */
#ifndef TRI_DATA_PREPARE_H
#define TRI_DATA_PREPARE_H

#include "base/status.h"
#include "data/split_writer.h"
#include "data/text_input.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tri_prepare_options {
  const char *tokenizer; /* "gpt2:DIR", "bytes", "char", "FILE.json", its folder or "train:VOCAB" */
  const char *out;       /* the folder of the corpus */
  const char *const *inputs;
  int num_inputs;
  const char *key;  /* without `chat`: key of the text in JSON records, not NULL. With `chat`: key of the messages of a
                       conversation; NULL: the key of the form */
  const char *form; /* form of conversations (chat/forms.h); NULL: the form is recognised from the records */
  int64_t max_records; /* number of documents to read, the first of all inputs; 0: all */
  tri_document_rule documents;
  double validation;   /* fraction of the documents for validation, in [0, 1) */
  int threads;         /* 0: the number of cores that this process may use */
  uint64_t seed;       /* seed of the choice of validation documents */
  int64_t train_bytes; /* number of bytes of text after which train:VOCAB and char end learning; the piece of text in
                          which it is reached is used completely */
  bool force;          /* whether to replace an older corpus */
  bool chat;           /* whether the inputs are conversations, so that the corpora get masks */
  bool preferences;    /* whether the inputs are preferences (chat/preference_forms.h), so that the corpora get masks */
  const char *chat_template;   /* name or path of a template, or "none"; NULL: the tokenizer's */
  const char *key_map;         /* other names of the keys of records (chat/key_map.h); NULL: none */
  const char *const *chat_set; /* [num_chat_set]: variables of the template, "NAME=VALUE" */
  int num_chat_set;
  bool skip_bad; /* whether bad documents (conversations, JSON lines, texts that are not UTF-8) are skipped; if not,
                    they are errors */
  bool binary;   /* whether files that are not text are read as bytes; if not, they are errors */
  /* Called between blocks; if it returns true, the work ends with TRI_INTERRUPTED, without files. May be NULL. */
  bool (*interrupted)(void *context);
  void *context;
} tri_prepare_options;

typedef struct tri_prepare_report {
  tri_split_counts counts;
  int64_t vocab_size, input_bytes; /* input_bytes: size of the input files on the disk */
  int threads;
  char skipped[1024]; /* error of the first skipped document; "": none was skipped */
  double learn_s,
      encode_s; /* in seconds; learn_s: time for learning the vocabulary; encode_s: time for encoding and writing */
} tri_prepare_report;

/* Writes train.bin|idx|corpus.json (and mask for conversations, mask and labels for preferences), the same for
 * validation (unless validation is 0), tokenizer.json and tokenizer_config.json to the folder; if it fails, the folder
 * keeps its earlier files (file_transaction.h). Logs its progress. */
tri_status tri_prepare(const tri_prepare_options *options, tri_prepare_report *out);

#endif
