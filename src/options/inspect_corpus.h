/* Reports of `inspect` and `prepare` about the documents of a corpus. */
#ifndef TRI_OPTIONS_INSPECT_CORPUS_H
#define TRI_OPTIONS_INSPECT_CORPUS_H

#include "plan/drawn_documents.h"

/* Prints a histogram of the documents' lengths, and the effect of packing and masks in sequences of `sequence` tokens,
 * as text or, if `json`, as a JSON document; if `sequence` is 0, in sequences of several usual lengths. If the index
 * has only one document, documents end at the end-of-text token of `tokenizer` or, if that is NULL, of the
 * tokenizer.json in the corpus's folder, if there is one. */
tri_status tri_inspect_corpus(const char *prefix, const char *tokenizer, int64_t sequence, bool json);

/* Sets *lengths to the histogram of the lengths of a corpus's documents, and *fraction to the fraction of attention
 * that masks leave in sequences of `sequence` tokens. The documents are packed whole if `packed`, otherwise cut into
 * windows. `tokenizer`: as for tri_inspect_corpus. */
tri_status tri_inspect_attention_fraction(const char *prefix, const char *tokenizer, int64_t sequence, bool packed,
                                          double *fraction, tri_length_ranges *lengths);

/* LOCAL. Logs the share of padding in sequences of several usual lengths into which documents are packed whole. Logs
 * nothing about a corpus of one document. */
tri_status tri_inspect_log_padding(const char *prefix);

/* LOCAL. Logs the length of the longest conversation of the corpora prefixes[count], and the length that 95 % of the
 * conversations do not exceed. */
tri_status tri_inspect_log_longest(const char *const *prefixes, int count);

/* LOCAL. Logs the number of preferences of a corpus, and their lengths. */
tri_status tri_inspect_log_preferences(const char *prefix);

#endif
