/* Text that ends before the first of some strings, whichever pieces it comes in. A piece of text is certain, and may be
 * shown, once it can no longer be the beginning of one of them. The text stops at the first byte with which one of the
 * strings is there; of several that end with it the longest is meant. */
#ifndef TRI_GENERATION_STOP_TEXT_H
#define TRI_GENERATION_STOP_TEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tri_stop_text {
  const char *const *stops; /* none of them empty */
  int num_stops;
  char *text; /* all of it, without the string that ended it */
  size_t bytes, room;
  size_t certain;   /* bytes that nothing takes back */
  const char *stop; /* the string that ended it; NULL: none has */
} tri_stop_text;

/* Begin with {.stops, .num_stops}. What comes behind the end is ignored. */
tri_status tri_stop_text_add(tri_stop_text *text, const char *piece, size_t bytes);
/* Nothing more comes: all of it is certain. */
void tri_stop_text_end(tri_stop_text *text);
void tri_stop_text_release(tri_stop_text *text);

#endif
