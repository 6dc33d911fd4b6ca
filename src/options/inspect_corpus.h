/* What `inspect` and `prepare` say of a corpus's documents. */
#ifndef TRI_OPTIONS_INSPECT_CORPUS_H
#define TRI_OPTIONS_INSPECT_CORPUS_H

#include "plan/drawn_documents.h"

/* Prints the histogram of lengths, and what packing and masks make of the documents in sequences of that many tokens
 * (0: of some usual numbers). tokenizer NULL: the tokenizer.json beside the corpus, if there is one. */
tri_status tri_inspect_corpus(const char *prefix, const char *tokenizer, int64_t sequence, bool json);

/* The share of attention's area that masks leave of joined documents, packed whole or in windows; and how long they
 * are. */
tri_status tri_inspect_area(const char *prefix, const char *tokenizer, int64_t sequence, bool packed, double *area,
                            tri_length_ranges *lengths);

/* Logs how much padding packed documents need. */
tri_status tri_inspect_log_padding(const char *prefix);

/* LOCAL. Prints a line of how long the conversations of these corpora are. */
tri_status tri_inspect_say_longest(const char *const *prefixes, int count);

/* LOCAL. Prints a line of how many preferences a corpus has, and how long they are. */
tri_status tri_inspect_say_preferences(const char *prefix);

#endif
