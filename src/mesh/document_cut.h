/* Sequences made of documents that do not see each other, cut so that ranks have as many tokens as in the zig-zag cut,
 * work as equal as can be, and few documents that several of them share.
 *
 * A document goes whole to one rank or zig-zag to 2, 4, ... of them or to all (FlexSP, arXiv 2412.01523; ByteScale,
 * arXiv 2502.21231): the longest first, each to as few ranks as keep the work of all within the mean and a tolerance,
 * those with the least so far. Several tolerances are tried; the cut with the least work on the busiest rank is taken,
 * of those whose area is balanced. Work is pairs of positions, and for each row of keys that comes from another rank as
 * many pairs as could have been computed meanwhile. */
#ifndef TRI_MESH_DOCUMENT_CUT_H
#define TRI_MESH_DOCUMENT_CUT_H

#include "mesh/sequence_cut.h"

typedef struct tri_document_cut tri_document_cut; /* memory for it */

/* For sequences of that many tokens; rows[parts] of each part, that many in all. Release with tri_document_cut_destroy.
 */
tri_status tri_document_cut_create(int64_t tokens, int64_t parts, const int64_t *rows, double row_pairs,
                                   tri_document_cut **out);
void tri_document_cut_destroy(tri_document_cut *cut);

/* A sequence whose token t is token positions[t] of its document, or of what is left of it. load[parts]: work that the
 * parts have before, and have then. *out has the same parts, and room for as many ranges as there are tokens; whatever
 * it held is gone. */
void tri_document_cut_sequence(tri_document_cut *cut, const int32_t *positions, double *load, tri_sequence_cut *out);

#endif
