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

/* Copies a JSON string; release *out with tri_judge_text_release. */
tri_status tri_judge_text_of(const json_t *string, tri_judge_text *out);

/* Removes white space of ASCII at both ends. */
void tri_judge_strip(char *text);

/* LOCAL. Passes the object of each line to `take`, or each element of a file that is one JSON array. Blank lines are
 * skipped. TRI_BAD_FILE, with the file and the line, for text that is not JSON, not UTF-8 or not an object, for an
 * object that `take` refuses, and for a file without any line. */
typedef tri_status (*tri_judge_read_line)(void *context, int64_t line, const json_t *object);
tri_status tri_judge_lines(const char *path, tri_judge_read_line take, void *context);

/* Finds the first of the keys that the object has with a value other than null: sets *out to the value and *key; NULL
 * if there is none. TRI_BAD_FILE if two of the keys have different values. */
tri_status tri_judge_find(const json_t *object, const char *const *keys, int64_t count, const char **key,
                          const json_t **out);
/* Finds the context for the model with tri_judge_find. TRI_BAD_FILE if the object has further parts of a context
 * that would be ignored. */
tri_status tri_judge_find_context(const json_t *object, const char *const *keys, int64_t count, const char **key,
                                  const json_t **out);

#endif
