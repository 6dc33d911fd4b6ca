/* How long the documents are that a run is planned for. */
#ifndef TRI_OPTIONS_LENGTHS_H
#define TRI_OPTIONS_LENGTHS_H

#include "plan/attention_fractions.h"

/* Documents that share sequences: what is drawn of them, and from what. */
typedef struct tri_length_draws {
  tri_drawn_documents *draws;
  tri_attention_fraction_table *table; /* NULL: of their lengths nothing is known */
} tri_length_draws;

/* The share of attention's area that masks leave in sequences of that many tokens, of documents packed whole or cut by
 * windows: by a corpus's prefix, or by a file that `inspect CORPUS --json` printed; and micro-batches of them. Release
 * with tri_length_draws_release. */
tri_status tri_lengths_area(const char *name, int64_t sequence, bool packed, double *out, tri_length_draws *drawn);

tri_status tri_length_draws_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                   tri_length_draws *out);
void tri_length_draws_release(tri_length_draws *drawn);

#endif
