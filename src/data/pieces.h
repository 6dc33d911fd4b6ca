/* The documents of a corpus as they are packed: each whole, or, where it is longer than a sequence, cut into pieces of
 * that length and the rest. */
#ifndef TRI_DATA_PIECES_H
#define TRI_DATA_PIECES_H

#include "data/documents.h"
#include "data/packing.h"

typedef struct tri_pieces {
  tri_packing *packing;
  int64_t *begins; /* [sequence + 2]: where the pieces of each length begin in `places` */
  int64_t
      *places; /* first token of a piece, times two, plus 1 where its document ends with it; by length, then in order */
} tri_pieces;

/* Release with tri_pieces_release. Eight bytes a piece. */
tri_status tri_pieces_find(const tri_documents *documents, int64_t sequence, tri_pieces *out);
void tri_pieces_release(tri_pieces *pieces);

/* What packing and masks make of a corpus, without a table of its pieces. */
typedef struct tri_packing_facts {
  int64_t sequences;                /* that it takes */
  double filling;                   /* the share of their tokens that are no text */
  double packed_area, windows_area; /* of attention's, what masks leave: in packed sequences, in windows of the text */
} tri_packing_facts;

tri_status tri_packing_look(const tri_documents *documents, int64_t sequence, tri_packing_facts *out);

#endif
