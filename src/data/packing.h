/* Packing of whole pieces of documents into sequences, best-fit. The plan depends only on the number of pieces of each
 * length. A piece is identified by its length and its number among the pieces of that length. So time and memory do not
 * grow with the number of pieces, and the caller can assign the numbers to different pieces in every epoch. */
#ifndef TRI_DATA_PACKING_H
#define TRI_DATA_PACKING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The padding of a masked sequence is cut into documents of this length, which keeps attention's work on padding small
 * without a document for each token. */
enum { TRI_PACKING_FILLING = 64 };

typedef struct tri_packing tri_packing;

/* Plans the packing. counts[sequence + 1]: the number of pieces of each length; counts[0] is ignored. There must be at
 * least one piece. Release with tri_packing_destroy. */
tri_status tri_packing_create(int64_t sequence, const int64_t *counts, tri_packing **out);
void tri_packing_destroy(tri_packing *packing);

/* Returns the number of sequences into which best-fit decreasing packs the pieces. */
int64_t tri_packing_sequences(const tri_packing *packing);
/* Returns the number of tokens of all pieces. */
int64_t tri_packing_tokens(const tri_packing *packing);

/* An iteration over the pieces of one sequence. packing.c uses the members. */
typedef struct tri_packing_cursor {
  const tri_packing *packing;
  int64_t entry, row, done;
} tri_packing_cursor;

tri_packing_cursor tri_packing_at(const tri_packing *packing, int64_t sequence);
/* Moves to the next piece: *length is its length, *number its number among the pieces of this length. Returns false
 * after the last piece. */
bool tri_packing_next(tri_packing_cursor *cursor, int64_t *length, int64_t *number);

#endif
