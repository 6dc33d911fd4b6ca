/* Sequences of documents, drawn: what shares a sequence where only the lengths of documents are known. Which documents
 * a sequence has is a function of (seed, its number), so nothing is kept of it.
 *
 * Windows of the text begin anywhere in it: in a document as probably as it is long, and documents follow one another
 * in no order. Packed sequences are those of the packing (data/packing.h), one as probably as another. */
#ifndef TRI_PLAN_DRAWN_DOCUMENTS_H
#define TRI_PLAN_DRAWN_DOCUMENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* Documents of from to `to` tokens, and how many they have together. */
typedef struct tri_length_range {
  int64_t from, to, documents, tokens;
} tri_length_range;

enum { TRI_LENGTH_RANGES = 1024 };
typedef struct tri_length_ranges {
  int64_t count; /* 0: nothing is known */
  tri_length_range ranges[TRI_LENGTH_RANGES];
} tri_length_ranges;

/* TRI_BAD_FILE if no documents could have such lengths; `name` is who says them. */
tri_status tri_length_ranges_check(const tri_length_ranges *lengths, const char *name);

typedef struct tri_drawn_documents tri_drawn_documents;

/* At least one range. Within a range lengths are spread evenly around their mean. Release with
 * tri_drawn_documents_destroy. */
tri_status tri_drawn_documents_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                      tri_drawn_documents **out);
void tri_drawn_documents_destroy(tri_drawn_documents *draws);

/* What a sequence holds: lengths[tokens of a sequence], which add up to those. Returns how many. */
int64_t tri_drawn_documents_sequence(const tri_drawn_documents *draws, int64_t number, int32_t *lengths);

int64_t tri_drawn_documents_tokens(const tri_drawn_documents *draws);

#endif
