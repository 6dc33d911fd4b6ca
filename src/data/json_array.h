/* The elements of a JSON array that is read in parts, such as a file of records in the form [{...}, {...}]. Only the
 * array itself is parsed: an element is the text between commas, and its reader checks whether it is valid JSON. */
#ifndef TRI_DATA_JSON_ARRAY_H
#define TRI_DATA_JSON_ARRAY_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as {.path = ...}. */
typedef struct tri_json_array {
  const char *path;    /* path of the file, for messages */
  bool opened, closed; /* whether the opening bracket, and the closing bracket, have been read */
  bool has_element;    /* whether an element has been read, and no comma after it */
  bool has_comma;      /* whether a comma has been read, and no element after it */
  int64_t lines;       /* number of newlines so far */
  int64_t elements;    /* number of elements so far */
} tri_json_array;

typedef struct tri_json_element {
  size_t begin, end; /* byte range in the text */
  int64_t line;      /* line on which the element begins, from 1 */
} tri_json_element;

/* Finds the next element of text[*at, bytes), and moves *at to its end. `ended`: whether the text reaches to the end of
 * the file. *found is false at the end of the array, or if the text ends before the end of the next element; then the
 * caller must call again with this *at and more text. Fails with TRI_BAD_FILE if the array does not end, if a comma is
 * missing between elements, or if text follows the array. */
tri_status tri_json_array_next(tri_json_array *array, const char *text, size_t bytes, bool ended, size_t *at,
                               tri_json_element *element, bool *found);

/* Returns whether text begins with an array: '[' is its first byte that is not white space. */
bool tri_json_array_begins(const char *text, size_t bytes);

#endif
