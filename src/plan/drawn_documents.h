/* Random sequences of documents, for plans that know only the distribution of the lengths of documents. The documents
 * of a sequence are a function of this distribution and of the number of the sequence, so sequences are not stored.
 *
 * A sequence that is not packed is a window of the text. It begins at a random token, so the probability that a
 * document is the first one is proportional to its length. The documents after it are drawn with equal probability.
 * Packed sequences are drawn with equal probability from those of the packing (data/packing.h). */
#ifndef TRI_PLAN_DRAWN_DOCUMENTS_H
#define TRI_PLAN_DRAWN_DOCUMENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The number of documents with `from` to `to` tokens, and the sum of their tokens. */
typedef struct tri_length_range {
  int64_t from, to, documents, tokens;
} tri_length_range;

enum { TRI_LENGTH_RANGES = 1024 };
typedef struct tri_length_ranges {
  int64_t count; /* number of ranges; 0: the lengths are unknown */
  tri_length_range ranges[TRI_LENGTH_RANGES];
} tri_length_ranges;

/* Fails with TRI_BAD_FILE if the numbers of a range contradict each other. `name`: source of the ranges, for the
 * message. */
tri_status tri_length_ranges_check(const tri_length_ranges *lengths, const char *name);

typedef struct tri_drawn_documents tri_drawn_documents;

/* Creates random sequences of `sequence` tokens. *lengths must have at least one range; the lengths within a range are
 * spread evenly around their mean. Release with tri_drawn_documents_destroy. */
tri_status tri_drawn_documents_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                      tri_drawn_documents **out);
void tri_drawn_documents_destroy(tri_drawn_documents *draws);

/* Writes the lengths of the documents of sequence `number` to `lengths`, which has an element for each token of a
 * sequence. Padding counts as documents, so the sum of the lengths is the number of tokens of a sequence. Returns
 * the number of documents. */
int64_t tri_drawn_documents_sequence(const tri_drawn_documents *draws, int64_t number, int32_t *lengths);

/* Returns the number of tokens of a sequence. */
int64_t tri_drawn_documents_tokens(const tri_drawn_documents *draws);

#endif
