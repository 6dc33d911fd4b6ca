/* Lengths of the documents that a run is planned for. */
#ifndef TRI_OPTIONS_LENGTHS_H
#define TRI_OPTIONS_LENGTHS_H

#include "plan/attention_fractions.h"

/* Randomly drawn sequences of documents, and the attention fractions of their micro-batches; both NULL if the lengths
 * of the documents are unknown. */
typedef struct tri_length_draws {
  tri_drawn_documents *draws;
  tri_attention_fraction_table *table;
} tri_length_draws;

/* Computes the fraction of attention that masks leave in sequences of `sequence` tokens, with documents packed whole or
 * cut into windows, and samples micro-batches. `name`: a corpus's prefix, or a file that `inspect CORPUS --json`
 * printed. Release with tri_length_draws_release. */
tri_status tri_lengths_attention_fraction(const char *name, int64_t sequence, bool packed, double *out,
                                          tri_length_draws *drawn);

tri_status tri_length_draws_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                   tri_length_draws *out);
void tri_length_draws_release(tri_length_draws *drawn);

#endif
