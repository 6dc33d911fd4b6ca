/* Prompts from files and from standard input. */
#ifndef TRI_CLI_RUNNING_PROMPTS_H
#define TRI_CLI_RUNNING_PROMPTS_H

#include "generation/written.h"

/* Starts as {0}. */
typedef struct tri_prompts {
  tri_prompt *list;
  int64_t count, room;
} tri_prompts;

tri_status tri_prompts_add(tri_prompts *prompts, const char *text, size_t bytes);
/* Adds a whole file as one prompt, without the newline at its end. If `path` is NULL, reads standard input. */
tri_status tri_prompts_add_file(tri_prompts *prompts, const char *path);
/* Adds each line of a file as a prompt. In a file NAME.jsonl a line is {"prompt": "..."} or a string, in JSON. Ignores
 * empty lines. If `path` is NULL, reads plain lines from standard input. */
tri_status tri_prompts_add_lines(tri_prompts *prompts, const char *path);
void tri_prompts_release(tri_prompts *prompts);

#endif
