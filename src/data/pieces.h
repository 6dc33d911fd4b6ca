/* The documents of a corpus as they are packed: each whole; where it is longer than a sequence, as the caller says. */
#ifndef TRI_DATA_PIECES_H
#define TRI_DATA_PIECES_H

#include "data/documents.h"
#include "data/packing.h"

/* What becomes of a document that is longer than a sequence. */
typedef enum tri_too_long {
  TRI_TOO_LONG_CUT,      /* pieces of the sequence's length, and the rest */
  TRI_TOO_LONG_TRUNCATE, /* its beginning alone                           */
  TRI_TOO_LONG_DROP,     /* nothing of it                                 */
  TRI_TOO_LONG_AUTO,     /* in a configuration that is not settled yet    */
} tri_too_long;

typedef struct tri_pieces {
  int64_t documents, too_long; /* all that there are, and those longer than a sequence */
  int64_t left_out;            /* tokens of these that are in no piece */
  int64_t unlearnt;            /* those that are truncated before anything that is learnt */
  tri_packing *packing;
  int64_t *begins; /* [sequence + 2]: where the pieces of each length begin in `places` */
  int64_t
      *places; /* first token of a piece, times two, plus 1 if its document ends with it; by length, then in order */
} tri_pieces;

/* Release with tri_pieces_release. Eight bytes a piece. TRI_BAD_CONFIG if nothing is left. */
tri_status tri_pieces_find(const tri_documents *documents, int64_t sequence, tri_too_long too_long, tri_pieces *out);
void tri_pieces_release(tri_pieces *pieces);

/* What packing and masks make of a corpus, without a table of its pieces. */
typedef struct tri_packing_facts {
  int64_t sequences;                /* that it takes */
  double padding;                   /* the share of their tokens that are not text */
  double packed_area, windows_area; /* of attention's, what masks leave: in packed sequences, in windows of the text */
} tri_packing_facts;

tri_status tri_packing_look(const tri_documents *documents, int64_t sequence, tri_packing_facts *out);

#endif
