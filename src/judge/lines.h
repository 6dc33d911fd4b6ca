/* Files of JSON lines with an object in each, and the error messages about lines that are not valid. */
#ifndef TRI_JUDGE_LINES_H
#define TRI_JUDGE_LINES_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* Text of a known length; it may contain any code point except NUL. */
typedef struct tri_judge_text {
  char *text; /* allocated with tri_alloc, ends with a NUL */
  size_t bytes;
} tri_judge_text;

void tri_judge_text_release(tri_judge_text *text);

/* Copies a JSON string to *out. Release it with tri_judge_text_release. */
tri_status tri_judge_text_of(const json_t *string, tri_judge_text *out);

/* Removes the ASCII white space at both ends of a text, in place. */
void tri_judge_strip(char *text);

/* LOCAL. Passes the object of each line of a file, without its null values, to `take`. If the file is one JSON array,
 * passes each of the array's elements. `line`: line of the file at which the object begins, from 1. Skips blank lines,
 * and stops after `limit` objects; 0: reads all. Fails with TRI_BAD_FILE if the file is of another kind, if a text is
 * not JSON, not UTF-8 or not an object, if `take` fails with TRI_BAD_FILE, or if the file has no line; the message
 * names the file and the line. Any other failure of `take` is returned unchanged. */
typedef tri_status (*tri_judge_read_line)(void *context, int64_t line, const json_t *object);
tri_status tri_judge_lines(const char *path, int64_t limit, tri_judge_read_line take, void *context);

/* Finds the first of keys[count] that the object has with a value other than null. Sets *key to this key and *out to
 * its value, which the object owns; sets *out to NULL if there is none. Fails with TRI_BAD_FILE if two of the keys have
 * different values. */
tri_status tri_judge_find(const json_t *object, const char *const *keys, int64_t count, const char **key,
                          const json_t **out);
/* Finds the context for the model as tri_judge_find does. Fails with TRI_BAD_FILE if the object has other parts of a
 * context, because these would be ignored. */
tri_status tri_judge_find_context(const json_t *object, const char *const *keys, int64_t count, const char **key,
                                  const json_t **out);

#endif
