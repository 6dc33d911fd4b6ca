/* The pieces of a corpus that are packed: whole documents; those that are longer than a sequence are cut, truncated or
 * dropped. */
#ifndef TRI_DATA_PIECES_H
#define TRI_DATA_PIECES_H

#include "data/documents.h"
#include "data/packing.h"

/* What is done with a document that is longer than a sequence. */
typedef enum tri_too_long {
  TRI_TOO_LONG_CUT,      /* cut into pieces of the sequence's length, and the rest    */
  TRI_TOO_LONG_TRUNCATE, /* only its beginning is used                                */
  TRI_TOO_LONG_DROP,     /* not used                                                  */
  TRI_TOO_LONG_AUTO,     /* not decided yet: only in a configuration before resolving */
  /* Of preferences alone, which are never cut. */
  TRI_TOO_LONG_REFUSE,          /* the corpus is refused                                   */
  TRI_TOO_LONG_TRUNCATE_PROMPT, /* prompts lose their beginning                            */
} tri_too_long;

typedef struct tri_pieces {
  int64_t documents, too_long; /* number of all documents, and of those longer than a sequence */
  int64_t left_out;            /* tokens that are in no piece */
  int64_t unlearnt;            /* documents of which truncation leaves only tokens that are not learnt */
  tri_packing *packing;
  int64_t *begins; /* [sequence + 2]: begin of the pieces of each length in `places` */
  int64_t *places; /* of each piece, by length, then in order: 2 * its first token, + 1 if its document ends with it */
} tri_pieces;

/* Takes eight bytes of memory for each piece. TRI_BAD_CONFIG if there is no piece. Release with tri_pieces_release. */
tri_status tri_pieces_find(const tri_documents *documents, int64_t sequence, tri_too_long too_long, tri_pieces *out);
void tri_pieces_release(tri_pieces *pieces);

/* The effect of packing and masks on a corpus. */
typedef struct tri_packing_facts {
  int64_t sequences;                /* number of packed sequences */
  double padding;                   /* share of their tokens that are padding */
  double packed_area, windows_area; /* attention fraction that document masks leave: of packed sequences, of windows */
} tri_packing_facts;

tri_status tri_packing_look(const tri_documents *documents, int64_t sequence, tri_packing_facts *out);

#endif
