/* Reports of `inspect` and `prepare` on a corpus's documents. */
#ifndef TRI_OPTIONS_INSPECT_CORPUS_H
#define TRI_OPTIONS_INSPECT_CORPUS_H

#include "plan/drawn_documents.h"

/* Prints a histogram of lengths, and the effect of packing and masks in sequences of `sequence` tokens (0: of several
 * usual lengths). tokenizer NULL: the tokenizer.json in the corpus's folder, if there is one. */
tri_status tri_inspect_corpus(const char *prefix, const char *tokenizer, int64_t sequence, bool json);

/* Computes the fraction of attention that masks leave, with documents packed whole or in windows, and the lengths of
 * the documents. */
tri_status tri_inspect_attention_fraction(const char *prefix, const char *tokenizer, int64_t sequence, bool packed,
                                          double *fraction, tri_length_ranges *lengths);

/* Logs how much padding packed documents need. */
tri_status tri_inspect_log_padding(const char *prefix);

/* LOCAL. Logs the lengths of the conversations of these corpora. */
tri_status tri_inspect_log_longest(const char *const *prefixes, int count);

/* LOCAL. Logs the number of a corpus's preferences, and their lengths. */
tri_status tri_inspect_log_preferences(const char *prefix);

#endif
