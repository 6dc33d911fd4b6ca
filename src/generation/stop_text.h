/* Text that ends before the first stop string in it. The result does not depend on how the text is cut into pieces.
 * Bytes are *certain*, and may be shown, if they can no longer be the beginning of a stop string. The first stop string
 * is the one whose last byte comes first; if several end at that byte, the longest of them. */
#ifndef TRI_GENERATION_STOP_TEXT_H
#define TRI_GENERATION_STOP_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tri_stop_text {
  const char *const *stops; /* [num_stops], none of them empty */
  int num_stops;
  char *text; /* [bytes], without the stop string that ended the text */
  size_t bytes, room;
  size_t certain;   /* leading bytes that are certain */
  const char *stop; /* the stop string that ended the text; NULL: none */
} tri_stop_text;

/* Appends a piece to the text; a new text has only .stops and .num_stops set. Ignores bytes after a stop string. */
tri_status tri_stop_text_add(tri_stop_text *text, const char *piece, size_t bytes);
/* Marks all of the text as certain after its last piece. */
void tri_stop_text_end(tri_stop_text *text);
void tri_stop_text_release(tri_stop_text *text);

#endif
