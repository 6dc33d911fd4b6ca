/* Files of JSON lines, an object each, and what is said of one that will not do. */
#ifndef TRI_JUDGE_LINES_H
#define TRI_JUDGE_LINES_H

#include "base/status.h"

#include <jansson.h>
#include <stdint.h>

/* Text of a known length; it may hold any code point but NUL. */
typedef struct tri_judge_text {
  char *text; /* of tri_alloc, with a NUL behind it */
  size_t bytes;
} tri_judge_text;

void tri_judge_text_release(tri_judge_text *text);

/* A copy of a string of JSON; *out is released by tri_judge_text_release. */
tri_status tri_judge_text_of(const json_t *string, tri_judge_text *out);

/* LOCAL. Gives `take` each line's object in turn, or each element of a file that is one JSON array. Blank lines are
 * none. What is not JSON, not UTF-8, not an object, or is refused by `take` is TRI_BAD_FILE with the file and the line;
 * a file without any line, too. */
typedef tri_status (*tri_judge_take)(void *context, int64_t line, const json_t *object);
tri_status tri_judge_lines(const char *path, tri_judge_take take, void *context);

/* The first of the keys that the object has, and not as null: its value, and the key; NULL if it has none. Two of
 * them that say something else are TRI_BAD_FILE. */
tri_status tri_judge_find(const json_t *object, const char *const *keys, int64_t count, const char **key,
                          const json_t **out);
/* The same of what a model is given; what data sets give beside it, and would be ignored, is TRI_BAD_FILE. */
tri_status tri_judge_find_context(const json_t *object, const char *const *keys, int64_t count, const char **key,
                                  const json_t **out);

#endif
