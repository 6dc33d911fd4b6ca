/* The elements of a JSON array that is read in parts, such as a file of records in the form [{...}, {...}]. Only the
 * array itself is looked at: an element is what stands between its commas, and whether it is valid JSON is its reader's
 * to find out. */
#ifndef TRI_DATA_JSON_ARRAY_H
#define TRI_DATA_JSON_ARRAY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {.path = ...}. */
typedef struct tri_json_array {
  const char *path;    /* for messages */
  bool opened, closed; /* its brackets have been read */
  bool has_element;    /* an element has been read, and no comma after it */
  bool has_comma;      /* a comma has been read, and no element after it */
  int64_t lines;       /* newlines before what is not read yet */
  int64_t elements;    /* found so far */
} tri_json_array;

typedef struct tri_json_element {
  size_t begin, end; /* in the text */
  int64_t line;      /* in which it begins, from 1 */
} tri_json_element;

/* The next element of text[*at, bytes), which `ended` says is all that is left of the file. *at moves behind what was
 * read. *found is false at the end of the array, and where the text ends before the element does: call again with *at
 * unchanged and more text. An array that does not end, elements without a comma between them, and text behind the array
 * are TRI_BAD_FILE. */
tri_status tri_json_array_next(tri_json_array *array, const char *text, size_t bytes, bool ended, size_t *at,
                               tri_json_element *element, bool *found);

/* Whether text begins with an array: '[' is its first byte that is not white space. */
bool tri_json_array_begins(const char *text, size_t bytes);

#endif
