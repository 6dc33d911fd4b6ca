/* A tokenized corpus in Megatron-LM's format: PREFIX.bin has the ids of all documents one after the other,
 * PREFIX.idx their type and the beginnings of documents. Existing Megatron-LM corpora work unchanged. `trireme prepare`
 * also writes PREFIX.corpus.json, which names the tokenizer (corpus_record.h). A corpus of conversations also has
 * PREFIX.mask: a byte for each token in the order of the stream, 1 if it is learnt as a label, 0 if it is context only.
 * A corpus of preferences is one of conversations whose documents belong together (tri_preferences). */
#ifndef TRI_DATA_CORPUS_H
#define TRI_DATA_CORPUS_H

#include "base/status.h"
#include "tokenizer/tokenizer.h"

#include <stdint.h>

#define TRI_CORPUS_MASK_SUFFIX ".mask"
#define TRI_CORPUS_LABELS_SUFFIX ".labels"

/* Kind of preferences of a corpus. Each document is a prompt and an answer; the answer's tokens have the mask 1. */
typedef enum tri_preferences {
  TRI_PREFERENCES_NONE,   /* texts, or conversations */
  TRI_PREFERENCES_PAIRS,  /* documents 2 i and 2 i + 1 are the chosen and the rejected answer to one prompt */
  TRI_PREFERENCES_LABELS, /* PREFIX.labels has a byte for each document: 1 desirable, 0 undesirable */
} tri_preferences;

typedef struct tri_corpus tri_corpus;

/* Opens PREFIX.bin and PREFIX.idx for reading (memory-mapped), and PREFIX.mask and PREFIX.labels if they exist, after
 * finishing an interrupted `trireme prepare` (file_transaction.h). Every number of the index is checked against the
 * size of the files before it is used, and all files against PREFIX.corpus.json, if it exists. Fails with TRI_BAD_FILE
 * if a file is missing or damaged, if the corpus has no tokens, or if the files do not belong together. Release with
 * tri_corpus_close. */
tri_status tri_corpus_open(const char *prefix, tri_corpus **out);
void tri_corpus_close(tri_corpus *corpus);

int64_t tri_corpus_num_tokens(const tri_corpus *corpus);
int64_t tri_corpus_num_documents(const tri_corpus *corpus);

/* ---- fingerprint and tokenizer ----------------------------------------------------------------------------------- */

/* Returns the fingerprint of index, tokens, mask and labels (see fingerprint.h for the bytes that count), computed when
 * the corpus was opened. */
const char *tri_corpus_fingerprint(const tri_corpus *corpus);

/* Returns the fingerprint of .bin and .idx only, as in PREFIX.corpus.json. */
const char *tri_corpus_tokens_fingerprint(const tri_corpus *corpus);
/* Returns the fingerprint of the mask, as in PREFIX.corpus.json; "" if there is no mask. */
const char *tri_corpus_mask_fingerprint(const tri_corpus *corpus);
/* Returns the fingerprint of the labels, as in PREFIX.corpus.json; "" if there are no labels. */
const char *tri_corpus_labels_fingerprint(const tri_corpus *corpus);

/* Returns the fingerprint of the tokenizer that made the ids, from the record; "" if unknown. */
const char *tri_corpus_tokenizer(const tri_corpus *corpus);
/* Returns the token at the end of each document, from the record; -1 if the record is missing, or does not have it. */
int32_t tri_corpus_end_of_text(const tri_corpus *corpus);
/* Returns the size of the vocabulary of the tokenizer that made the ids, from the record; 0 if unknown. */
int64_t tri_corpus_vocab_size(const tri_corpus *corpus);
/* Returns the number of bytes of the texts from which the tokens were made, from the record; 0 if unknown. */
int64_t tri_corpus_text_bytes(const tri_corpus *corpus);

/* Compares the corpus's tokenizer with the one in use (NULL: none). If they differ, fails with TRI_BAD_FILE; the
 * message names both. If one of the two is unknown, logs a line and succeeds. tokenizer_name: the tokenizer in use as
 * the user gave it (a path, "bytes"). */
tri_status tri_corpus_check_tokenizer(const tri_corpus *corpus, const tri_tokenizer *tokenizer,
                                      const char *tokenizer_name);

/* Fails with TRI_BAD_FILE if two corpora were made with different tokenizers. Succeeds if one of the tokenizers is
 * unknown. */
tri_status tri_corpus_check_same_tokenizer(const tri_corpus *corpus, const tri_corpus *other);

/* Returns whether a model's vocabulary is much larger than the one with which the corpus was made
 * (tri_tokenizer_leaves_gap); if so, logs a line. */
bool tri_corpus_log_vocabulary(const tri_corpus *corpus, int64_t vocab_size);

/* Returns whether the texts of the corpus lack the tokens with which the tokenizer (NULL: none) begins a text; if so,
 * logs a line. The record shows this. The reason may be an older corpus or a changed tokenizer.json. Returns false for
 * a corpus that has a mask or lacks a record. */
bool tri_corpus_log_beginning(const tri_corpus *corpus, const tri_tokenizer *tokenizer);

/* Copies tokens [first, first + count) of the stream of all documents. Fails with TRI_BAD_FILE for an id
 * outside [0, vocab_size); the message has its position, and explains that the corpus was made with another tokenizer
 * than the model's. */
tri_status tri_corpus_read(const tri_corpus *corpus, int64_t first, int64_t count, int64_t vocab_size, int32_t *out);

/* ---- mask -------------------------------------------------------------------------------------------------------- */

bool tri_corpus_has_mask(const tri_corpus *corpus);
/* Returns the mask of tokens [first, first + count), in the corpus's memory. Returns NULL if there is no mask, so that
 * all tokens are learnt, or if the range is outside the corpus. */
const uint8_t *tri_corpus_mask(const tri_corpus *corpus, int64_t first, int64_t count);
/* Sets labels[count], which are tokens [first, first + count), to -1 if their mask is 0, so that they do not count. */
void tri_corpus_mask_labels(const tri_corpus *corpus, int64_t first, int64_t count, int32_t *labels);
/* Returns the number of tokens whose mask is 1; the number of all tokens if there is no mask. */
int64_t tri_corpus_num_learnt(const tri_corpus *corpus);

/* ---- preferences ------------------------------------------------------------------------------------------------- */

tri_preferences tri_corpus_preferences(const tri_corpus *corpus);
/* Returns a byte for each document, in the corpus's memory: 1 if its answer is desirable, else 0. NULL: no labels. */
const uint8_t *tri_corpus_labels(const tri_corpus *corpus);

/* Fails with TRI_BAD_FILE, with advice in the message, if the corpus has preferences. */
tri_status tri_corpus_want_text(const tri_corpus *corpus);
/* Fails with TRI_BAD_FILE, with advice in the message, if the corpus has no preferences. */
tri_status tri_corpus_want_preferences(const tri_corpus *corpus);

/* ---- documents --------------------------------------------------------------------------------------------------- */

/* Returns the number of documents of the index that have no tokens. */
int64_t tri_corpus_num_empty(const tri_corpus *corpus);

/* Returns the position in the stream of the first token of a document of the index. For an empty document this is the
 * position of the next document; for num_documents, it is the number of tokens. */
int64_t tri_corpus_document(const tri_corpus *corpus, int64_t document);

/* Returns the prefix with which the corpus was opened. */
const char *tri_corpus_name(const tri_corpus *corpus);

#endif
