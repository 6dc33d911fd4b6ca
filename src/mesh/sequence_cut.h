/* The division of a sequence's tokens among the ranks that share it.
 *
 * A part is a list of ranges of tokens in ascending order, with gaps between them. Under a causal mask a later token
 * sees more, so that parts of one range each would have unequal work. The zig-zag cut divides the sequence into 2c
 * chunks, and gives rank r of c the chunks r and 2c - 1 - r (Zhu's ring-flash-attention; Llama 3, arXiv 2407.21783);
 * the length of the sequence may be any number. If a sequence is made of documents, the cut may follow them
 * (document_cut.h). Every rank computes the same cut by itself. */
#ifndef TRI_MESH_SEQUENCE_CUT_H
#define TRI_MESH_SEQUENCE_CUT_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_token_range {
  int64_t first, end;
} tri_token_range;

typedef struct tri_sequence_cut {
  int64_t parts,           /* number of parts */
      room;                /* maximum number of ranges of all parts together */
  tri_token_range *ranges; /* [room]: part p has the ranges [begins[p], begins[p + 1]) */
  int64_t *before;         /* [room]: tokens of the part before each range */
  int64_t *begins;         /* [parts + 1] */
} tri_sequence_cut;

/* Returns the number of tokens of a part of the zig-zag cut; it differs by at most one between parts. */
int64_t tri_zigzag_rows(int64_t tokens, int64_t parts, int64_t part);
/* Returns chunk i of 2 * parts; it belongs to part i, or to part 2 * parts - 1 - i. */
tri_token_range tri_zigzag_chunk(int64_t tokens, int64_t parts, int64_t i);

/* Creates a cut with empty parts. Release with tri_sequence_cut_destroy. */
tri_status tri_sequence_cut_create(int64_t parts, int64_t room, tri_sequence_cut *out);
void tri_sequence_cut_destroy(tri_sequence_cut *cut);

/* Empties all parts. */
void tri_sequence_cut_clear(tri_sequence_cut *cut);
/* Adds a range at the end of a part; parts must be filled in order, and ranges of a part in ascending order. A range
 * that touches or overlaps the part's last range is merged with it; an empty range is ignored. */
void tri_sequence_cut_append(tri_sequence_cut *cut, int64_t part, tri_token_range range);

/* Creates the zig-zag cut. Release with tri_sequence_cut_destroy. */
tri_status tri_sequence_cut_zigzag(int64_t tokens, int64_t parts, tri_sequence_cut *out);
/* Creates a cut in which each part has the tokens of `together` adjacent parts of `cut`. `together` must divide the
 * number of parts. Release with tri_sequence_cut_destroy. */
tri_status tri_sequence_cut_join(const tri_sequence_cut *cut, int64_t together, tri_sequence_cut *out);
/* Does the reverse of tri_sequence_cut_join: divides the tokens of each part of `cut`, in order, among out->parts /
 * cut->parts adjacent parts of *out. Part p of *out gets rows[p] tokens. *out has been created and is overwritten. */
void tri_sequence_cut_divide(const tri_sequence_cut *cut, const int64_t *rows, tri_sequence_cut *out);

/* Returns the number of tokens of a part that come before `token` of the sequence. If the part has the token, this is
 * its row in the part. */
int64_t tri_sequence_cut_before(const tri_sequence_cut *cut, int64_t part, int64_t token);
/* Returns the number of tokens of a part. */
int64_t tri_sequence_cut_rows(const tri_sequence_cut *cut, int64_t part);
/* Returns the index of the first range of a part that ends after `token`; begins[part + 1] if no range does. */
int64_t tri_sequence_cut_find(const tri_sequence_cut *cut, int64_t part, int64_t token);

#endif
