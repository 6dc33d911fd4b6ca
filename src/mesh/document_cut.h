/* Cuts sequences of masked documents so that ranks have as many tokens as in the zig-zag cut, nearly equal work, and
 * few documents that are split over several ranks.
 *
 * A document goes whole to one rank, or zig-zag to 2, 4, ... or all ranks (FlexSP, arXiv 2412.01523; ByteScale, arXiv
 * 2502.21231). The longest documents are placed first, each on the fewest ranks that keep the work of every rank below
 * the mean plus a tolerance, and on the ranks with the least work so far. Several tolerances are tried. Cuts whose
 * attention areas are balanced are preferred; among them, the cut with the least work on its busiest rank is used. Work
 * is counted in query-key pairs; each row of keys that comes from another rank counts as `row_pairs` of them. */
#ifndef TRI_MESH_DOCUMENT_CUT_H
#define TRI_MESH_DOCUMENT_CUT_H

#include "mesh/sequence_cut.h"

typedef struct tri_document_cut tri_document_cut; /* scratch memory for cutting */

/* Allocates a cut for sequences of `tokens` tokens; part p gets rows[p] of them, and the sum of rows[parts] is
 * `tokens`. row_pairs: layout.context_row_pairs. Release with tri_document_cut_destroy. */
tri_status tri_document_cut_create(int64_t tokens, int64_t parts, const int64_t *rows, double row_pairs,
                                   tri_document_cut **out);
void tri_document_cut_destroy(tri_document_cut *cut);

/* Cuts a sequence whose token t is token positions[t] of its document. Adds the work of each part to load[parts],
 * which has the work of earlier sequences. *out is overwritten; it must have been created with the same number of
 * parts, and with room for as many ranges as there are tokens. */
void tri_document_cut_sequence(tri_document_cut *cut, const int32_t *positions, double *load, tri_sequence_cut *out);

#endif
