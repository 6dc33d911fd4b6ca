/* Which lengths share a sequence: whole pieces of documents packed best-fit. The plan knows how many pieces there are
 * of each length and no more: a piece is (length, number among those of its length), so that it takes neither time nor
 * memory by the piece, and who maps numbers to pieces may do it otherwise in every epoch. */
#ifndef TRI_DATA_PACKING_H
#define TRI_DATA_PACKING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* What is left of a masked sequence is cut into documents of this length: attention's work on them stays small, and is
 * not that of a document a token either. */
enum { TRI_PACKING_FILLING = 64 };

typedef struct tri_packing tri_packing;

/* counts[sequence + 1]: pieces of each length from 1 on; at least one. Release with tri_packing_destroy. */
tri_status tri_packing_create(int64_t sequence, const int64_t *counts, tri_packing **out);
void tri_packing_destroy(tri_packing *packing);

/* Sequences that are filled, as many as best-fit decreasing takes; and the tokens in them. */
int64_t tri_packing_sequences(const tri_packing *packing);
int64_t tri_packing_tokens(const tri_packing *packing);

/* The pieces of one sequence, one after the other. */
typedef struct tri_packing_cursor {
  const tri_packing *packing;
  int64_t entry, row, done;
} tri_packing_cursor;

tri_packing_cursor tri_packing_at(const tri_packing *packing, int64_t sequence);
/* false: there are no more. */
bool tri_packing_next(tri_packing_cursor *cursor, int64_t *length, int64_t *number);

#endif
