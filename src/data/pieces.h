/* The pieces of a corpus for packing: whole documents. Documents longer than a sequence are cut, truncated or
 * dropped. */
#ifndef TRI_DATA_PIECES_H
#define TRI_DATA_PIECES_H

#include "data/documents.h"
#include "data/packing.h"

/* Rule for documents that are longer than a sequence. */
typedef enum tri_too_long {
  TRI_TOO_LONG_CUT,      /* the document is cut into pieces of the sequence's length, and a rest */
  TRI_TOO_LONG_TRUNCATE, /* only the beginning of the document is used */
  TRI_TOO_LONG_DROP,     /* the document is not used */
  TRI_TOO_LONG_AUTO,     /* not decided yet: only in a configuration before resolving */
  /* Only for preferences, which are never cut. */
  TRI_TOO_LONG_REFUSE,          /* the corpus is refused */
  TRI_TOO_LONG_TRUNCATE_PROMPT, /* prompts lose their beginning */
} tri_too_long;

typedef struct tri_pieces {
  int64_t documents,
      too_long;     /* documents: number of all documents; too_long: number of documents longer than a sequence */
  int64_t left_out; /* number of tokens that are in no piece */
  int64_t unlearnt; /* number of truncated documents whose remaining labels are all masked */
  tri_packing *packing;
  int64_t *begins; /* [sequence + 2]: index in `places` of the first piece of each length; the pieces of a length end
                      where those of the next length begin */
  int64_t *places; /* pieces, ordered by length and then as in the corpus: 2 * first token, + 1 if the piece is the last
                      used one of its document */
} tri_pieces;

/* Finds the pieces, with eight bytes of memory for each piece. Fails with TRI_BAD_CONFIG if no piece is left. Release
 * with tri_pieces_release. */
tri_status tri_pieces_find(const tri_documents *documents, int64_t sequence, tri_too_long too_long, tri_pieces *out);
void tri_pieces_release(tri_pieces *pieces);

/* Statistics of packing and masks for a corpus. */
typedef struct tri_packing_facts {
  int64_t sequences;                        /* number of packed sequences */
  double padding;                           /* fraction of the sequences' tokens that are padding */
  double packed_fraction, windows_fraction; /* fraction of the attention's (query, key) pairs that document masks leave;
                                               packed_fraction: in packed sequences; windows_fraction: in windows */
} tri_packing_facts;

/* Computes the statistics for packing in which documents that are too long are cut. */
tri_status tri_packing_look(const tri_documents *documents, int64_t sequence, tri_packing_facts *out);

#endif
