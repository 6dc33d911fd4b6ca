/* Lengths of the documents of the corpus that a run is planned for. */
#ifndef TRI_OPTIONS_LENGTHS_H
#define TRI_OPTIONS_LENGTHS_H

#include "plan/attention_fractions.h"

/* Randomly drawn sequences of documents, and the attention fractions of micro-batches of these sequences. Both are NULL
 * if the lengths of the documents are not known. */
typedef struct tri_length_draws {
  tri_drawn_documents *draws;
  tri_attention_fraction_table *table;
} tri_length_draws;

/* Sets *out to the fraction of attention that masks leave in sequences of `sequence` tokens, and draws sequences of
 * documents. The documents are packed whole if `packed`, otherwise cut into windows. `name` is a corpus's prefix, or a
 * file that `inspect CORPUS --json` printed. Fails with TRI_BAD_USAGE if `name` is neither, and with TRI_BAD_FILE if
 * the file has no fraction for this length of sequences. Release *drawn with tri_length_draws_release. */
tri_status tri_lengths_attention_fraction(const char *name, int64_t sequence, bool packed, double *out,
                                          tri_length_draws *drawn);

/* Draws sequences of documents with these lengths, and computes their attention fractions. `packed`: whether documents
 * are packed into the sequences; otherwise a sequence is a window of joined documents. Leaves both members of *out NULL
 * if there are no lengths. Release *out with tri_length_draws_release. */
tri_status tri_length_draws_create(const tri_length_ranges *lengths, int64_t sequence, bool packed,
                                   tri_length_draws *out);
void tri_length_draws_release(tri_length_draws *drawn);

#endif
