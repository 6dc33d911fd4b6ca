#include "generation/stop_text.h"

#include "base/memory.h"

#include <string.h>

static bool ends_with(const tri_stop_text *text, const char *stop, size_t bytes) {
  return text->bytes >= bytes && memcmp(text->text + text->bytes - bytes, stop, bytes) == 0;
}

/* Returns the longest stop string that the text ends with, or NULL. */
static const char *find_stop(const tri_stop_text *text) {
  const char *found = NULL;
  for (int i = 0; i < text->num_stops; i++) {
    if (!ends_with(text, text->stops[i], strlen(text->stops[i]))) continue;
    if (found == NULL || strlen(text->stops[i]) > strlen(found)) found = text->stops[i];
  }
  return found;
}

/* Returns how many of the last bytes may be the beginning of a stop string. */
static size_t bytes_in_doubt(const tri_stop_text *text) {
  size_t most = 0;
  for (int i = 0; i < text->num_stops; i++) {
    size_t part = strlen(text->stops[i]) - 1;
    while (part > most && !ends_with(text, text->stops[i], part)) part--;
    if (part > most) most = part;
  }
  return most;
}

tri_status tri_stop_text_add(tri_stop_text *text, const char *piece, size_t bytes) {
  TRI_TRY(tri_reserve("a text", 1, text->bytes + bytes, &text->room, &text->text));
  for (size_t i = 0; i < bytes && text->stop == NULL; i++) {
    text->text[text->bytes++] = piece[i];
    text->stop = find_stop(text);
    if (text->stop != NULL) text->bytes -= strlen(text->stop);
  }
  text->certain = text->stop != NULL ? text->bytes : text->bytes - bytes_in_doubt(text);
  return TRI_OK;
}

void tri_stop_text_end(tri_stop_text *text) { text->certain = text->bytes; }

void tri_stop_text_release(tri_stop_text *text) {
  tri_free(text->text);
  text->text = NULL;
}
