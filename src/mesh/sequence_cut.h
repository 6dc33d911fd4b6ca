/* Which tokens of a sequence each of the ranks that share it has.
 *
 * A part is a list of ranges of tokens, ascending, none of which touches another. Under a causal mask a later token
 * sees more, so a part that is one range would have less work than the next: the zig-zag cut gives rank r of c chunks r
 * and 2c - 1 - r of 2c (Zhu's ring-flash-attention; Llama 3, arXiv 2407.21783), of any length of the sequence. Where a
 * sequence is made of documents, the cut may follow them (document_cut.h). Plain arithmetic, which every rank does
 * alike. */
#ifndef TRI_MESH_SEQUENCE_CUT_H
#define TRI_MESH_SEQUENCE_CUT_H

#include "base/status.h"

#include <stdint.h>

typedef struct tri_token_range {
  int64_t first, end;
} tri_token_range;

typedef struct tri_sequence_cut {
  int64_t parts, room;     /* room: ranges that there is memory for */
  tri_token_range *ranges; /* of part p: [begins[p], begins[p + 1]) */
  int64_t *before;         /* [room]: tokens of its part before each range */
  int64_t *begins;         /* [parts + 1] */
} tri_sequence_cut;

/* Tokens of a part of the zig-zag cut; parts differ by at most one. */
int64_t tri_zigzag_rows(int64_t tokens, int64_t parts, int64_t part);
/* Chunk i of its 2 * parts, which part i or 2 * parts - 1 - i has. */
tri_token_range tri_zigzag_chunk(int64_t tokens, int64_t parts, int64_t i);

/* No part has anything yet. Release with tri_sequence_cut_destroy. */
tri_status tri_sequence_cut_create(int64_t parts, int64_t room, tri_sequence_cut *out);
void tri_sequence_cut_destroy(tri_sequence_cut *cut);

/* Parts are filled in order, each from its first token on. Clear empties the cut; append gives part p, behind which no
 * other has anything, one more range, which may touch its last or lie over the end of it, and then becomes one with it.
 */
void tri_sequence_cut_clear(tri_sequence_cut *cut);
void tri_sequence_cut_append(tri_sequence_cut *cut, int64_t part, tri_token_range range);

tri_status tri_sequence_cut_zigzag(int64_t tokens, int64_t parts, tri_sequence_cut *out);
/* The same sequence in parts / together parts: each has what that many neighbours have, in order. `together` divides
 * the parts. */
tri_status tri_sequence_cut_join(const tri_sequence_cut *cut, int64_t together, tri_sequence_cut *out);
/* Each part of `cut` in out->parts / cut->parts neighbours' parts of rows[part] tokens, in the order of its tokens. */
void tri_sequence_cut_divide(const tri_sequence_cut *cut, const int64_t *rows, tri_sequence_cut *out);

/* Tokens of a part that come before `token` of the sequence: where that lies among the part's, if it is one of them. */
int64_t tri_sequence_cut_before(const tri_sequence_cut *cut, int64_t part, int64_t token);
int64_t tri_sequence_cut_rows(const tri_sequence_cut *cut, int64_t part);
/* The first range of a part that ends behind a token; the part's end where none does. */
int64_t tri_sequence_cut_find(const tri_sequence_cut *cut, int64_t part, int64_t token);

#endif
