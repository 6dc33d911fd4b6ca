/* PREFIX.corpus.json: facts about a corpus that .bin and .idx cannot hold. `trireme prepare` writes this record;
 * corpora of other programs do not have it.
 *
 *   {"version": 1,
 *    "corpus": "9e1c...",       fingerprint of the .bin and .idx that the record describes
 *    "tokens": 12345, "documents": 67,
 *    "tokenizer": "04af...",    fingerprint of the tokenizer that made the ids
 *    "vocab_size": 50257,       size of its vocabulary
 *    "end_of_text": 50256,      token at the end of each document; absent in older records and with a mask
 *    "text_bytes": 45678,       bytes of the texts as they were read, in UTF-8; absent in older records, with a
 *                               mask, and in both corpora if a document was cut between them
 *    "beginning": [1],          tokens with which each document begins (the tokenizer's post_processor); absent: none
 *    "generation": "77d0..."}   fingerprint of all that was written together: both corpora and the tokenizer
 *
 * "tokenizer_before" is the fingerprint that older records have for the same tokenizer
 * (tri_tokenizer_fingerprint_before), if that differs; so a corpus with an old record and one with a new record can be
 * recognised as made by the same tokenizer.
 *
 * The record of a corpus with a mask has version 2 and in addition
 *
 *    "mask": "1b9d...",         the fingerprint of PREFIX.mask
 *    "learnt_tokens": 1234      the number of tokens whose mask is 1
 *
 * The record of a corpus of preferences has a mask, version 3 and in addition
 *
 *    "preferences": "pairs",    or "labels" (tri_preferences)
 *    "labels": "c07e..."        with "labels": the fingerprint of PREFIX.labels
 */
#ifndef TRI_DATA_CORPUS_RECORD_H
#define TRI_DATA_CORPUS_RECORD_H

#include "data/corpus.h"
#include "data/fingerprint.h"
#include "tokenizer/tokenizer.h"

#define TRI_CORPUS_RECORD_SUFFIX ".corpus.json"

typedef struct tri_corpus_record {
  char corpus[TRI_FINGERPRINT_BYTES], tokenizer[TRI_FINGERPRINT_BYTES], generation[TRI_FINGERPRINT_BYTES];
  char tokenizer_before[TRI_FINGERPRINT_BYTES]; /* "": the same as `tokenizer` */
  char mask[TRI_FINGERPRINT_BYTES];             /* "": no mask */
  char labels[TRI_FINGERPRINT_BYTES];           /* "": no labels */
  tri_preferences preferences;
  int64_t tokens, documents, vocab_size, learnt_tokens;
  int64_t text_bytes;  /* bytes of the texts; 0: unknown */
  int64_t end_of_text; /* -1: unknown */
  int32_t beginning[TRI_MOST_BEGINNING];
  int num_beginning;
} tri_corpus_record;

/* Returns "pairs", "labels", or "" for none. */
const char *tri_preferences_word(tri_preferences preferences);

/* Reads a record. If the file does not exist, all texts are "" and all numbers 0, except end_of_text, which is -1.
 * Fails with TRI_BAD_FILE for a file that is not a record. */
tri_status tri_corpus_record_read(const char *path, tri_corpus_record *out);

/* Parses a record in memory as tri_corpus_record_read does; `path` is for messages. */
tri_status tri_corpus_record_parse(const char *path, const char *text, size_t bytes, tri_corpus_record *out);

/* Writes the file completely, or on failure not at all. */
tri_status tri_corpus_record_write(const char *path, const tri_corpus_record *record);

#endif
