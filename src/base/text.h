/* Beginnings and endings of strings. */
#ifndef TRI_BASE_TEXT_H
#define TRI_BASE_TEXT_H

#include <stdbool.h>
#include <string.h>

static inline bool tri_begins_with(const char *text, const char *beginning) {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

static inline bool tri_ends_with(const char *text, const char *ending) {
  const size_t bytes = strlen(text), tail = strlen(ending);
  return bytes >= tail && strcmp(text + bytes - tail, ending) == 0;
}

#endif
