/* PREFIX.corpus.json: what a corpus's .bin and .idx have no room for. `trireme prepare` writes it, a corpus from
 * elsewhere has none.
 *
 *   {"version": 1,
 *    "corpus": "9e1c...",       the fingerprint of the .bin and .idx that it describes
 *    "tokens": 12345, "documents": 67,
 *    "tokenizer": "04af...",    the fingerprint of the tokenizer that made the ids
 *    "vocab_size": 50257,       its size
 *    "end_of_text": 50256,      the token behind each document; older records have none: the tokenizer says it
 *    "generation": "77d0..."}   of all that was written together: both corpora and the tokenizer
 *
 * Where older records have another fingerprint of the same tokenizer (tri_tokenizer_fingerprint_before), that is
 * "tokenizer_before", by which it is known that corpora of both kinds belong together.
 *
 * One of a corpus with a mask has version 2 and in addition
 *
 *    "mask": "1b9d...",         the fingerprint of PREFIX.mask
 *    "learnt_tokens": 1234      how many of the tokens it lets be learnt
 */
#ifndef TRI_DATA_CORPUS_RECORD_H
#define TRI_DATA_CORPUS_RECORD_H

#include "data/fingerprint.h"

#define TRI_CORPUS_RECORD_SUFFIX ".corpus.json"

typedef struct tri_corpus_record {
  char corpus[TRI_FINGERPRINT_BYTES], tokenizer[TRI_FINGERPRINT_BYTES], generation[TRI_FINGERPRINT_BYTES];
  char tokenizer_before[TRI_FINGERPRINT_BYTES]; /* "": the same */
  char mask[TRI_FINGERPRINT_BYTES];             /* "": there is none */
  int64_t tokens, documents, vocab_size, learnt_tokens;
  int64_t end_of_text; /* -1: not said */
} tri_corpus_record;

/* Without such a file all texts are "" and all numbers 0, but for end_of_text. A file that is not a record is
 * TRI_BAD_FILE. */
tri_status tri_corpus_record_read(const char *path, tri_corpus_record *out);

/* The same of memory; `path` is for messages. */
tri_status tri_corpus_record_parse(const char *path, const char *text, size_t bytes, tri_corpus_record *out);

/* Writes it whole or not at all. */
tri_status tri_corpus_record_write(const char *path, const tri_corpus_record *record);

#endif
